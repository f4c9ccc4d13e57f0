"""The experiments of Ziaee & Çano (2022): what those on pictures and on reviews share."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.kernels import LeftOnReference, fuse
from lnlab.tasks.mixture.arms import ARMS, READINGS, Around, settled
from lnlab.tasks.mixture.inference import fitted, score, searched
from lnlab.training import Batches, Experiment, Moment, setting
from lnlab.training.experiment import CPU, Adam
from lnlab.training.random_state import placed

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
class Mixture(Experiment):
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
    variant: str = setting("code", choices=READINGS)
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

    falls = ("train_nll", "valid_nll")

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
                replace(READINGS[self.variant], corrected=self.unbiased),
            )
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
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
        self,
        dataset: Any,
        split: str = "train",
        *,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> SameOrder:
        """The same batches in the same order in every epoch, another order for each seed."""
        cases = getattr(dataset, split)
        x, y = placed((cases.x, cases.y), device, dtype)
        return SameOrder(x, y, self.batch_size, self.seeds)

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return Adam(parameters, lr=self.learning_rate, eps=1e-8, fused=True)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        """The last update of each epoch; as in the authors' code, none before the first."""
        epochs = self.passes(updates_per_epoch)
        return {epoch * updates_per_epoch for epoch in range(1, epochs + 1)}

    def measure(
        self, model: Any, dataset: Any, moment: Moment = Moment.END
    ) -> dict[str, list[float]]:
        """Per seed: loss (nats) and accuracy of training cases, in their own batches and in
        others, and of validation cases; at the end, of the weights that count, all that
        :func:`.inference.searched` finds."""
        rows = [
            self._of(one, seed, dataset, moment)
            for one, seed in zip(model.unstack(), self.seeds, strict=True)
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _of(
        self, model: nn.Module, seed: int, dataset: Any, moment: Moment
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
        if moment is Moment.END:
            splits = {"valid": dataset.valid, "test": dataset.test}
            found |= searched(model, splits, m, self.judge)
        return found
