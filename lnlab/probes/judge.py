"""Defects of a module under a change, and the grade that they earn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .certificate import Grade, Verdict
from .changes import Change, Jitter
from .givens import normal
from .inside import Site
from .invariance import EXACT, relative_change
from .subject import Seen, Subject, Trial, Weight

USUAL = 3.7
"""The delta at which a defect is quoted: nothing special, such as a power of two."""

SCALES = {
    torch.float64: (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-6, 1e-12, 1e-30, 1e3, 1e30),
    torch.float32: (0.3, 1e-3, 1e-8, 1e3, 1e8),
    torch.bfloat16: (0.3, 1e-3, 1e3),
}
SHIFTS = {torch.float64: (1e-2, 1e2, 1e4), torch.float32: (1e2,), torch.bfloat16: ()}
"""What is tried where the first delta, 3.7 or a shift of size 1, shows no break."""
AFTER_A_BREAK = (1e-3, 1e3)

VISIBLE = 0.05
"""A defect above this at delta >= 1 is a break, whatever its law."""

ROUNDINGS = 8
"""A defect below this many times that of inputs and weights off by one rounding is none."""


@dataclass(frozen=True)
class Point:
    """What one delta did."""

    delta: float
    outputs: float
    inside: float
    case: int
    site: str
    swallowed: bool
    rounding: tuple[float, float] = (0.0, 0.0)


class Judge:
    """Tries changes on one subject and grades what they do.

    Attributes:
        base: what the subject computes before any change.
        evaluations: how often it was evaluated.

    Raises:
        ValueError: where the outputs are no finite floating point numbers, or differ
            between two evaluations from one random state.
    """

    def __init__(self, subject: Subject, weights: dict[str, Weight]) -> None:
        self.subject, self.weights = subject, weights
        self.evaluations = 0
        self._jitter: Jitter | None = None
        self.base = self.see(None)
        y = self.base.y
        if not y.is_floating_point() or not y.dim():
            raise ValueError(
                f"the output to judge is {y.dtype} of shape {tuple(y.shape)}: give read=, "
                "which returns a floating point tensor with the cases along its first axis."
            )
        if not bool(y.isfinite().all()):
            raise ValueError("the outputs hold NaN or an infinity before any change.")
        if not torch.equal(self.see(None).y, y):
            raise ValueError(
                "two evaluations from one random state differ: the module draws random "
                "numbers from elsewhere, and no defect could be told from them."
            )
        self.dtype = y.dtype

    def see(self, trial: Trial | None) -> Seen:
        self.evaluations += 1
        return self.subject.see(trial)

    def uses(self, weight: Weight) -> bool:
        """Whether anything that can be seen depends on ``weight``."""
        W = self.subject.parameters[weight.name].data
        other = normal(2, 0, W.numel()).view_as(W).to(W)
        seen = self.see(Trial(self.subject.x, {weight.name: other}))
        sites = zip(seen.inside, self.base.inside, strict=False)
        return not torch.equal(seen.y, self.base.y) or not all(
            torch.equal(new.a, old.a) for new, old in sites
        )

    def verdict(self, change: Change, mode: str, *, known_broken: bool = False) -> Verdict:
        """Grade one change; of one that is ``known_broken``, only the usual delta is tried."""
        scales = change.transformation.scales
        usual, y = self.point(change, USUAL if scales else 1.0)
        points, sign = [usual], ""
        if not (known_broken or change.first_case_only):
            more, sign = self._more(change, usual, y)
            points += more
        upward = [p for p in points if p.delta > 0]
        outputs, inside = (
            grade([(p.delta, d(p), p.rounding[i]) for p in upward], scales, self.dtype)
            for i, d in enumerate((lambda p: p.outputs, lambda p: p.inside))
        )
        moved = [p for p in upward if p.inside > EXACT[self.dtype]]
        hidden = outputs is Grade.EXACT and moved and all(p.swallowed for p in moved)
        worst = max(upward, key=lambda p: math.inf if math.isnan(p.outputs) else p.outputs)
        ruled = scales and outputs is Grade.APPROXIMATE
        rate, knee = law(upward, EXACT[self.dtype]) if ruled else (math.nan, math.nan)
        if ruled and math.isnan(rate):
            knee = self.knee(change, upward)
        return Verdict(
            change.where,
            change.transformation.column,
            change.transformation.name,
            change.transformation.formula,
            mode,
            str(self.dtype).removeprefix("torch."),
            grade=Grade.NOT_JUDGED if hidden else outputs,
            inside=inside if self.base.inside else Grade.NOT_JUDGED,
            defect=usual.outputs,
            worst=worst.outputs,
            worst_delta=worst.delta,
            worst_case=worst.case,
            worst_site=max(upward, key=lambda p: p.inside).site,
            rate=rate,
            knee=knee,
            exact_without="",
            sign=sign,
            curve=tuple(sorted((p.delta, p.outputs) for p in points)),
        )

    def _more(self, change: Change, usual: Point, y: Tensor) -> tuple[list[Point], str]:
        """Further deltas, few once a break is plain; and what the sign of delta does."""
        scales = change.transformation.scales
        if not usual.outputs < VISIBLE:
            deltas = AFTER_A_BREAK if scales else ()
            return [self.point(change, delta)[0] for delta in deltas], ""
        deltas = (SCALES if scales else SHIFTS)[self.dtype]
        points = [self.point(change, delta)[0] for delta in deltas]
        mirrored, minus = self.point(change, -usual.delta)
        return [*points, mirrored], sign_of(y, minus, EXACT[self.dtype]) if scales else ""

    def point(self, change: Change, delta: float) -> tuple[Point, Tensor]:
        """The defects at one delta, and the outputs."""
        trial = change.trial(self.subject, delta)
        seen, base = self.see(trial), self.base
        if change.first_case_only:
            seen, base = _first_case(seen), _first_case(base)
        outputs = relative_change(seen.y, base.y)
        moves = _moves(seen.inside, base.inside)
        site, inside = max(moves.items(), key=lambda item: item[1], default=("", 0.0))
        exact = EXACT[self.dtype]
        doubtful = any(exact < d < min(exact**0.5, VISIBLE) for d in (outputs, inside))
        measured = Point(
            delta, outputs, inside, _worst_case(seen.y, base.y), site,
            _swallowed(seen.inside, base.inside, exact),
            self.rounding(trial, seen, change.first_case_only) if doubtful else (0.0, 0.0),
        )  # fmt: skip
        return measured, seen.y

    def knee(self, change: Change, points: list[Point]) -> float:
        """The delta at which the defect crosses 1 - 1/sqrt(2): there delta² var = eps."""
        far = 1 - 0.5**0.5
        gone = [p.delta for p in points if p.delta < 1 and not p.outputs < far]
        if not gone:
            return math.nan
        low = max(gone)
        high = min(p.delta for p in points if p.delta > low)
        for _ in range(12):
            middle = (low * high) ** 0.5
            there = self.point(change, middle)[0].outputs < far
            low, high = (low, middle) if there else (middle, high)
        return (low * high) ** 0.5

    def rounding(self, trial: Trial, seen: Seen, first_case_only: bool) -> tuple[float, float]:
        """What weights and inputs off by one rounding do, to the outputs and inside."""
        if self._jitter is None:
            self._jitter = Jitter(self.subject, self.weights)
        off = self.see(self._jitter(trial))
        off = _first_case(off) if first_case_only else off
        inside = max(_moves(off.inside, seen.inside).values(), default=0.0)
        return relative_change(off.y, seen.y), inside


def sign_of(plus: Tensor, minus: Tensor, exact: float) -> str:
    """Outputs at delta and at -delta: "same", "flips" (about a bias) or "other"."""
    plus, minus = plus.double(), minus.double()
    tolerance = exact * float(plus.abs().max())
    moved = (plus - minus).abs() > tolerance
    if not bool(moved.any()):
        return "same"
    both = torch.where(moved, plus + minus, 0.0)
    if both.dim() > 1:
        both = both[moved.flatten(1).any(1)]
    if len(both) > 1:
        both = both - both[:1]  # LN(-a) = -LN(a), and behind it a bias b: their sum is 2b
    return "flips" if float(both.abs().max()) <= 2 * tolerance else "other"


def grade(points: list[tuple[float, float, float]], scales: bool, dtype: torch.dtype) -> Grade:
    """The grade of (delta, defect, rounding), all of delta > 0."""
    if all(d <= max(EXACT[dtype], ROUNDINGS * rounding) for _, d, rounding in points):
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
    p = -np.polyfit(np.log(delta), np.log(d), 1)[0]
    if p < 0.5:
        return math.nan, math.nan
    slope, height = np.polyfit(np.log(delta), np.log(d / (1 - delta**p)), 1)
    size = math.exp(height)
    return -slope, (2 * size) ** 0.5 if -slope > 1.5 else size


def _first_case(seen: Seen) -> Seen:
    return seen._replace(
        y=seen.y[:1], inside=[s._replace(a=s.a[:1], h=None) for s in seen.inside]
    )


def _moves(now: list[Site], before: list[Site]) -> dict[str, float]:
    """The defect at each site; infinite at one that is not what it was."""
    moves: dict[str, float] = {}
    for new, old in zip(now, before, strict=False):
        alike = new.name == old.name and new.a.shape == old.a.shape
        moved = relative_change(new.a, old.a) if alike else math.inf
        moves[new.name] = max(moves.get(new.name, 0.0), moved)
    if len(now) != len(before):
        moves["another number of sites"] = math.inf
    return moves


def _swallowed(now: list[Site], before: list[Site], exact: float) -> bool:
    """Whether the last place that moved is in front of an f which lets nothing through."""
    pairs = [
        (new, old)
        for new, old in zip(now, before, strict=False)
        if new.a.shape == old.a.shape and not relative_change(new.a, old.a) <= exact
    ]
    if not pairs or pairs[-1][0].h is None or pairs[-1][1].h is None:
        return False
    return relative_change(pairs[-1][0].h, pairs[-1][1].h) <= exact


def _worst_case(now: Tensor, before: Tensor) -> int:
    return int((now.double() - before.double()).abs().flatten(1).amax(1).argmax())
