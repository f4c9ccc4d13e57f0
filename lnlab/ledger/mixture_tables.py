"""Tables of the trainings of Ziaee & Çano (2022): their kept runs beside the published logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from lnlab.analysis.statistics import interval
from lnlab.ledger.paired import Arms, Number, final, like, numbers
from lnlab.ledger.ziaee2022_pictures import FRESH, SEEDS, way
from lnlab.ledger.ziaee2022_rates import RATES, TRIED
from lnlab.nn import CONFIGURATIONS
from lnlab.tasks.mixture import published
from lnlab.tasks.mixture.arms import ARMS
from lnlab.tasks.mixture.task import Mixture
from lnlab.training.runs import Run

DECLARED = (*SEEDS, *FRESH)
"""The seeds that are compared at the published rate; by others rates were chosen."""


def trained_as(runs: Sequence[Run], task: Mixture, seeds: Sequence[int] = DECLARED) -> Arms:
    """The finished runs that differ from ``task`` in normalizer and seed, whatever they measure
    besides."""
    return like(runs, task, seeds=seeds)


def sixteen(runs: Mapping[int, Run], metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over seeds of a metric in each configuration, and both ends of their intervals.

    Args:
        runs: of one arm, by seed.
        metric: ``"test_accuracy"`` say.

    Returns:
        Three arrays (16,), in the order of :data:`lnlab.nn.CONFIGURATIONS`; NaN where a
        configuration is impossible, and ends NaN of a single seed.
    """
    found = []
    for letters in CONFIGURATIONS:
        values = [*numbers(runs, final(f"{metric}_{letters}")).values()]
        ends = interval(values) if len(values) > 1 else (np.nan, np.nan)
        found.append((np.mean(values), *ends))
    means, lows, highs = np.array(found).T
    return means, lows, highs


def beside_the_logs(arms: Arms, task: Mixture) -> pd.DataFrame:
    """A row for each arm: means over seeds, and what was published of one training.

    ``chosen`` is the test accuracy of the configuration that is best on validation,
    ``on the test`` of the one that is best on the test itself, as published. NaN where nothing
    was published.

    Args:
        arms: trained as ``task``.
        task: what was trained, at the batch size.
    """
    logs = published.LOGS.get((task.name, task.batch_size), {})
    tested = published.TESTED[task.name, task.batch_size]
    table = {}
    for arm in sorted(arms, key=[*ARMS].index):
        runs, log = arms[arm], logs.get(arm)
        ends = numbers(runs, lambda frame: final("train_accuracy")(way(frame)))
        table[arm] = {
            "seeds": len(runs),
            "training": _mean(ends),
            "chosen": _mean(numbers(runs, final("chosen_accuracy"))),
            "on the test": _mean(numbers(runs, final("optimistic_accuracy"))),
            "paper, training": log.train_accuracy[-1] if log else np.nan,
            "paper, on the test": tested[arm][1] if arm in tested else np.nan,
        }
    return pd.DataFrame(table).T


def over_rates(
    runs: Sequence[Run],
    task: Mixture,
    number: Number,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = TRIED,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The rates (K,) at which each arm was tried, and a number of every seed there (S, K)."""
    found: dict[str, dict[float, list[float]]] = {}
    for rate in rates:
        tried = like(runs, replace(task, learning_rate=rate), seeds=seeds)
        for arm, by_seed in tried.items():
            if len(by_seed) == len(seeds):
                told = [value for _, value in sorted(numbers(by_seed, number).items())]
                found.setdefault(arm, {})[rate] = told
    return {arm: (np.array([*at]), np.array([*at.values()]).T) for arm, at in found.items()}


def by_heart(arms: Arms, epochs: int = 5) -> pd.DataFrame:
    """A row for each arm: training loss (nats) in the batches of the training and in others.

    Both over the last epochs and all seeds: of the last batch of each epoch, before its update,
    and of the first 1,000 cases in batches in which they were never trained.
    """
    table = {}
    for arm in sorted(arms, key=[*ARMS].index):
        table[arm] = {
            words: _mean(numbers(arms[arm], partial(_late, metric=name, epochs=epochs)))
            for words, name in (("own batches", "loss"), ("other batches", "train_nll"))
        }
    return pd.DataFrame(table).T


def _late(frame: pd.DataFrame, metric: str, epochs: int) -> float:
    return float(np.mean(way(frame)[metric].tail(epochs)))


def _mean(values: Mapping[int, float]) -> float:
    return round(float(np.mean([*values.values()])), 3)
