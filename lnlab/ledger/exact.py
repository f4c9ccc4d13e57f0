"""Claims about the equations themselves: measured on random layers, in float64, at eps = 0."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

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


QUANTITY = "largest change of the output, relative"


def unchanged(defect: Defect, quantity: str = QUANTITY) -> Test:
    """The test of "this changes nothing"."""
    return _exact(defect, quantity, lambda worst, least: worst < NOTHING_MOVED)


def changed(defect: Defect, quantity: str = QUANTITY) -> Test:
    """The test of "this does change the output"."""
    return _exact(defect, quantity, lambda worst, least: least > MOVED)


def _exact(defect: Defect, quantity: str, holds: Callable[[float, float], bool]) -> Test:
    def test(runs: Sequence[Run]) -> Evidence:
        values = tuple(defect(seed) for seed in SEEDS)
        low, high = min(values), max(values)
        return Evidence(
            Verdict.REPRODUCED if holds(high, low) else Verdict.NOT_REPRODUCED,
            f"{quantity} (least and greatest of the seeds)",
            (low, high),
            values,
            f"synthetic: random W and x, float64, eps = 0, {len(SEEDS)} seeds",
            device_name(torch.device("cpu")),
        )

    return test


def relative(new: Tensor, old: Tensor) -> float:
    """max |new - old| / max |old|."""
    return float(((new - old).abs().max() / old.abs().max()).detach())


def random(*shape: int, seed: int) -> Tensor:
    """Standard normal float64 numbers of a seed's own."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)
