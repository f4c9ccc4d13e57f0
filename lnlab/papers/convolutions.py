"""Section 6.7 of Ba et al. (2016): convolutional nets with every normalizer.

The section has words and no number: nets, data, optimizer and size are open, and what stands
in their place here is said field by field.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.feature_maps import (
    coefficient_of_variation,
    contrast,
    map_statistics,
    unit_contributions,
)
from lnlab.data import Images, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.nn import (
    BatchNorm,
    Conv2d,
    GroupNorm,
    Identity,
    InstanceNorm,
    LayerNorm,
    Linear,
    NormLayer,
    WeightNorm,
    WeightStandardization,
)
from lnlab.nn.linear import DENSE_INITS, Layer
from lnlab.papers.classification import Classification, measured
from lnlab.training import Evaluation, setting

# A LeNet and a ResNet-8, with any normalizer at every layer but the logits.


GROUPS = 2
"""Groups of group norm: 2 divides the units of every layer here."""


class Normalizers(NamedTuple):
    """The normalizers of an arm: of its convolutions, and of its dense hidden layers."""

    convolutions: NormLayer
    dense: NormLayer


_grouped = partial(GroupNorm, GROUPS)

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
    "zeros": {"padding_mode": "zeros"},
    "reflection": {"padding_mode": "reflect"},
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
    inputs: int, units: int, kernel: int, norm: NormLayer, padding: str, stride: int = 1
) -> Conv2d:
    """A convolution that keeps the size of a map, stride aside; without padding it does not."""
    around = PADDINGS[padding]
    edge = {} if around is None else {"padding": kernel // 2, **around}
    return Conv2d(inputs, units, kernel, norm, stride=stride, bias=_plain(norm, units), **edge)


def dense(inputs: int, units: int, norm: NormLayer) -> Linear:
    """A dense hidden layer."""
    return Linear(inputs, units, norm, bias=_plain(norm, units))


def _plain(norm: NormLayer, units: int) -> bool:
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
        self.logits = Linear(84, classes, Identity, bias=True)

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

    def __init__(self, inputs: int, units: int, norm: NormLayer, padding: str) -> None:
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
        self.logits = Linear(64, classes, Identity, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(F.relu(self.stem(centred(x, self.shape))))
        return self.logits(h.mean((2, 3)))


NETS: dict[str, Callable[..., Net]] = {"lenet": LeNet, "resnet8": ResNet8}


SOME = 500
"""The number of cases of each split, the first ones, that are measured on the way, unless fewer
are tested; of the training set at the end, too."""
PROBED = 250
"""The number of test cases, the first ones, by which units are compared by their place, unless
fewer are tested."""


@dataclass(frozen=True)
class Experiment(Classification):
    """One arm at one batch size, its seeds trained from paired starts.

    Each seed has the same initial W and the same batches in every arm.
    """

    norm: str = setting("layer", choices=ARMS)
    architecture: str = setting("lenet", choices=NETS)
    """A LeNet, or a ResNet of eight layers."""
    padding: str = setting("zeros", choices=PADDINGS)
    """The border of the pictures and of the maps."""
    data: str = "cifar10"
    """``shapes``, ``cifar10``, ``cifar10=PATH``; ``mnist`` or ``idx=PATH`` for a LeNet."""
    train_size: int = setting(0, least=0)
    """The number of pictures to train on, the first ones of the training set; 0: all."""
    batch_size: int = 128
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 10
    learning_rate: float = 1e-3
    test_size: int = setting(0, least=0)
    """The number of test and of validation cases, the first ones, that are measured at the
    end; 0: all."""
    initialisation: str = setting("he", choices=DENSE_INITS)
    """"he" is N(0, 2/D), "torch" U(-1, 1)/sqrt(D), "authors" U(-0.1, 0.1)."""

    name = "convolutions"

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        return {
            "smoke": cls(
                data="shapes",
                train_size=256,
                batch_size=64,
                epochs=1,
                test_size=100,
                seeds=(0, 1),
            ),
            "notebook": cls(
                data="shapes", train_size=1_500, batch_size=32, epochs=2, test_size=500
            ),
            "paper": cls(),
        }

    def dataset(self) -> Any:
        """:class:`~lnlab.data.Images`, with as many training pictures as are asked for.

        Raises:
            ValueError: if pictures are held out besides, where the data have a validation set.
        """
        if self.valid_size:
            raise ValueError(
                "valid_size: pictures have a validation set of their own, leave it."
            )
        return load(self.data, most=self.train_size or None)

    def model(self, seed: int, dataset: Images) -> nn.Module:
        """The net of one seed; its W depends on the seed and on the layer's place and size."""
        net = NETS[self.architecture](
            dataset.shape, dataset.classes, ARMS[self.norm], self.padding
        )
        layers = [layer for layer in net.modules() if isinstance(layer, Conv2d | Linear)]
        own = torch.randint(2**62, (len(layers),), generator=_generator(seed))
        with torch.no_grad():
            for layer, number in zip(layers, own.tolist(), strict=True):
                W = layer.W.flatten(1).clone()
                drawn = DENSE_INITS[self.initialisation](W, _generator(number))
                layer.W.copy_(drawn.view_as(layer.W))
                layer.norm.initialize(layer.W)
        if not self.fused:
            return net
        with warnings.catch_warnings():  # rules on the weights have none
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(net)

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """Before the first update, and after every epoch."""
        return self.every(updates_per_epoch, updates_per_epoch)

    def log_points(self, updates_per_epoch: int) -> set[int]:
        """Log-spaced through the first epoch, and then after every half epoch."""
        return super().eval_points(updates_per_epoch)

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, list[float]]:
        """Per seed, in evaluation mode: NLL (nats) and error rate of test and validation, NLL
        of training cases; at a glance no test. Before the first and after the last update also
        units by their place (:func:`placed`)."""
        few = min(SOME, self.test_size or SOME)
        some = (self.test_size or None) if evaluation is Evaluation.FINAL else few
        found = {"train_nll": measured(model, dataset.train, few)["nll"]}
        if dataset.valid is not None:
            valid = measured(model, dataset.valid, some)
            found |= {"valid_nll": valid["nll"], "valid_error": valid["error"]}
        if evaluation is Evaluation.LIGHT:
            return found
        test = measured(model, dataset.test, some)
        found |= {"test_nll": test["nll"], "test_error": test["error"]}
        if evaluation in (Evaluation.INITIAL, Evaluation.FINAL):
            cases = min(PROBED, self.test_size or PROBED)
            each = [placed(net, dataset, cases) for net in model.unstack()]
            found |= {name: [one[name] for one in each] for name in each[0]}
        return found


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def placed(net: nn.Module, dataset: Images, cases: int = PROBED) -> dict[str, float]:
    """Units by their place: 6.7's explanation in numbers, means over layers, of one net.

    ``border_active`` and ``center_active`` are parts of cases, ``border_shift`` is Cohen's d;
    see :class:`~lnlab.analysis.feature_maps.Contrast`. ``map_deviation`` and
    ``dense_deviation`` are the relative deviations of the units' shares in the loss, of
    convolutions and of dense layers.

    Args:
        cases: of how many test cases, the first ones.
    """
    assert isinstance(net, Net)
    x, y = dataset.test.x[:cases], dataset.test.y[:cases]
    place = next(net.parameters()).device
    x, y = x.to(place), y.to(place)
    convolutions, dense = net.of(Conv2d), net.of(Linear)
    found = [contrast(of) for of in map_statistics(net, x, convolutions).values()]
    border, middle, shift = (sum(part) / len(found) for part in zip(*found, strict=True))
    shares = unit_contributions(
        net, x, y, [*convolutions, *dense], lambda o, y: F.cross_entropy(o, y, reduction="sum")
    )
    unlike = {name: coefficient_of_variation(share) for name, share in shares.items()}
    result = {"border_active": border, "center_active": middle, "border_shift": shift}
    for word, layers in (("map_deviation", convolutions), ("dense_deviation", dense)):
        if layers:
            result[word] = sum(unlike[name] for name in layers) / len(layers)
    return result
