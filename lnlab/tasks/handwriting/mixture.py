"""A mixture of bivariate Gaussians and a pen that is lifted or not: Graves (2013), eq. 15-26.

Everything in logarithms: a density may be larger than any float, a weight smaller.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

STEEP = 8.0
"""The largest |r|: beyond, tanh(r) is 1 in float32 and a density is no number."""
THIN = -12.0
"""The smallest logarithm of a deviation, for the same reason."""


class Gaussians(NamedTuple):
    """The distribution of the next point, of M components.

    Attributes:
        pen: the logit of the pen being lifted behind the point (...).
        log_pi: logarithms of the weights (..., M).
        mu: the means of dx and dy (..., M, 2).
        log_sigma: logarithms of their standard deviations (..., M, 2).
        r: the correlation is tanh(r) (..., M).
    """

    pen: Tensor
    log_pi: Tensor
    mu: Tensor
    log_sigma: Tensor
    r: Tensor


def outputs(components: int) -> int:
    """The numbers that a mixture takes: 121 of 20 components."""
    return 1 + 6 * components


def mixture(y: Tensor, *, floor: float = 0.0, bias: float = 0.0) -> Gaussians:
    """The mixture of a net's outputs y (..., 1 + 6 M).

    Args:
        floor: added to every standard deviation; 0 in Graves (2013).
        bias: Graves (2013), eq. 61 and 62: above 0 what is likely becomes likelier.
    """
    pen, rest = y[..., 0], y[..., 1:].unflatten(-1, (6, -1))
    pi, mu, log_sigma, r = rest.split((1, 2, 2, 1), dim=-2)
    log_sigma = (log_sigma.mT - bias).clamp(min=THIN)
    if floor:
        # log(floor + sigma)
        log_sigma = math.log(floor) + F.softplus(log_sigma - math.log(floor))
    log_pi = (pi.squeeze(-2) * (1 + bias)).log_softmax(-1)
    return Gaussians(pen, log_pi, mu.mT, log_sigma, r.squeeze(-2).clamp(-STEEP, STEEP))


def log_loss(of: Gaussians, points: Tensor) -> Tensor:
    """Minus the logarithm of the probability of each point, in nats (eq. 26).

    Args:
        of: the distribution.
        points: dx, dy and 1 where the pen is lifted (..., 3).
    """
    z = (points[..., None, :2] - of.mu) * (-of.log_sigma).exp()
    rho = of.r.tanh()
    log_rest = 2 * (math.log(2) - of.r - F.softplus(-2 * of.r))  # of 1 - rho^2
    squares = z.square().sum(-1) - 2 * rho * z.prod(-1)
    log_density = (
        -math.log(2 * math.pi) - of.log_sigma.sum(-1) - log_rest / 2
        - squares * (-log_rest).exp() / 2
    )  # fmt: skip
    lifted = F.binary_cross_entropy_with_logits(of.pen, points[..., 2], reduction="none")
    return lifted - (of.log_pi + log_density).logsumexp(-1)


def drawn(of: Gaussians, random: torch.Generator) -> Tensor:
    """Points (B, 3) drawn from mixtures (B,), by random numbers of the CPU.

    With the Cholesky factor of the covariance, (s_1, 0; rho s_2, s_2 sqrt(1 - rho^2)): one who
    multiplies by the covariance itself, as published code does, draws from another density.
    """
    device, of = of.pen.device, Gaussians(*(part.cpu() for part in of))
    chosen = torch.multinomial(of.log_pi.exp(), 1, generator=random).squeeze(-1)
    rows = torch.arange(len(chosen))
    sigma, rho = of.log_sigma[rows, chosen].exp(), of.r[rows, chosen].tanh()
    z = torch.randn(sigma.shape, generator=random, dtype=sigma.dtype)
    second = rho * z[:, 0] + (1 - rho.square()).sqrt() * z[:, 1]
    moved = of.mu[rows, chosen] + sigma * torch.stack([z[:, 0], second], -1)
    lifted = torch.rand(len(chosen), generator=random, dtype=sigma.dtype) < of.pen.sigmoid()
    return torch.cat([moved, lifted.to(sigma)[:, None]], -1).to(device)
