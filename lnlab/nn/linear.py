"""The linear maps in front of a normalizer: they own W, and ask the normalizer about it."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn.normalizer import Identity, Normalizer

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
        units, inputs, *_ = shape
        if min(units, inputs) < 1:
            raise ValueError(f"inputs is {inputs}, units {units}: give at least 1 of each.")
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
        # rules on weights begin at the function of the plain layer: weight norm has g = ||w||
        self.norm.start(self.W)

    @abstractmethod
    def summed(self, x: Tensor, W: Tensor) -> Tensor:
        """The summed inputs ``a`` (B, H) of x (B, D), with ``W`` (H, D) in place of its own."""

    def forward(self, x: Tensor, t: int | None = None) -> Tensor:
        """The normalized summed inputs (B, H) of x (B, D) at time step ``t``."""
        # weight(W) is what multiplies x (weight standardization changes it), and W itself goes
        # along for rules whose sigma is that of the weights (weight norm)
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
            # eq. 1: a_i = w_i · x, and b inside a only if asked for
            return F.linear(x, W, self.b_inside)
        if self.b_inside is None:  # W (S, H, D) and x (S, B, D) of S models
            return torch.bmm(x, W.mT)
        return torch.baddbmm(self.b_inside.unsqueeze(1), x, W.mT)


EDGES = {"zeros": "constant", "reflection": "reflect"}
"""The borders that a picture may be given, and the name that torch has for each."""


class Conv2d(Layer):
    """The same at every position: x (B, D, height, width) to (B, H, height', width').

    ``norm`` must make normalizers of two spatial axes: ``partial(LayerNorm, space=2)``.

    Args:
        inputs: D.
        units: H.
        kernel: height and width of the kernel.
        norm: makes the normalizer of H units.
        stride: the step from one position to the next.
        padding: how many pixels stand around the picture.
        edge: what they are: ``"zeros"``, with which what is constant over space is no longer
            so at the border, or ``"reflection"``, the picture mirrored at its border pixels.
        dilation: the step from one pixel that a kernel reads to the next.
        bias_inside: whether a = W x + b_inside.

    Raises:
        ValueError: for inputs, units, a kernel, stride or dilation below 1, a padding below 0,
            another edge.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        kernel: int,
        norm: Norm,
        *,
        stride: int = 1,
        padding: int = 0,
        edge: str = "zeros",
        dilation: int = 1,
        bias_inside: bool = False,
    ) -> None:
        if min(kernel, stride, dilation) < 1 or padding < 0:
            raise ValueError(
                f"kernel is {kernel}, stride {stride}, dilation {dilation}, padding {padding}: "
                "give at least 1, 1, 1 and 0."
            )
        if edge not in EDGES:
            raise ValueError(f"edge is {edge!r}: choose from {', '.join(EDGES)}.")
        super().__init__((units, inputs, kernel, kernel), norm, bias_inside=bias_inside)
        self.stride, self.padding, self.edge, self.dilation = stride, padding, edge, dilation

    def summed(self, x: Tensor, W: Tensor) -> Tensor:
        padding = self.padding
        if padding and self.edge != "zeros":
            # conv2d itself pads with zeros only
            x, padding = F.pad(x, (padding,) * 4, EDGES[self.edge]), 0
        return F.conv2d(x, W, self.b_inside, self.stride, padding, self.dilation)

    def extra_repr(self) -> str:
        H, D, kernel, _ = self.W.shape
        return (
            f"{D}, {H}, kernel={kernel}, stride={self.stride}, padding={self.padding}, "
            f"edge={self.edge}, dilation={self.dilation}"
        )


# The start of weights that are not recurrent; that of cells is :data:`lnlab.nn.STARTS`.


Initialise = Callable[[Tensor, torch.Generator], Tensor]

INITIALISATIONS: dict[str, Initialise] = {
    # N(0, 2/D) keeps the mean square of a ReLU layer: half of the units are 0, so that
    # E[h²] = Var[a]/2 = D Var[W] E[x²]/2
    "he": lambda W, generator: W.normal_(0, (2 / W.shape[1]) ** 0.5, generator=generator),
    "torch": lambda W, generator: W.uniform_(-1, 1, generator=generator) / W.shape[1] ** 0.5,
    "authors": lambda W, generator: W.uniform_(-0.1, 0.1, generator=generator),
}
"""Rules by which W is drawn; the paper states none. "he" is He et al. (2015), N(0, 2/D),
which does not leave the net without normalization at a disadvantage; "authors" is the
U(-0.1, 0.1) of their published recurrent experiments."""
