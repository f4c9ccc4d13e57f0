"""Section 6.7 of Ba et al. (2016): convolutional nets with every normalizer.

The section has words and no number: nets, data, optimizer and size are open, and what stands
in their place here is said field by field.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.feature_maps import contrast, contributions, maps, unlikeness
from lnlab.data import Images, load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.nn import Conv2d, Linear
from lnlab.nn.linear import INITIALISATIONS
from lnlab.tasks.classification import Classification, measured
from lnlab.tasks.convolutions.nets import ARMS, NETS, PADDINGS, Net
from lnlab.training import Moment, setting

SOME = 500
"""The number of cases of each split, the first ones, that are measured on the way, unless fewer
are tested; of the training set at the end, too."""
PROBED = 250
"""The number of test cases, the first ones, by which units are compared by their place, unless
fewer are tested."""


@dataclass(frozen=True)
class Convolutions(Classification):
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
    initialisation: str = setting("he", choices=INITIALISATIONS)
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
                drawn = INITIALISATIONS[self.initialisation](W, _generator(number))
                layer.W.copy_(drawn.view_as(layer.W))
                layer.norm.start(layer.W)
        if not self.fused:
            return net
        with warnings.catch_warnings():  # rules on the weights have none
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(net)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        """Before the first update, and after every epoch."""
        return {
            epoch * updates_per_epoch for epoch in range(self.passes(updates_per_epoch) + 1)
        }

    def glances(self, updates_per_epoch: int) -> set[int]:
        """Log-spaced through the first epoch, and then after every half epoch."""
        return super().evaluation_points(updates_per_epoch)

    def measure(
        self, model: Any, dataset: Any, moment: Moment = Moment.END
    ) -> Mapping[str, list[float]]:
        """Per seed, in evaluation mode: NLL (nats) and error rate of test and validation, NLL
        of training cases; at a glance no test. Before the first and after the last update also
        units by their place (:func:`placed`)."""
        few = min(SOME, self.test_size or SOME)
        some = (self.test_size or None) if moment is Moment.END else few
        found = {"train_nll": measured(model, dataset.train, few)["nll"]}
        if dataset.valid is not None:
            valid = measured(model, dataset.valid, some)
            found |= {"valid_nll": valid["nll"], "valid_error": valid["error"]}
        if moment is Moment.CHEAP:
            return found
        test = measured(model, dataset.test, some)
        found |= {"test_nll": test["nll"], "test_error": test["error"]}
        if moment in (Moment.START, Moment.END):
            cases = min(PROBED, self.test_size or PROBED)
            each = [placed(net, dataset, cases) for net in model.unstack()]
            found |= {name: [one[name] for one in each] for name in each[0]}
        return found


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def placed(net: nn.Module, dataset: Images, cases: int = PROBED) -> dict[str, float]:
    """Units by their place: 6.7's explanation in numbers, means over layers, of one net.

    ``border_active`` and ``center_active`` are parts of cases, ``border_shift`` is Cohen's d;
    see :class:`~lnlab.analysis.feature_maps.Contrast`. ``map_deviation`` and ``dense_deviation`` are
    the relative deviations of the units' shares in the loss, of convolutions and of dense
    layers.

    Args:
        cases: of how many test cases, the first ones.
    """
    assert isinstance(net, Net)
    x, y = dataset.test.x[:cases], dataset.test.y[:cases]
    place = next(net.parameters()).device
    x, y = x.to(place), y.to(place)
    convolutions, dense = net.of(Conv2d), net.of(Linear)
    found = [contrast(of) for of in maps(net, x, convolutions).values()]
    border, middle, shift = (sum(part) / len(found) for part in zip(*found, strict=True))
    shares = contributions(
        net, x, y, [*convolutions, *dense], lambda o, y: F.cross_entropy(o, y, reduction="sum")
    )
    unlike = {name: unlikeness(share) for name, share in shares.items()}
    result = {"border_active": border, "center_active": middle, "border_shift": shift}
    for word, layers in (("map_deviation", convolutions), ("dense_deviation", dense)):
        if layers:
            result[word] = sum(unlike[name] for name in layers) / len(layers)
    return result
