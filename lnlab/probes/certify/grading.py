"""Grades of defects, and the laws that defects follow."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lnlab.probes.certify.certificate import Grade
from lnlab.probes.invariance import EXACT

VISIBLE = 0.05
"""A defect above this at delta >= 1 is a break, whatever its law."""

ROUNDINGS = 8
"""A defect below this many times that of inputs and weights off by one rounding is none."""


@dataclass(frozen=True)
class Point:
    """The defects that one delta made."""

    delta: float
    outputs: float
    inside: float
    case: int
    site: str
    swallowed: bool
    doubtful: bool


def sign_of(plus: Tensor, minus: Tensor, exact: float) -> str:
    """Outputs (B, ...) at delta and at -delta: "same", "flips" (about a bias) or "other"."""
    plus, minus = plus.double(), minus.double()
    tolerance = exact * float(plus.abs().max())
    moved = (plus - minus).abs() > tolerance
    if not bool(moved.any()):
        return "same"
    # an odd function has y(delta) + y(-delta) = 0
    both = torch.where(moved, plus + minus, 0.0)
    if both.dim() > 1:
        both = both[moved.flatten(1).any(1)]
    if len(both) > 1:
        both = both - both[:1]  # LN(-a) = -LN(a), and behind it a bias b: their sum is 2b
    return "flips" if float(both.abs().max()) <= 2 * tolerance else "other"


Rounding = Callable[[], float]
"""The defect that a rounding of weights and inputs makes; costs an evaluation."""


def grade(
    points: list[tuple[float, float, Rounding | None]], scales: bool, dtype: torch.dtype
) -> Grade:
    """The grade of (delta, defect, rounding), all of delta > 0.

    Rounding is None where the defect cannot be mistaken for one; it is asked for last.
    """
    exact = EXACT[dtype]
    if all(d <= exact for _, d, rounding in points if rounding is None) and all(
        d <= max(exact, ROUNDINGS * rounding()) for _, d, rounding in points if rounding
    ):
        return Grade.EXACT
    judged = [d for delta, d, _ in points if delta >= 1 or not scales]
    return Grade.APPROXIMATE if all(d < VISIBLE for d in judged) else Grade.BROKEN


def law(points: list[Point], exact: float) -> tuple[float, float]:
    """(p, knee): defects go as delta^-p for small delta, and reach order one at the knee.

    With eps inside the root the defect is eps/(2 var) (delta^-2 - 1) while that is small, and
    the knee is where delta² var = eps; outside, eps/sigma (1/delta - 1), and delta sigma =
    eps. (NaN, NaN) where no power law is seen.
    """
    small = [(p.delta, p.outputs) for p in points if p.delta <= 0.3]
    small = [(delta, d) for delta, d in small if 10 * exact < d < 0.06]
    if len(small) < 2:
        return math.nan, math.nan
    delta, d = np.array(small).T
    # a first p, as if d were delta^-p: true of small delta alone
    p = -np.polyfit(np.log(delta), np.log(d), 1)[0]
    if p < 0.5:
        return math.nan, math.nan
    # d = size (delta^-p - 1) is 0 at delta = 1; divided by 1 - delta^p it is size delta^-p,
    # a straight line in logarithms for all delta < 1
    slope, height = np.polyfit(np.log(delta), np.log(d / (1 - delta**p)), 1)
    size = math.exp(height)
    # size = eps / (2 var), and delta² var = eps: delta = sqrt(2 size); outside the root
    # size = eps / sigma, and delta sigma = eps: delta = size
    return -slope, (2 * size) ** 0.5 if -slope > 1.5 else size
