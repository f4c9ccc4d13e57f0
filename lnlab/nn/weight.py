"""Rules that read the weights of a unit instead of its pre-activations.

A row ``w_i`` of ``W`` holds all incoming weights of unit i; a convolution's kernel (C, D,
height, width) is a row of D * height * width.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.nn.batch import BatchNorm
from lnlab.nn.normalizer import (
    AffineNormalizer,
    MuSigma,
    Normalizer,
    Root,
    at_least_float32,
    inside_root,
)


def flatten_weight_rows(W: Tensor | None, normalizer: Normalizer) -> Tensor:
    """Return ``W`` as (H, inputs), in at least float32."""
    if W is None:
        name = type(normalizer).__name__
        raise ValueError(f"{name} normalizes by the weights: call norm(a, W).")
    if W.dim() < 2 or len(W) != normalizer.units:
        raise ValueError(
            f"W has shape {tuple(W.shape)} for {normalizer.units} units: give (H, D), one row "
            "a unit."
        )
    return at_least_float32(W).flatten(1)


class DividedByRowNorm(AffineNormalizer):
    """A normalizer with sigma_i = ||w_i||, whose gain starts there, so that g/sigma = 1."""

    def row_norms(self, W: Tensor | None) -> Tensor:
        """Return ||w_i||, the lengths of the rows of W (H, D), shaped to broadcast."""
        return self.broadcast_units(flatten_weight_rows(W, self).norm(dim=1))

    @torch.no_grad()
    def initialize_from_weights(self, W: Tensor) -> None:
        if self.g is not None:
            self.g.copy_(self.row_norms(W).view_as(self.g))


class WeightNorm(DividedByRowNorm):
    """Weight normalization: Salimans & Kingma (2016), eq. 2, mu = 0 and sigma_i = ||w_i||.

    The gain starts at ||w_i||, torch's choice, so that the layer starts as the one without
    normalization; the paper's own start is data-dependent. No eps.

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.WeightNorm)
        >>> h = layer(torch.randn(4, 8))
    """

    def __init__(self, units: int, *, affine: bool = True, space: int = 0) -> None:
        super().__init__(units, eps=0.0, affine=affine, space=space)

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        # eq. 5 is then g_i (w_i · x) / ||w_i|| + b_i: their w = g v/||v||, our W being their v
        return MuSigma(a.new_zeros(()), self.row_norms(W))


class MeanOnlyBatchNorm(DividedByRowNorm, BatchNorm):
    """Weight norm with mean-only batch norm: Salimans & Kingma (2016), section 4.

    mu is BatchNorm's (running mean in evaluation), sigma_i = ||w_i||. The gain starts as
    WeightNorm's.

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.MeanOnlyBatchNorm)
        >>> h = layer(torch.randn(4, 8))
    """

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        # mu over the batch removes what W adds to all examples; sigma needs no statistic of a
        return MuSigma(super().stats(a, W, t).mu, self.row_norms(W))


class WeightStandardization(Normalizer):
    r"""Weight standardization: Qiao et al. (2019), section 3, rows of mean 0 and variance 1.

    .. math:: \hat w_i = (w_i - \mu_{w_i}) / \sqrt{\sigma_{w_i}^2 + \epsilon}

    It has no gain and no bias: in the paper another normalizer, group norm or batch norm,
    follows. The layer that owns W calls :meth:`effective_weight`.

    Args:
        units: H.
        eps: added to the variance.
        root: eps inside or outside of the root; their code has it outside.
        correction: 0 divides by the number of weights of a row; 1, as in their code for
            PyTorch, by one less.
        space: the number of spatial axes.
        behind: makes the normalizer that follows, of the same units and space; None: none.

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.WeightStandardization)
        >>> h = layer(torch.randn(4, 8))
    """

    def __init__(
        self,
        units: int,
        *,
        eps: float = 1e-5,
        root: Root = inside_root,
        correction: int = 0,
        space: int = 0,
        behind: Callable[..., Normalizer] | None = None,
    ) -> None:
        super().__init__(units, space=space)
        self.behind = behind(units, space=space) if behind else None
        self.eps, self.root, self.correction = eps, root, correction

    def effective_weight(self, W: Tensor) -> Tensor:
        w = flatten_weight_rows(W, self)
        # a row of one weight has no unbiased variance; its mean takes all of it away
        correction = min(self.correction, w.shape[1] - 1)
        var, mean = torch.var_mean(w, dim=1, correction=correction, keepdim=True)
        return ((w - mean) / self.root(var, self.eps)).reshape(W.shape).to(W.dtype)

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        return a if self.behind is None else self.behind(a, W, t)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, eps={self.eps}"


class SpectralNorm(AffineNormalizer):
    """Spectral normalization: Miyato et al. (2018), eq. 8, algorithm 1.

    mu = 0, sigma = the largest singular value of W, by power iteration from the buffer ``u``
    (H,), which changes in training only. The paper has no g and b behind it.

    Args:
        units: H.
        iterations: how many per training step; :attr:`warm_up` at the start, as in torch.
        eps: the least length by which a vector of the iteration is divided.

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.SpectralNorm)
        >>> h = layer(torch.randn(4, 8))
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
        # A generator of its own: the arms of a comparison draw the same weights after it.
        generator = torch.Generator("cpu").manual_seed(units)
        u = F.normalize(torch.randn(units, generator=generator, device="cpu"), dim=0)
        self.register_buffer("u", u.to(torch.get_default_device()))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        w = flatten_weight_rows(W, self)
        if self.training:
            self.run_power_iteration(w, self.iterations)
        # sigma = u^T W v with u and v held constant: its gradient by W is u v^T, that of the
        # largest singular value once the iteration has converged
        u = F.normalize(self.u.to(w.dtype), dim=0, eps=self.eps)
        v = F.normalize(w.detach().T @ u, dim=0, eps=self.eps)
        return MuSigma(a.new_zeros(()), u @ (w @ v))

    @torch.no_grad()
    def run_power_iteration(self, w: Tensor, iterations: int) -> None:
        """Move ``u`` towards the first left singular vector of ``w`` (H, D)."""
        u = self.u.to(w.dtype)
        for _ in range(iterations):
            # each turn multiplies the part of u along the i-th singular vector by sigma_i²
            v = F.normalize(w.T @ u, dim=0, eps=self.eps)
            u = F.normalize(w @ v, dim=0, eps=self.eps)
        self.u.copy_(u)

    def initialize_from_weights(self, W: Tensor) -> None:
        self.run_power_iteration(flatten_weight_rows(W, self).detach(), self.warm_up)
