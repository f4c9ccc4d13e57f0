"""The linear maps in front of a normalizer: they own W, and ask the normalizer about it."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .normalizer import Identity, Normalizer

Norm = Callable[[int], Normalizer]
"""A factory that makes the normalizer of so many units; models are handed one."""


class Layer(nn.Module, ABC):
    """Ba et al. (2016), eq. 1 and 5 without f: a = W x, normalized.

    There is no bias inside ``a`` unless ``bias_inside``: it would be taken out again by
    BatchNorm, and breaks the scale invariances of LayerNorm.

    Args:
        shape: the shape of W, units first.
        norm: makes the normalizer of that many units.
        bias_inside: whether a = W x + b_inside.
    """

    def __init__(self, shape: tuple[int, ...], norm: Norm, *, bias_inside: bool) -> None:
        super().__init__()
        units = shape[0]
        self.W = nn.Parameter(torch.empty(shape))
        self.b_inside = nn.Parameter(torch.zeros(units)) if bias_inside else None
        self.norm = norm(units)
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draw W from U(-1/sqrt(D), 1/sqrt(D)), torch's choice, and set b_inside to 0.

        D counts all that one unit reads. The normalizer is told of the new W and may set its
        gain by it; nothing else of it changes.
        """
        bound = self.W[0].numel() ** -0.5
        nn.init.uniform_(self.W, -bound, bound, generator=generator)
        if self.b_inside is not None:
            nn.init.zeros_(self.b_inside)
        self.norm.start(self.W)

    @abstractmethod
    def summed(self, x: Tensor, W: Tensor) -> Tensor:
        """The summed inputs ``a`` (B, H) of x (B, D), with ``W`` (H, D) in place of its own."""

    def forward(self, x: Tensor, t: int | None = None) -> Tensor:
        norm, W = self.norm, self.W
        return norm(self.summed(x, norm.weight(W)), W, t)


class Linear(Layer):
    """Dense: x (*cases, D) to (*cases, H). Of S stacked models: x (S, B, D) to (S, B, H).

    Args:
        inputs: D.
        units: H.
        norm: makes the normalizer of H units. The layer without normalization, eq. 1, is
            ``Linear(D, H, Identity, bias_inside=True)``.
        bias_inside: whether a = W x + b_inside.
    """

    def __init__(
        self, inputs: int, units: int, norm: Norm = Identity, *, bias_inside: bool = False
    ) -> None:
        super().__init__((units, inputs), norm, bias_inside=bias_inside)

    stacks = True

    def summed(self, x: Tensor, W: Tensor) -> Tensor:
        if W.dim() == 2:
            return F.linear(x, W, self.b_inside)
        if self.b_inside is None:  # W (S, H, D) and x (S, B, D) of S models
            return torch.bmm(x, W.mT)
        return torch.baddbmm(self.b_inside.unsqueeze(1), x, W.mT)


class Conv2d(Layer):
    """The same at every position: x (B, D, height, width) to (B, H, height', width').

    ``norm`` must make normalizers of two spatial axes: ``partial(LayerNorm, space=2)``.

    Args:
        inputs: D.
        units: H.
        kernel: height and width of the kernel.
        norm: makes the normalizer of H units.
        padding: zeros around the picture; with any, what is constant over space is no
            longer so at the border.
        bias_inside: whether a = W x + b_inside.
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
        super().__init__((units, inputs, kernel, kernel), norm, bias_inside=bias_inside)
        self.padding = padding

    def summed(self, x: Tensor, W: Tensor) -> Tensor:
        return F.conv2d(x, W, self.b_inside, padding=self.padding)
