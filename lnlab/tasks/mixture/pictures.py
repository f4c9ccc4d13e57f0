"""Batch layer normalization in LeNet: Ziaee & Çano (2022), section 4.1, Fig. 4 and Table 1."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.nn.table1 import Statistics
from lnlab.tasks.mixture.lenet import PLACES, TanhLeNet
from lnlab.tasks.mixture.task import Mixture, Parts
from lnlab.tasks.moved import angle, promised
from lnlab.training import Moment, cross_entropy, setting
from lnlab.training.random_state import placed

TURNED = 4
"""Batches in which the covariate shift is measured."""


def shift(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The covariate shift of a small step in each of some batches, with their own statistics.

    The angle in radians of :func:`lnlab.tasks.moved.angle`, a mean. The step lowers the loss of
    the batch by the same part in every arm, to first order.
    """
    weight, angles = next(model.parameters()), []
    for batch in batches:
        x, y = placed(batch, weight.device, weight.dtype)
        loss = Objective(
            model, x, y, F.cross_entropy, statistics=Statistics.BATCH, dtype=torch.float64
        )
        angles.append(angle(loss, promised(loss)[1]))
    return sum(angles) / len(angles)


@dataclass(frozen=True)
class MixturePictures(Mixture):
    """LeNet on pictures of which each pixel has mean 0 and deviation 1 over the training cases.

    The code takes these from all 50,000 training pictures of CIFAR-10, held out or not.
    Published, of one training each on 20 % (9,000 pictures): training accuracy .87, .79 and .74
    of batch layer, batch and layer normalization at batch 25, .61, .10 and .35 at batch 1;
    test accuracy .455 (the best of 16 on the test), .453 and .423; .442, .109 and .378.
    """

    data: str = "cifar10"
    """``shapes``, ``cifar10`` or ``cifar10=PATH``."""
    epochs: int = setting(15, least=1)
    learning_rate: float = 2e-3
    gradient_angle: bool = setting(False, measured=True)
    """True if ``gradient_angle`` is measured at every evaluation, too: :func:`shift`."""
    norm_position: str = setting("after", choices=PLACES)
    """The place of the normalizers next to tanh."""

    name = "batch_layer_norm_images"

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        small = cls(
            data="shapes", train_size=5_000, valid_size=300, test_size=600, epochs=5, seeds=(0,)
        )
        return {
            "smoke": replace(
                small, train_size=100, valid_size=50, test_size=100, epochs=1, seeds=(0, 1)
            ),
            "notebook": small,
            "paper": cls(),
        }

    def dataset(self) -> Parts:
        """The first pictures of each split, standardized pixel by pixel."""
        # drawn here, only what is used; of files all, so that runs on parts have one checksum
        whole = load(self.data, most=self.train_size if self.data == "shapes" else None)
        x = whole.train.x[: self.train_size]
        mean, deviation = x.mean(0), x.std(0, correction=0)

        def seen(x: Tensor) -> Tensor:
            flat = (x - mean) / torch.where(deviation > 0, deviation, 1.0)
            return flat.unflatten(1, whole.shape)

        counts = {"train": self.train_size, "valid": self.valid_size, "test": self.test_size}
        return Parts(whole, counts, seen)

    def net(self, dataset: Any, norm: Any) -> TanhLeNet:
        shape = tuple(dataset.train.x.shape[1:])
        return TanhLeNet(
            shape,
            dataset.classes,
            partial(norm, space=2),
            norm,
            self.norm_position,
            self.batch_size,
        )

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood in nats: logits (S, B, classes), y (S, B) to (S,)."""
        return cross_entropy(output, y)

    def judge(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return F.cross_entropy(output, y, reduction="none"), output.argmax(-1) == y

    def _of(
        self, model: nn.Module, seed: int, dataset: Any, moment: Moment
    ) -> dict[str, float]:
        found = super()._of(model, seed, dataset, moment)
        if self.gradient_angle:
            order = self.batches(dataset).order(seed)[: TURNED * self.batch_size]
            train = dataset.train
            own = (part[order].split(self.batch_size) for part in (train.x, train.y))
            found["gradient_angle"] = shift(model, zip(*own, strict=True))
        return found
