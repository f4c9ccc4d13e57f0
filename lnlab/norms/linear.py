"""The linear maps in front of a normalizer: they own W, and ask the normalizer about it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .normalizer import Identity, Normalizer

Norm = Callable[[int], Normalizer]
"""What a model is handed: a factory that makes the normalizer of so many units."""


class Linear(nn.Module):
    """Ba et al. (2016), eq. 1 and 5 without f: a = W x, normalized.

    x (*cases, D) to (*cases, H). There is no bias inside ``a`` unless ``bias_inside``: it
    would be taken out again by BatchNorm, and breaks the scale invariances of LayerNorm.

    Args:
        inputs: D.
        units: H.
        norm: makes the normalizer of H units.
        bias_inside: whether a = W x + b_inside. The layer without normalization, eq. 1, is
            ``Linear(D, H, Identity, bias_inside=True)``.
    """

    def __init__(
        self, inputs: int, units: int, norm: Norm = Identity, *, bias_inside: bool = False
    ) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(units, inputs))
        self.b_inside = nn.Parameter(torch.zeros(units)) if bias_inside else None
        self.norm = norm(units)
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw W from U(-1/sqrt(D), 1/sqrt(D)), torch's choice; biases 0."""
        bound = self.W[0].numel() ** -0.5
        nn.init.uniform_(self.W, -bound, bound, generator=generator)
        if self.b_inside is not None:
            nn.init.zeros_(self.b_inside)
        self.norm.start(self.W)

    def forward(self, x: Tensor, t: int | None = None) -> Tensor:
        a = F.linear(x, self.norm.weight(self.W), self.b_inside)
        return self.norm(a, self.W, t)


class Conv2d(Linear):
    """:class:`Linear` at every position: x (B, D, height, width) to (B, H, height', width').

    ``norm`` must make normalizers of two spatial axes: ``partial(LayerNorm, space=2)``.

    Args:
        kernel: height and width of the kernel.
        padding: zeros around the picture; with any, what is constant over space is no
            longer so at the border.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        kernel: int,
        norm: Norm,
        *,
        padding: int = 0,
        bias_inside: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        self.W = nn.Parameter(torch.empty(units, inputs, kernel, kernel))
        self.b_inside = nn.Parameter(torch.zeros(units)) if bias_inside else None
        self.norm = norm(units)
        self.padding = padding
        self.reset()

    def forward(self, x: Tensor, t: int | None = None) -> Tensor:
        W = self.norm.weight(self.W)
        return self.norm(F.conv2d(x, W, self.b_inside, padding=self.padding), self.W, t)
