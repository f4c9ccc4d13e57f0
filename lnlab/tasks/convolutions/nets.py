"""A LeNet and a ResNet-8, with any normalizer at every layer but the logits."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import (
    BatchNorm,
    Conv2d,
    GroupNorm,
    Identity,
    InstanceNorm,
    LayerNorm,
    Linear,
    Norm,
    WeightNorm,
    WeightStandardization,
)
from lnlab.nn.linear import Layer

GROUPS = 2
"""Groups of group norm: 2 divides the units of every layer here."""


class Normalizers(NamedTuple):
    """The normalizers of an arm: of its convolutions, and of its dense hidden layers."""

    convolutions: Norm
    dense: Norm


_grouped = partial(GroupNorm, groups=GROUPS)

ARMS: dict[str, Normalizers] = {
    "none": Normalizers(partial(Identity, space=2), Identity),
    "layer": Normalizers(partial(LayerNorm, space=2), LayerNorm),
    "layer, per position": Normalizers(
        partial(LayerNorm, space=2, per_position=True), LayerNorm
    ),
    "batch": Normalizers(partial(BatchNorm, space=2), BatchNorm),
    "group": Normalizers(partial(_grouped, space=2), _grouped),
    "instance": Normalizers(partial(InstanceNorm, affine=True), LayerNorm),
    "weight": Normalizers(partial(WeightNorm, space=2), WeightNorm),
    "weight standardization": Normalizers(
        partial(WeightStandardization, space=2, behind=_grouped),
        partial(WeightStandardization, behind=_grouped),
    ),
}
"""Layer norm over all units and positions, as in the paper; over the units of each position
alone; instance norm has no dense form and is layer norm there; standardized weights have group
norm behind them, as in Qiao et al. (2019). Logits are normalized by none."""

PADDINGS: dict[str, Mapping[str, Any] | None] = {
    "zeros": {"edge": "zeros"},
    "reflection": {"edge": "reflection"},
    "none": None,
}
"""The border of the pictures and of the maps: zeros, their reflection, or nothing, so that
they shrink."""


def centred(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Pictures (B, colours, height, width) of the cases (B, D), pixels 0 to 1 as -2 to 2.

    What is 0, and stands around a picture that is padded with zeros, is then a middle grey.
    """
    colours = shape if len(shape) == 3 else (1, *shape)
    return 4 * (x.unflatten(-1, colours) - 0.5)


class Net(nn.Module):
    """A net from cases (B, D) to logits (B, classes).

    Attributes:
        rectified: the layers whose output is rectified at once, by name, first to last.
        opaque: True, so that seeds compute in turn: side by side each convolution would be one
            of many groups, which takes half again as long.
    """

    rectified: ClassVar[tuple[str, ...]]
    opaque = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def of(self, kind: type[Layer]) -> list[str]:
        """The names of those :attr:`rectified` layers that are of a kind."""
        return [name for name in self.rectified if isinstance(self.get_submodule(name), kind)]


def convolution(
    inputs: int, units: int, kernel: int, norm: Norm, padding: str, stride: int = 1
) -> Conv2d:
    """A convolution that keeps the size of a map, stride aside; without padding it does not."""
    around = PADDINGS[padding]
    edge = {} if around is None else {"padding": kernel // 2, **around}
    return Conv2d(
        inputs, units, kernel, norm, stride=stride, bias_inside=_plain(norm, units), **edge
    )


def dense(inputs: int, units: int, norm: Norm) -> Linear:
    """A dense hidden layer."""
    return Linear(inputs, units, norm, bias_inside=_plain(norm, units))


def _plain(norm: Norm, units: int) -> bool:
    """True if nothing normalizes: then the layer has a bias of its own."""
    return isinstance(norm(units), Identity)


def _refuse_small(shape: tuple[int, ...], least: int, name: str, padding: str) -> None:
    if min(shape[-2:]) < least:
        raise ValueError(
            f"pictures are {shape}: a {name} with padding {padding!r} needs {least} x {least}."
        )


class LeNet(Net):
    """LeCun et al. (1998) as it is taught: 6 and 16 kernels of 5 x 5, 120, 84, logits.

    Each convolution is rectified and halved by the maximum of 2 x 2. Raises ValueError where
    pictures are too small for that.
    """

    rectified = ("first", "second", "third", "fourth")

    def __init__(
        self, shape: tuple[int, ...], classes: int, arm: Normalizers, padding: str
    ) -> None:
        super().__init__(shape)
        lost = 0 if PADDINGS[padding] is not None else 4
        _refuse_small(shape, 5 * lost or 8, "LeNet", padding)
        height, width = (((side - lost) // 2 - lost) // 2 for side in shape[-2:])
        colours = shape[0] if len(shape) == 3 else 1
        self.first = convolution(colours, 6, 5, arm.convolutions, padding)
        self.second = convolution(6, 16, 5, arm.convolutions, padding)
        self.third = dense(16 * height * width, 120, arm.dense)
        self.fourth = dense(120, 84, arm.dense)
        self.logits = Linear(84, classes, Identity, bias_inside=True)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.first(centred(x, self.shape))), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        h = F.relu(self.fourth(F.relu(self.third(h.flatten(1)))))
        return self.logits(h)


class ResidualBlock(nn.Module):
    """He et al. (2016), Fig. 2: f(x + second(f(first(x)))), with a shortcut without weights.

    Where the map shrinks the shortcut leaves out positions, and new units start at 0 (their
    option A).
    """

    def __init__(self, inputs: int, units: int, norm: Norm, padding: str) -> None:
        super().__init__()
        self.stride = 1 if inputs == units else 2
        self.first = convolution(inputs, units, 3, norm, padding, self.stride)
        self.second = convolution(units, units, 3, norm, padding)
        # without padding the first position that is left lies this far inside
        self.start = 0 if PADDINGS[padding] is not None else 1 + self.stride
        self.added = units - inputs

    def forward(self, x: Tensor) -> Tensor:
        a = self.second(F.relu(self.first(x)))
        height, width = a.shape[-2:]
        some = x[..., self.start :: self.stride, self.start :: self.stride]
        return F.relu(a + F.pad(some[..., :height, :width], (0, 0, 0, 0, 0, self.added)))


class ResNet8(Net):
    """He et al. (2016), 4.2, n = 1: 3 x 3 kernels, blocks of 16, 32 and 64 units, their mean
    over the map, logits. Raises ValueError where pictures are too small."""

    rectified = ("stem", "blocks.0.first", "blocks.1.first", "blocks.2.first")

    def __init__(
        self, shape: tuple[int, ...], classes: int, arm: Normalizers, padding: str
    ) -> None:
        super().__init__(shape)
        _refuse_small(shape, 32 if PADDINGS[padding] is None else 16, "ResNet-8", padding)
        colours, norm = shape[0] if len(shape) == 3 else 1, arm.convolutions
        self.stem = convolution(colours, 16, 3, norm, padding)
        sizes = (16, 16), (16, 32), (32, 64)
        self.blocks = nn.Sequential(*(ResidualBlock(D, H, norm, padding) for D, H in sizes))
        self.logits = Linear(64, classes, Identity, bias_inside=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(F.relu(self.stem(centred(x, self.shape))))
        return self.logits(h.mean((2, 3)))


NETS: dict[str, Callable[..., Net]] = {"lenet": LeNet, "resnet8": ResNet8}
