"""The numbers of skip-thoughts' runs: what judges along a training say, and where nothing."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pandas as pd

from lnlab.ledger import paired
from lnlab.ledger.measurement import Numbers
from lnlab.ledger.paired import Number
from lnlab.tasks.thoughts.measured import BEST, BY, NESTED
from lnlab.training.runs import Run

FALLS = ("_mse",)
HERE = {"sick": "relatedness", "mr": "opinion", "subj": "teller", "mpqa": "phrase"}
"""The judges that were made here when the runs of the stories were declared, by those in whose
place they stand; the one for CR, *customer*, came later, and no row has it."""
WORDS, TFIDF = "_words", "_tfidf"
"""The ends of a number that a bag of words has, and one whose rare words weigh more, measured
at the end of a run."""


def asked(metric: str, end: str) -> str:
    """The metric of the setting whose ids end so; empty where nothing stands in its place."""
    name, _, number = metric.partition("_")
    if end != "-stories":
        return metric
    return "_".join(filter(None, (HERE[name], number))) if name in HERE else ""


def fixed(end: str) -> float | None:
    """The C with which a setting reads what judges say along a training, as was declared; None:
    those that inner folds choose, at each point anew."""
    return 256.0 if end == "-stories" else None


def column(metrics: pd.DataFrame, metric: str, C: float | None = None) -> str:
    """The name under which a run has a metric.

    Args:
        C: one for all folds; runs of the first measure had 256 and no other. None: the one that
            inner folds choose, of a bag of words the one that is best for it; what no judge
            says, nats, has none.

    Raises:
        KeyError: if the run was not measured so.
    """
    if f"{metric}{BY}" in metrics:
        raise KeyError(f"the C of {metric} was chosen on the folds that are reported")
    names = [f"{metric}{BY}{C:g}", metric] if C else [metric + NESTED, metric + BEST, metric]
    found = [name for name in names if name in metrics]
    if not found:
        raise KeyError(f"{metric} was not measured so")
    return found[0]


def looked(metrics: pd.DataFrame, metric: str, C: float | None = None) -> pd.DataFrame:
    """The rows in which a metric was measured, under its own name.

    Args:
        C: as of :func:`column`.

    Raises:
        KeyError: as :func:`column`.
    """
    name = column(metrics, metric, C)
    there: Any = metrics[metrics[name].notna()]
    return there.assign(**{metric: there[name]})


def at(metric: str, place: int, C: float | None = None) -> Number:
    """A metric in one of the rows in which it was measured."""
    return lambda metrics: float(looked(metrics, metric, C)[metric].iloc[place])


def gained(metric: str) -> Number:
    """The mean of a metric over the updates of a run, less what it is before the first one."""
    whole = paired.along(metric)
    return lambda metrics: whole(metrics) - float(metrics[metric].iloc[0])


def readable(metric: str, number: Number, C: float | None = None) -> Numbers:
    """A number of each arm where the judge says something, infinity where it does not: where
    at the end no arm is above both the bag of words and its own untrained encoder.

    Args:
        C: as of :func:`column`.
    """
    sign = -1 if metric.endswith(FALLS) else 1

    def above(metrics: pd.DataFrame) -> bool:
        begins, ends = (sign * at(metric, place, C)(metrics) for place in (0, -1))
        return ends > max(begins, sign * at(metric + WORDS, -1, C)(metrics))

    def numbers(frames: Sequence[pd.DataFrame]) -> list[float]:
        if len({column(frame, metric, C) for frame in frames}) > 1:
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
    """The mean of a number over seeds, to three digits that count."""
    values = paired.numbers(runs, number).values()
    return float(f"{sum(values) / len(values):.3g}")


def way(runs: Mapping[int, Run], metric: str, C: float | None = None) -> str:
    """The mean of a metric before the first update and at the end, C as of :func:`column`."""
    first, last = (mean(runs, at(metric, place, C)) for place in (0, -1))
    return f"{first}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{last}"
