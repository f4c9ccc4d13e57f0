"""Normalizers that are no rule for (mu, sigma) and share only the call."""

import torch
from torch import Tensor, nn

from lnlab.nn.layer import LayerNorm
from lnlab.nn.normalizer import Normalizer, Root, at_least_float32, outside_root


class AdaNorm(LayerNorm):
    r"""AdaNorm: Xu et al. (2019), section 5, C (1 - k n) n with n = (a - mu)/sigma.

    The factor :math:`\phi(n) = C (1 - k n)` is held constant in the backward pass. It has
    no gain and no bias. The paper's sigma divides by H and has no eps; their code divides by
    H-1 (``correction=1``) and adds eps outside the root.

    Examples:
        >>> norm = lnlab.nn.AdaNorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    def __init__(
        self,
        units: int,
        *,
        C: float = 1.0,
        k: float = 0.1,
        eps: float = 1e-5,
        root: Root = outside_root,
        correction: int = 0,
        space: int = 0,
    ) -> None:
        super().__init__(units, eps, False, root=root, correction=correction, space=space)
        self.C, self.k = C, k

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        n = super().forward(at_least_float32(a), W, t)
        # Without detach the slope of C (1 - k n) n would be C (1 - 2 k n); with phi held
        # constant, as there, it is C (1 - k n).
        phi = self.C * (1 - self.k * n)
        return (phi.detach() * n).to(a.dtype)


class DyT(Normalizer):
    """Dynamic tanh: Zhu et al. (2025), eq. 1, g tanh(alpha a) + b, without statistics.

    alpha, one learned number, starts at 0.5. It shares no invariance with LayerNorm.

    Examples:
        >>> norm = lnlab.nn.DyT(16)
        >>> h = norm(torch.randn(4, 16))
    """

    stacks = True

    def __init__(self, units: int, *, alpha: float = 0.5, space: int = 0) -> None:
        super().__init__(units, space=space)
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.g = nn.Parameter(torch.ones(units))
        self.b = nn.Parameter(torch.zeros(units))

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        squashed = self.squash(at_least_float32(a))
        return (self.broadcast_units(self.g) * squashed + self.broadcast_units(self.b)).to(
            a.dtype
        )

    def squash(self, a: Tensor) -> Tensor:
        """Return tanh(alpha a)."""
        return (_broadcast_per_model(self.alpha, a) * a).tanh()


class Derf(DyT):
    """Dynamic erf: Chen et al. (2025), g erf(alpha a + s) + b, without statistics.

    alpha and s, two learned numbers, start at 0.5 and 0. It shares no invariance with
    LayerNorm.

    Examples:
        >>> norm = lnlab.nn.Derf(16)
        >>> h = norm(torch.randn(4, 16))
    """

    stacks = True

    def __init__(
        self, units: int, *, alpha: float = 0.5, s: float = 0.0, space: int = 0
    ) -> None:
        super().__init__(units, alpha=alpha, space=space)
        self.s = nn.Parameter(torch.tensor(s))

    def squash(self, a: Tensor) -> Tensor:
        """Return erf(alpha a + s)."""
        return (_broadcast_per_model(self.alpha, a) * a + _broadcast_per_model(self.s, a)).erf()


def _broadcast_per_model(scalar: Tensor, a: Tensor) -> Tensor:
    """Reshape a number (), or those of S models (S,), to broadcast with a (*S, ..., H)."""
    return scalar.view(-1, *(1,) * (a.dim() - 1)) if scalar.dim() else scalar
