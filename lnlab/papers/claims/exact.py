"""Statements about the equations themselves: measured on random layers, in float64, eps = 0."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from lnlab.papers.claims.claim import Evidence, Judge
from lnlab.papers.claims.rule import Verdict, defect

DRAWS = range(10)
NOTHING_MOVED = 1e-12
"""Relative to the largest output, thousands of roundings of float64: an identity."""
MOVED = 1e-2
"""Relative to the largest output: a change that can be seen."""

Defect = Callable[[int], float]
"""A seed to a relative change of the output."""

OUTPUT = "change of the output, relative"
LAYERS = "random W and x, float64, eps = 0"


def greatest(values: Iterable[float]) -> float:
    """The largest of some defects; NaN where one of them is, which ``max`` may lose."""
    return float(np.max([float(value) for value in values]))


def least(values: Iterable[float]) -> float:
    """The smallest of some defects; NaN where one of them is, which ``min`` may lose."""
    return float(np.min([float(value) for value in values]))


def unchanged(defect: Defect, quantity: str = OUTPUT, data: str = LAYERS) -> Judge:
    """The judge of "this changes nothing": in each draw the defect is rounding."""
    return _exact(
        defect, f"largest {quantity}", data, lambda value: value < NOTHING_MOVED, greatest
    )


def nearly(defect: Defect, quantity: str, data: str = LAYERS) -> Judge:
    """The judge of "this is nearly so": in each draw the defect cannot be seen."""
    return _exact(defect, f"largest {quantity}", data, lambda value: value < MOVED, greatest)


def changed(defect: Defect, quantity: str = OUTPUT, data: str = LAYERS) -> Judge:
    """The judge of "this does change the output": in each draw it can be seen."""
    return _exact(defect, f"smallest {quantity}", data, lambda value: value > MOVED, least)


def readings(several: Mapping[str, Judge]) -> Judge:
    """The judge of a text that can be read in several ways, each said.

    It holds if all of them do, fails if none does, and is inconclusive else.
    """

    def judge() -> Evidence:
        found = {words: one() for words, one in several.items()}
        verdicts = {evidence.verdict for evidence in found.values()}
        said = "; ".join(
            f"{words}: {evidence.verdict.value} ({defect(evidence.worst or 0.0)})"
            for words, evidence in found.items()
        )
        first = next(iter(found.values()))
        return Evidence(
            first.verdict if len(verdicts) == 1 else Verdict.INCONCLUSIVE,
            said,
            seeds=first.seeds,
            worst=greatest(evidence.worst or 0.0 for evidence in found.values()),
            data=first.data,
        )

    return judge


def counted(number: Callable[[], float], holds: Callable[[float], bool], words: str) -> Judge:
    """The judge of a number that needs no draw: a count, or a table of the paper."""

    def judge() -> Evidence:
        value = float(number())
        return Evidence(
            Verdict.HOLDS if holds(value) else Verdict.FAILS,
            words,
            values=(value,),
            worst=value,
            data="synthetic: no data, counted",
        )

    return judge


def _exact(
    measure: Defect,
    quantity: str,
    data: str,
    holds: Callable[[float], bool],
    worst: Callable[[tuple[float, ...]], float],
) -> Judge:
    def judge() -> Evidence:
        values = tuple(measure(seed) for seed in DRAWS)
        return Evidence(
            Verdict.HOLDS if all(map(holds, values)) else Verdict.FAILS,
            quantity,
            values=values,
            seeds=tuple(DRAWS),
            worst=worst(values),
            data=f"synthetic: {data}",
        )

    return judge
