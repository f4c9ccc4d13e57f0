"""The experiments of Ziaee & Çano (2022): what those on pictures and on reviews share."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab import training
from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.kernels import LeftOnReference, fuse
from lnlab.papers.batch_layer_norm.evaluate import fitted, score, searched
from lnlab.papers.batch_layer_norm.model import (
    ARMS,
    PLACES,
    VARIANTS,
    Around,
    ReviewReader,
    TanhLeNet,
    settled,
)
from lnlab.papers.classification import descend, mean_gradient_angle
from lnlab.training import Batches, Evaluation, cross_entropy, setting
from lnlab.training.experiment import CPU, collate
from lnlab.training.optim import Adam
from lnlab.training.random_state import placed, seeded

MEASURED = 1_000
"""Training cases whose loss is measured, the first ones."""


class Part:
    """Cases of a split, the first ones, as tensors x and y."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)


class Parts:
    """The first cases of each split of a data set; all else of it is as it was.

    Raises:
        ValueError: if it has no validation cases, or fewer cases than are asked for.
    """

    def __init__(self, whole: Any, counts: Mapping[str, int], seen: Any) -> None:
        self._whole = whole
        for split, count in counts.items():
            cases = getattr(whole, split)
            if cases is None:
                raise ValueError(f"{whole.name} has no {split} cases: take other data.")
            if count > len(cases.y):
                raise ValueError(
                    f"{whole.name} has {len(cases.y):,} {split} cases: ask for so many at most."
                )
            count = count or len(cases.y)
            setattr(self, split, Part(seen(cases.x[:count]), cases.y[:count]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class SameOrder(Batches):
    """Batches whose order is drawn once for each seed, and is that of every epoch."""

    def order(self, seed: int) -> Tensor:
        """The places of the cases in every epoch of a seed (N,)."""
        return super()._order(seed, 0)

    def _order(self, seed: int, epoch: int) -> Tensor:
        return self.order(seed)


@dataclass(frozen=True)
class Mixture(training.Experiment):
    """One arm, its seeds trained from paired starts on the same batches.

    As coded, a training goes through the same batches in the same order in every epoch, the
    weights that are tested are those of the least validation loss, and evaluation is in batches
    of the size of the training's. What is measured of the training is measured after each
    epoch, with the statistics of each batch; Keras' logs are means along the epoch.

    Training cases are measured twice: in the batches that they were trained in
    (``..._own_batches``, nearest to Keras' logs), and in others (``train_...``). What reads
    other cases can learn the batch by heart, and not the case.
    """

    norm: str = setting("batch layer", choices=ARMS)
    batch_size: int = setting(25, least=1)
    """25 and 1 in the paper."""
    variant: str = setting("code", choices=VARIANTS)
    """"code" has eps 0.001 and m/(m-1) on variances, "paper" what is printed."""
    unbiased: bool = True
    """True if the population's sigmas have the factor m/(m-1), infinite at m = 1."""
    train_size: int = setting(9_000, least=1)
    """The number of training cases, the first ones."""
    valid_size: int = setting(1_000, least=0)
    """The number of validation cases; 0: all."""
    test_size: int = setting(0, least=0)
    """The number of test cases; 0: all, as published."""
    best_metric: str = "valid_nll"
    seeds: tuple[int, ...] = (0, 1, 2)

    lower_is_better = ("train_nll", "valid_nll")

    @abstractmethod
    def net(self, dataset: Any, norm: Any) -> nn.Module:
        """The net, its weights drawn from torch's generator.

        Args:
            norm: makes the normalizers; takes ``space`` too.
        """

    def judge(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The negative log likelihood of each case (N,), and whether its class is right."""
        raise NotImplementedError

    def model(self, seed: int, dataset: Any) -> nn.Module:
        """The net of one seed; its weights depend on the seed and the sizes alone."""
        norm = ARMS[self.norm](
            Around(
                self.batch_size,
                max(1, self.train_size // self.batch_size),
                replace(VARIANTS[self.variant], corrected=self.unbiased),
            )
        )
        with seeded(seed):
            net = self.net(dataset, norm)
            settled(
                net, placed(dataset.train.x[: self.batch_size], CPU, torch.get_default_dtype())
            )
        if not self.fused:
            return net
        with warnings.catch_warnings():  # statistics of a position have no fused form
            warnings.simplefilter("ignore", LeftOnReference)
            return fuse(net)

    def batches(
        self, dataset: Any, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> SameOrder:
        """The same batches in the same order in every epoch, another order for each seed."""
        x, y = placed((dataset.train.x, dataset.train.y), device, dtype)
        return SameOrder(x, y, self.batch_size, self.seeds)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return Adam(parameters, lr=self.learning_rate, eps=1e-8, fused=True)

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """The last update of each epoch; as in the authors' code, none before the first."""
        return self.every(updates_per_epoch, updates_per_epoch) - {0}

    def evaluate(
        self, model: Any, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> dict[str, list[float]]:
        """Per seed: loss (nats) and accuracy of training cases, in their own batches and in
        others, and of validation cases; at the end, of the weights that count, all that
        :func:`.inference.searched` finds."""
        rows = [
            self._of(one, seed, dataset, evaluation)
            for one, seed in zip(model.unstack(), self.seeds, strict=True)
        ]
        return collate(rows)

    def _of(
        self, model: nn.Module, seed: int, dataset: Any, evaluation: Evaluation
    ) -> dict[str, float]:
        m, train = self.batch_size, dataset.train
        order = self.batches(dataset).order(seed)[:MEASURED]
        own = Part(train.x[order], train.y[order])
        others = Part(train.x[:MEASURED], train.y[:MEASURED])
        found = {
            pattern.format(name): value
            for pattern, one in (
                ("train_{}_own_batches", fitted(model, own, m, self.judge)),
                ("train_{}", fitted(model, others, m, self.judge)),
                ("valid_{}", score(model, dataset.valid, m, self.judge)),
            )
            for name, value in one._asdict().items()
        }
        if evaluation is Evaluation.FINAL:
            splits = {"valid": dataset.valid, "test": dataset.test}
            found |= searched(model, splits, m, self.judge)
        return found


# Batch layer normalization in LeNet: Ziaee & Çano (2022), section 4.1, Fig. 4 and Table 1.


TURNED = 4
"""Batches in which the covariate shift is measured."""


def shift(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The covariate shift of a small step in each of some batches, with their own statistics.

    A mean of :func:`lnlab.papers.classification.mean_gradient_angle`, in radians. The step
    lowers the loss of the batch by the same part in every arm, to first order.
    """
    weight, angles = next(model.parameters()), []
    for batch in batches:
        x, y = placed(batch, weight.device, weight.dtype)
        loss = Objective(model, x, y, F.cross_entropy, bn_stats="batch", dtype=torch.float64)
        angles.append(mean_gradient_angle(loss, descend(loss)[1]))
    return sum(angles) / len(angles)


@dataclass(frozen=True)
class ImageExperiment(Mixture):
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
        self, model: nn.Module, seed: int, dataset: Any, evaluation: Evaluation
    ) -> dict[str, float]:
        found = super()._of(model, seed, dataset, evaluation)
        if self.gradient_angle:
            order = self.batches(dataset).order(seed)[: TURNED * self.batch_size]
            train = dataset.train
            own = (part[order].split(self.batch_size) for part in (train.x, train.y))
            found["gradient_angle"] = shift(model, zip(*own, strict=True))
        return found


# Batch layer normalization between LSTMs: Ziaee & Çano (2022), 4.2, Fig. 6 and Table 2.


@dataclass(frozen=True)
class ReviewExperiment(Mixture):
    """Two LSTMs over the last words of reviews, told good from bad.

    Published, of one training each on 20 % (4,000 reviews): test accuracy .771 (the best of 16
    on the test), .698 and .711 of batch layer, batch and layer normalization at batch 25;
    .731, .495 and .684 at batch 1. As the code has it, a review is called good where its logit
    exceeds 0.5: the accuracy there is made for probabilities, and the net has none.
    """

    data: str = "imdb"
    """``opinions``, ``imdb`` or ``imdb=PATH``."""
    train_size: int = setting(4_000, least=1)
    epochs: int = setting(10, least=1)
    learning_rate: float = 3e-3
    vocab_size: int = setting(20_000, least=5)
    """V."""
    max_length: int = setting(80, least=1)
    """T, the words of a review that are read, the last ones."""
    embedding_size: int = setting(512, least=1)
    """Numbers a word."""
    units: tuple[int, ...] = setting((128, 64), least=1, count=2)
    """H of the first LSTM and of the second."""
    threshold: float = 0.5
    """The logit above which a review is called good: 0.5 as coded, a probability of 0.62."""

    name = "batch_layer_norm_reviews"

    @classmethod
    def budgets(cls) -> Mapping[str, Self]:
        small = cls(
            data="opinions",
            vocab_size=300,
            max_length=60,
            embedding_size=32,
            units=(32, 16),
            train_size=1_000,
            valid_size=250,
            test_size=500,
            epochs=3,
            seeds=(0, 1),
        )
        smoke = replace(
            small,
            max_length=8,
            embedding_size=4,
            units=(6, 4),
            train_size=100,
            valid_size=50,
            test_size=50,
            epochs=1,
        )
        return {"smoke": smoke, "notebook": small, "paper": cls()}

    def dataset(self) -> Parts:
        """The first reviews of each split."""
        whole = load(
            self.data, "reviews", max_length=self.max_length, vocab_size=self.vocab_size
        )
        counts = {"train": self.train_size, "valid": self.valid_size, "test": self.test_size}
        return Parts(whole, counts, lambda x: x)

    def net(self, dataset: Any, norm: Any) -> ReviewReader:
        first, second = self.units
        return ReviewReader(self.vocab_size, self.embedding_size, (first, second), norm)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood in nats: logits (S, B), y (S, B) to (S,)."""
        return _nll(output, y).mean(1)

    def judge(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _nll(output, y), (output > self.threshold) == (y == 1)


def _nll(output: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, y.to(output.dtype), reduction="none")
