"""Section 6.7 of Ba et al. (2016): convolutional networks with every normalizer.

The section has no number and names no network, data or optimizer: see the fields of
:class:`Experiment` for those used here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.feature_maps import (
    border_contrast,
    coefficient_of_variation,
    map_statistics,
    mean_abs_unit_contributions,
)
from lnlab.data import Images, load
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
from lnlab.nn.linear import DENSE_INITS, LayerWithNorm
from lnlab.papers.classification import (
    Classification,
    MetricsPerSeed,
    check_classifiable,
    nll_and_error_per_seed,
)
from lnlab.training import Evaluation, setting
from lnlab.training.experiment import collate_rows

# A LeNet and a ResNet-8, with any normalizer at every layer but the logits.


GROUPS = 2  # groups of group norm: 2 divides the units of every layer here


class ConvAndDenseNorms(NamedTuple):
    """The normalizers of an arm, for the convolutions and for the dense hidden layers."""

    convolutions: NormLayer
    dense: NormLayer


_grouped = partial(GroupNorm, GROUPS)

ARMS: dict[str, ConvAndDenseNorms] = {
    "none": ConvAndDenseNorms(partial(Identity, space=2), Identity),
    "layer": ConvAndDenseNorms(partial(LayerNorm, space=2), LayerNorm),
    "layer, per position": ConvAndDenseNorms(
        partial(LayerNorm, space=2, per_position=True), LayerNorm
    ),
    "batch": ConvAndDenseNorms(partial(BatchNorm, space=2), BatchNorm),
    "group": ConvAndDenseNorms(partial(_grouped, space=2), _grouped),
    "instance": ConvAndDenseNorms(partial(InstanceNorm, affine=True), LayerNorm),
    "weight": ConvAndDenseNorms(partial(WeightNorm, space=2), WeightNorm),
    "weight standardization": ConvAndDenseNorms(
        partial(WeightStandardization, space=2, behind=_grouped),
        partial(WeightStandardization, behind=_grouped),
    ),
}
"""The arms. "layer" normalizes over all units and positions, as in the paper; "layer, per
position" over the units of each position. "instance" uses layer norm for dense layers. Group
norm follows standardized weights, as in Qiao et al. (2019). No arm normalizes the logits."""

PADDINGS: dict[str, Mapping[str, Any] | None] = {
    "zeros": {"padding_mode": "zeros"},
    "reflection": {"padding_mode": "reflect"},
    "none": None,
}
"""The border of images and feature maps; with "none" they shrink."""


def rows_to_images_minus_2_to_2(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return images (B, channels, height, width) of rows (B, D), pixels 0 to 1 as -2 to 2.

    The zeros of a padded border are then a medium grey.
    """
    shape = shape if len(shape) == 3 else (1, *shape)
    return 4 * (x.unflatten(-1, shape) - 0.5)


class ConvNet(nn.Module):
    """A network from rows of pixels (B, D) to logits (B, classes)."""

    layer_names_before_relu: ClassVar[tuple[str, ...]]
    """The names of the layers that ReLU follows directly, from first to last."""
    # seeds come in turn: side by side, convolutions would be one with many groups, and take 1.5
    # times as long
    opaque_to_vmap = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def names_of_layers_before_relu(self, kind: type[LayerWithNorm]) -> list[str]:
        """Return the names of the :attr:`layer_names_before_relu` of a kind."""
        return [
            name
            for name in self.layer_names_before_relu
            if isinstance(self.get_submodule(name), kind)
        ]


def make_convolution_with_norm(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    norm: NormLayer,
    padding: str,
    stride: int = 1,
) -> Conv2d:
    """Return a convolution; with padding, it keeps the size of a map but for the stride."""
    border = PADDINGS[padding]
    settings = {} if border is None else {"padding": kernel_size // 2, **border}
    settings["bias"] = _makes_identity(norm, out_channels)
    return Conv2d(in_channels, out_channels, kernel_size, norm, stride=stride, **settings)


def make_linear_with_norm(inputs: int, units: int, norm: NormLayer) -> Linear:
    """Return a dense hidden layer."""
    return Linear(inputs, units, norm, bias=_makes_identity(norm, units))


def _makes_identity(norm: NormLayer, units: int) -> bool:
    """Return True if nothing normalizes: a normalizer has a bias already."""
    return isinstance(norm(units), Identity)


class LeNet(ConvNet):
    """The LeNet of textbooks, after LeCun et al. (1998), with ReLU and 2 x 2 max pooling.

    6 and 16 kernels of 5 x 5, dense layers of 120 and 84 units, logits.
    """

    layer_names_before_relu = ("first", "second", "third", "fourth")

    def __init__(
        self, shape: tuple[int, ...], classes: int, arm: ConvAndDenseNorms, padding: str
    ) -> None:
        super().__init__(shape)
        shrinkage = 0 if PADDINGS[padding] is not None else 4
        height, width = (((side - shrinkage) // 2 - shrinkage) // 2 for side in shape[-2:])
        channels = shape[0] if len(shape) == 3 else 1
        self.first = make_convolution_with_norm(channels, 6, 5, arm.convolutions, padding)
        self.second = make_convolution_with_norm(6, 16, 5, arm.convolutions, padding)
        self.third = make_linear_with_norm(16 * height * width, 120, arm.dense)
        self.fourth = make_linear_with_norm(120, 84, arm.dense)
        self.logits = Linear(84, classes, Identity, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.first(rows_to_images_minus_2_to_2(x, self.shape))), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        h = F.relu(self.fourth(F.relu(self.third(h.flatten(1)))))
        return self.logits(h)


class ResidualBlock(nn.Module):
    """A block of He et al. (2016), Fig. 2: f(x + second(f(first(x)))).

    The shortcut has no weights (their option A): where the map shrinks, it skips positions, and
    adds 0 to the new units.
    """

    def __init__(self, inputs: int, units: int, norm: NormLayer, padding: str) -> None:
        super().__init__()
        self.stride = 1 if inputs == units else 2
        self.first = make_convolution_with_norm(inputs, units, 3, norm, padding, self.stride)
        self.second = make_convolution_with_norm(units, units, 3, norm, padding)
        # without padding, the first output position reads the input around this one
        self.start = 0 if PADDINGS[padding] is not None else 1 + self.stride
        self.new_units = units - inputs

    def forward(self, x: Tensor) -> Tensor:
        a = self.second(F.relu(self.first(x)))
        height, width = a.shape[-2:]
        shortcut = x[..., self.start :: self.stride, self.start :: self.stride]
        shortcut = shortcut[..., :height, :width]
        return F.relu(a + F.pad(shortcut, (0, 0, 0, 0, 0, self.new_units)))


class ResNet8(ConvNet):
    """The ResNet of He et al. (2016), 4.2, with n = 1, for small images.

    3 x 3 kernels, blocks of 16, 32 and 64 units, their mean over the map, logits.
    """

    layer_names_before_relu = ("stem", "blocks.0.first", "blocks.1.first", "blocks.2.first")

    def __init__(
        self, shape: tuple[int, ...], classes: int, arm: ConvAndDenseNorms, padding: str
    ) -> None:
        super().__init__(shape)
        channels, norm = shape[0] if len(shape) == 3 else 1, arm.convolutions
        self.stem = make_convolution_with_norm(channels, 16, 3, norm, padding)
        sizes = (16, 16), (16, 32), (32, 64)
        self.blocks = nn.Sequential(*(ResidualBlock(D, H, norm, padding) for D, H in sizes))
        self.logits = Linear(64, classes, Identity, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(F.relu(self.stem(rows_to_images_minus_2_to_2(x, self.shape))))
        return self.logits(h.mean((2, 3)))


NETS: dict[str, Callable[..., ConvNet]] = {"lenet": LeNet, "resnet8": ResNet8}

SMALLEST_SIDE = 20
"""The least height and width of images: maps of a LeNet without padding then have a middle."""
EVAL_SIZE = 500
"""Examples of each split that are measured during training, and of the training set also at the
end; fewer if ``test_size`` is."""
UNIT_EVAL_SIZE = 250
"""Test examples for :func:`border_and_loss_contribution_metrics`; fewer if ``test_size`` is."""

ImagesPerHeldOutSplit = int


@dataclass(frozen=True)
class Experiment(Classification):
    """One arm at one batch size; each seed has the same initial W and batches in every arm."""

    norm: str = setting("layer", choices=ARMS)
    architecture: str = setting("lenet", choices=NETS)  # a LeNet, or a ResNet of eight layers
    padding: str = setting("zeros", choices=PADDINGS)  # the border of images and feature maps
    data: str = "cifar10"
    """``shapes``, ``cifar10``, ``cifar10=PATH``; ``mnist`` or ``idx=PATH`` for a LeNet."""
    train_size: int = setting(0, least=0)  # training images, the first ones; 0: all
    batch_size: int = 128
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 10
    learning_rate: float = 1e-3
    test_size: ImagesPerHeldOutSplit = setting(0, least=0)
    """Test and validation images, the first ones, that are measured at the end; 0: all."""
    initialisation: str = setting("he", choices=DENSE_INITS)
    """"he" is N(0, 2/D), "torch" U(-1, 1)/sqrt(D), "authors" U(-0.1, 0.1)."""

    name = "convolutions"

    def dataset(self) -> Images:
        if self.valid_size:
            raise ValueError(
                "valid_size: pictures have a validation set of their own, leave it."
            )
        whole = load(self.data, self.required_data_kind, max_train=self.train_size)
        return check_classifiable(whole, SMALLEST_SIDE)

    def model(self, seed: int, dataset: Images) -> nn.Module:
        net = NETS[self.architecture](
            dataset.shape, dataset.classes, ARMS[self.norm], self.padding
        )
        layers = [layer for layer in net.modules() if isinstance(layer, Conv2d | Linear)]
        seeds = torch.randint(2**62, (len(layers),), generator=_seeded_generator(seed))
        with torch.no_grad():
            for layer, layer_seed in zip(layers, seeds.tolist(), strict=True):
                W = layer.W.flatten(1).clone()
                W = DENSE_INITS[self.initialisation](W, _seeded_generator(layer_seed))
                layer.W.copy_(W.view_as(layer.W))
                layer.norm.initialize_from_weights(layer.W)
        return self.fuse(net)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return 0 and the last update of every epoch."""
        return self.updates_divisible_by(updates_per_epoch, updates_per_epoch)

    def light_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return log-spaced updates of the first epoch, and then every half epoch."""
        return super().full_evaluation_updates(updates_per_epoch)

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> MetricsPerSeed:
        """Return, per seed, NLL (nats) and error rate of validation and test, and training NLL.

        A light evaluation leaves out the test. Before the first and after the last update,
        :func:`border_and_loss_contribution_metrics` is added.
        """
        few = min(EVAL_SIZE, self.test_size or EVAL_SIZE)
        count = (self.test_size or None) if evaluation is Evaluation.FINAL else few
        metrics = {"train_nll": nll_and_error_per_seed(model, dataset.train, few)["nll"]}
        if dataset.valid is not None:
            valid = nll_and_error_per_seed(model, dataset.valid, count)
            metrics |= {"valid_nll": valid["nll"], "valid_error": valid["error"]}
        if evaluation is Evaluation.LIGHT:
            return metrics
        test = nll_and_error_per_seed(model, dataset.test, count)
        metrics |= {"test_nll": test["nll"], "test_error": test["error"]}
        if evaluation in (Evaluation.INITIAL, Evaluation.FINAL):
            count = min(UNIT_EVAL_SIZE, self.test_size or UNIT_EVAL_SIZE)
            metrics |= collate_rows(
                [
                    border_and_loss_contribution_metrics(net, dataset, count)
                    for net in model.unstack()
                ]
            )
        return metrics


def _seeded_generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def border_and_loss_contribution_metrics(
    net: nn.Module, dataset: Images, count: int = UNIT_EVAL_SIZE
) -> dict[str, float]:
    """Compare a network's units by their position, to test section 6.7's explanation.

    On the first ``count`` test examples, means over layers. ``border_active`` and
    ``center_active`` are fractions of examples, ``border_shift`` is Cohen's d
    (:class:`~lnlab.analysis.feature_maps.BorderContrast`). ``map_deviation`` and
    ``dense_deviation`` are the relative deviations of the units' shares in the loss, of
    convolutions and of dense layers.
    """
    assert isinstance(net, ConvNet)
    device = next(net.parameters()).device
    x, y = dataset.test.x[:count].to(device), dataset.test.y[:count].to(device)
    convolutions, dense = (
        net.names_of_layers_before_relu(Conv2d),
        net.names_of_layers_before_relu(Linear),
    )
    maps = map_statistics(net, x, layers=convolutions)
    contrasts = [border_contrast(statistics) for statistics in maps.values()]
    border, center, shift = (sum(v) / len(contrasts) for v in zip(*contrasts, strict=True))
    total_loss = partial(F.cross_entropy, reduction="sum")
    shares = mean_abs_unit_contributions(net, x, y, total_loss, layers=[*convolutions, *dense])
    deviations = {name: coefficient_of_variation(share) for name, share in shares.items()}
    metrics = {"border_active": border, "center_active": center, "border_shift": shift}
    for metric, layers in (("map_deviation", convolutions), ("dense_deviation", dense)):
        if layers:
            metrics[metric] = sum(deviations[name] for name in layers) / len(layers)
    return metrics
