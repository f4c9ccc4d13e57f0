r"""Distributions P(y | x) of an output, as the exponential families of a linear model.

Ba et al. (2016), eq. 10 and 11, in terms of the natural parameters h = a + b (..., H):

.. math:: \log P(y \mid x) = \frac{h^\top y - \eta(h)}{\phi} + c(y, \phi), \qquad
          E[y \mid x] = \eta'(h), \qquad Cov[y \mid x] = \phi\, \eta''(h).

The paper takes H independent outputs, of which :data:`GAUSSIAN` and :data:`BERNOULLI` are
examples; :data:`CATEGORICAL`, the softmax, is the same with outputs that depend on each other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Family:
    """An exponential family with natural parameters h (..., H).

    Attributes:
        name: in words.
        eta: the log partition function, (..., H) to (...).
        mean: its slope f, the transfer function: (..., H) to (..., H).
        curvature: its second derivative, (..., H) to (..., H, H).
        phi: the scale of the variance; 1 but for a Gaussian.

    Raises:
        ValueError: for a phi that is not positive.
    """

    name: str
    eta: Callable[[Tensor], Tensor]
    mean: Callable[[Tensor], Tensor]
    curvature: Callable[[Tensor], Tensor]
    phi: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.phi < float("inf"):
            raise ValueError(f"phi is {self.phi}: a variance is a positive number.")

    def cov(self, h: Tensor) -> Tensor:
        """Cov[y | x] (..., H, H) at h (..., H)."""
        return self.phi * self.curvature(h)

    def kl(self, h: Tensor, moved: Tensor) -> Tensor:
        """D_KL[P(y; h) || P(y; moved)] in nats, (..., H) to (...)."""
        # E[log P(y; h) - log P(y; moved)] by eq. 10: c(y, phi) cancels, and E[y] = eta'(h)
        # makes it what eta at `moved` lies above its tangent at h
        linear = (self.mean(h) * (moved - h)).sum(-1)
        return (self.eta(moved) - self.eta(h) - linear) / self.phi


def _bernoulli(h: Tensor) -> Tensor:
    p = torch.sigmoid(h)
    # eta'' of softplus, p (1 - p), of each output by itself
    return torch.diag_embed(p * (1 - p))


def _categorical(h: Tensor) -> Tensor:
    p = torch.softmax(h, -1)
    # diag(p) - p pᵀ: the probabilities have a sum of 1, and where one rises others fall
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


GAUSSIAN = Family(
    "Gaussian",
    eta=lambda h: h.square().sum(-1) / 2,
    mean=lambda h: h,
    curvature=lambda h: torch.diag_embed(torch.ones_like(h)),
)
BERNOULLI = Family(
    "Bernoulli",
    # softplus is cut off at 20, and has no curvature beyond
    eta=lambda h: torch.logaddexp(h, torch.zeros_like(h)).sum(-1),
    mean=torch.sigmoid,
    curvature=_bernoulli,
)
CATEGORICAL = Family(
    "categorical",
    eta=lambda h: h.logsumexp(-1),
    mean=lambda h: torch.softmax(h, -1),
    curvature=_categorical,
)
FAMILIES = {family.name: family for family in (GAUSSIAN, BERNOULLI, CATEGORICAL)}
