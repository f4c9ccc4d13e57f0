"""The numbers of skip-thoughts' runs: what judges along a training say, and where nothing."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pandas as pd

from lnlab.ledger import paired
from lnlab.ledger.measurement import Numbers
from lnlab.ledger.paired import Number
from lnlab.runs import Run

FALLS = ("_mse",)
NESTED = "_nested"
"""The end of a number for which inner folds chose C, measured at the end of a run."""
HERE = {"sick": "relatedness", "mr": "opinion", "subj": "teller", "mpqa": "phrase"}
"""The judges that are made here, by those in whose place they stand; none stands for CR."""
WORDS = "_words"
"""The end of a number that a bag of words has, measured at the end of a run."""


def asked(metric: str, end: str) -> str:
    """The metric of the setting whose ids end so; empty where nothing stands in its place."""
    name, _, number = metric.partition("_")
    if end != "-stories":
        return metric
    return "_".join(filter(None, (HERE[name], number))) if name in HERE else ""


def looked(metrics: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows in which a metric was measured."""
    there: Any = metrics[metrics[metric].notna()]
    return there


def readable(metric: str, number: Number) -> Numbers:
    """A number of each arm where the judge says something, infinity where it does not: where
    at the end no arm is above both the bag of words and its own untrained encoder."""
    sign = -1 if metric.endswith(FALLS) else 1

    def above(metrics: pd.DataFrame) -> bool:
        values = sign * looked(metrics, metric)[metric].to_numpy(float)
        words = sign * float(metrics[metric + WORDS].iloc[-1])
        return bool(values[-1] > max(values[0], words))

    def numbers(frames: Sequence[pd.DataFrame]) -> list[float]:
        if not any(map(above, frames)):
            return [inf] * len(frames)
        return [number(looked(frame, metric)) for frame in frames]

    return numbers


def further(metrics: Sequence[str]) -> Number:
    """Points that are still to be had after 1/1.7 of a run, averaged over all metrics, such
    that a gain is negative.

    Over all, whether or not they say something: whoever picks metrics by the very numbers that
    are subtracted finds a gain, or a loss, where there is none.
    """

    def of(frame: pd.DataFrame, metric: str) -> float:
        there = looked(frame, metric)
        at = there["update"].to_numpy(float)
        place = int(abs(at - at[-1] / 1.7).argmin())
        values = there[metric].to_numpy(float)
        scale = (-1 if metric.endswith(FALLS) else 1) * (100 if "_" in metric else 1)
        return scale * (values[place] - values[-1])

    return lambda frame: sum(of(frame, metric) for metric in metrics) / len(metrics)


def mean(runs: Mapping[int, Run], number: Number) -> float:
    """The mean of a number over seeds, to three digits."""
    values = paired.numbers(runs, number).values()
    return round(sum(values) / len(values), 3)


def way(runs: Mapping[int, Run], metric: str) -> str:
    """The mean of a metric before the first update and at the end."""
    first, last = (
        mean(runs, lambda frame, at=at: float(looked(frame, metric)[metric].iloc[at]))
        for at in (0, -1)
    )
    return f"{first} → {last}"
