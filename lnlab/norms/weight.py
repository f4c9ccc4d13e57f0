"""Rules that read the weights of a unit instead of its summed inputs.

A row ``w_i`` of ``W`` holds all incoming weights of unit i; a convolution's kernel (C, D,
height, width) is a row of D * height * width.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from .batch import BatchNorm
from .normalizer import AffineNormalizer, Normalizer, Root, Stats, inside_root


def rows(W: Tensor | None, normalizer: Normalizer) -> Tensor:
    """``W`` as (H, inputs); raises ValueError where there is none."""
    if W is None:
        name = type(normalizer).__name__
        raise ValueError(f"{name} normalizes by the weights: call norm(a, W).")
    if len(W) != normalizer.units:
        raise ValueError(f"W has {len(W)} rows for {normalizer.units} units: W is (H, D).")
    return W.flatten(1)


class WeightNorm(AffineNormalizer):
    """Salimans & Kingma (2016), eq. 2: mu = 0, sigma_i = ||w_i||; reads W, not ``a``.

    The gain starts at ||w_i||, torch's choice, so that the layer starts as the one without
    normalization; the paper's own start is data-dependent. No eps.
    """

    def __init__(self, units: int, *, affine: bool = True, space: int = 0) -> None:
        super().__init__(units, eps=0.0, affine=affine, space=space)

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        return Stats(a.new_zeros(()), self.along_units(rows(W, self).norm(dim=1)))

    @torch.no_grad()
    def start(self, W: Tensor) -> None:
        if self.g is not None:
            self.g.copy_(rows(W, self).norm(dim=1))


class MeanOnlyBatchNorm(BatchNorm):
    """Salimans & Kingma (2016), section 4: WeightNorm with mean-only batch normalization.

    mu is BatchNorm's (running mean in evaluation), sigma_i = ||w_i||.
    """

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        sigma = self.along_units(rows(W, self).norm(dim=1))
        return Stats(super().stats(a, W, t).mu, sigma)

    start = WeightNorm.start


class WeightStandardization(Normalizer):
    r"""Qiao et al. (2019), eq. 4-5: each row of W has mean 0 and variance 1; then Identity.

    .. math:: \hat w_i = (w_i - \mu_{w_i}) / \sqrt{\sigma_{w_i}^2 + \epsilon}

    It has no gain and no bias: the paper puts another normalizer behind it.
    """

    def __init__(
        self, units: int, *, eps: float = 1e-5, root: Root = inside_root, space: int = 0
    ) -> None:
        super().__init__(units, space=space)
        self.eps, self.root = eps, root

    def weight(self, W: Tensor) -> Tensor:
        w = rows(W, self)
        var, mean = torch.var_mean(w, dim=1, correction=0, keepdim=True)
        return ((w - mean) / self.root(var, self.eps)).view_as(W)

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        return a

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, eps={self.eps}"


class SpectralNorm(AffineNormalizer):
    """Miyato et al. (2018), eq. 8, algorithm 1: mu = 0, sigma = the largest singular value.

    Found by power iteration from a remembered vector ``u`` (H,), ``iterations`` a training
    step and :attr:`warm_up` of them at the start, as torch does; u moves in training only.
    """

    u: Tensor
    warm_up = 15

    def __init__(
        self,
        units: int,
        *,
        iterations: int = 1,
        eps: float = 1e-12,
        affine: bool = True,
        space: int = 0,
    ) -> None:
        super().__init__(units, eps=eps, affine=affine, space=space)
        self.iterations = iterations
        self.register_buffer("u", F.normalize(torch.randn(units), dim=0))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        w = rows(W, self)
        if self.training:
            self.iterate(w, self.iterations)
        u = self.u.clone()
        v = F.normalize(w.detach().T @ u, dim=0, eps=self.eps)
        return Stats(a.new_zeros(()), u @ (w @ v))

    @torch.no_grad()
    def iterate(self, w: Tensor, iterations: int) -> None:
        """Move ``u`` towards the first left singular vector of ``w`` (H, D)."""
        for _ in range(iterations):
            v = F.normalize(w.T @ self.u, dim=0, eps=self.eps)
            self.u.copy_(F.normalize(w @ v, dim=0, eps=self.eps))

    def start(self, W: Tensor) -> None:
        self.iterate(rows(W, self).detach(), self.warm_up)
