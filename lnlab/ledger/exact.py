"""Claims about the equations themselves: measured on random layers, in float64, at eps = 0."""

from collections.abc import Callable, Sequence

import torch

from lnlab.ledger.verdict import Evidence, Test, Verdict
from lnlab.runs import Run
from lnlab.runs.environment import device_name

SEEDS = range(5)
NOTHING_MOVED = 1e-12
"""Relative to the largest output, thousands of roundings of float64: an identity."""
MOVED = 1e-2
"""Relative to the largest output: a change that can be seen."""

Defect = Callable[[int], float]
"""A seed to a relative change of the output."""

OUTPUT = "largest change of the output, relative"
LAYERS = f"random W and x, float64, eps = 0, {len(SEEDS)} seeds"


def unchanged(defect: Defect, quantity: str = OUTPUT, data: str = LAYERS) -> Test:
    """The test of "this changes nothing": for each seed the defect is rounding."""
    return _exact(defect, quantity, data, lambda value: value < NOTHING_MOVED)


def nearly(defect: Defect, quantity: str, data: str = LAYERS) -> Test:
    """The test of "this is nearly so": for each seed the defect cannot be seen."""
    return _exact(defect, quantity, data, lambda value: value < MOVED)


def changed(defect: Defect, quantity: str = OUTPUT, data: str = LAYERS) -> Test:
    """The test of "this does change the output": for each seed it can be seen."""
    return _exact(defect, quantity, data, lambda value: value > MOVED)


def _exact(defect: Defect, quantity: str, data: str, holds: Callable[[float], bool]) -> Test:
    def test(runs: Sequence[Run]) -> Evidence:
        values = tuple(defect(seed) for seed in SEEDS)
        return Evidence(
            Verdict.REPRODUCED if all(map(holds, values)) else Verdict.NOT_REPRODUCED,
            f"{quantity} (least and greatest of the seeds)",
            (min(values), max(values)),
            values,
            f"synthetic: {data}",
            device_name(torch.device("cpu")),
        )

    return test
