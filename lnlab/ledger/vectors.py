"""The numbers of skip-thoughts' runs: what judges along a training say, and where nothing."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pandas as pd

from lnlab.ledger import paired
from lnlab.ledger.measurement import Numbers
from lnlab.ledger.paired import Number
from lnlab.runs import Run
from lnlab.tasks.thoughts.measured import BY

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


def fixed(end: str) -> float | None:
    """The C with which a setting reads what judges say along a training, as was declared; None:
    the one of most that is right at the end of the run."""
    return 256.0 if end == "-stories" else None


def looked(metrics: pd.DataFrame, metric: str, C: float | None = None) -> pd.DataFrame:
    """The rows in which a metric was measured, with one C for all of them.

    Args:
        C: None: the one of the last row. Runs from before there were several had 256.
    """
    if f"{metric}{BY}" in metrics:
        there: Any = metrics[metrics[f"{metric}{BY}"].notna()]
        C = C or float(there[f"{metric}{BY}"].iloc[-1])
        return there.assign(**{metric: there[f"{metric}{BY}{C:g}"]})
    there = metrics[metrics[metric].notna()]
    return there


def at(metric: str, place: int, C: float | None = None) -> Number:
    """A metric in one of the rows in which it was measured, by default with its own C."""
    return lambda metrics: float(
        looked(looked(metrics, metric, C).iloc[[place]], metric, C)[metric].iloc[0]
    )


def readable(metric: str, number: Number, C: float | None = None) -> Numbers:
    """A number of each arm where the judge says something, infinity where it does not: where
    at the end no arm is above both the bag of words and its own untrained encoder.

    Args:
        C: as of :func:`looked`; where None, these two have the C that is best for them.
    """
    sign = -1 if metric.endswith(FALLS) else 1

    def above(metrics: pd.DataFrame) -> bool:
        begins, ends = (sign * at(metric, place, C)(metrics) for place in (0, -1))
        return ends > max(begins, sign * at(metric + WORDS, -1, C)(metrics))

    def numbers(frames: Sequence[pd.DataFrame]) -> list[float]:
        if len({f"{metric}{BY}" in frame for frame in frames}) > 1:
            raise KeyError(f"{metric} was not measured in the same way in all of them")
        if not any(map(above, frames)):
            return [inf] * len(frames)
        return [number(looked(frame, metric, C)) for frame in frames]

    return numbers


def further(metrics: Sequence[str], C: float | None = None) -> Number:
    """Points that are still to be had after 1/1.7 of a run, averaged over all metrics, such
    that a gain is negative.

    Over all, whether or not they say something: whoever picks metrics by the very numbers that
    are subtracted finds a gain, or a loss, where there is none.
    """

    def of(frame: pd.DataFrame, metric: str) -> float:
        there = looked(frame, metric, C)
        updates = there["update"].to_numpy(float)
        place = int(abs(updates - updates[-1] / 1.7).argmin())
        values = there[metric].to_numpy(float)
        scale = (-1 if metric.endswith(FALLS) else 1) * (100 if "_" in metric else 1)
        return scale * (values[place] - values[-1])

    return lambda frame: sum(of(frame, metric) for metric in metrics) / len(metrics)


def mean(runs: Mapping[int, Run], number: Number) -> float:
    """The mean of a number over seeds, to three digits."""
    values = paired.numbers(runs, number).values()
    return round(sum(values) / len(values), 3)


def way(runs: Mapping[int, Run], metric: str, C: float | None = None) -> str:
    """The mean of a metric before the first update and at the end, by default each with its
    own C."""
    first, last = (mean(runs, at(metric, place, C)) for place in (0, -1))
    return f"{first} → {last}"
