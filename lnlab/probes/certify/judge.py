"""Defects of a module under a change, and the grade that they earn."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from lnlab.probes.certify.certificate import Grade, Invariance
from lnlab.probes.certify.changes import Change, Jitter
from lnlab.probes.certify.grading import VISIBLE, Point, grade, law, sign_of
from lnlab.probes.givens import normal
from lnlab.probes.inside import Site
from lnlab.probes.invariance import EXACT, greatest, relative_change
from lnlab.probes.magnitudes import root_mean_square
from lnlab.probes.subject import Seen, Subject, Trial, Weight

USUAL = 3.7
"""The delta at which a defect is quoted: nothing special, such as a power of two."""

SCALES = {
    torch.float64: (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-6, 1e-12, 1e-30, 1e3, 1e30),
    torch.float32: (0.3, 1e-3, 1e-8, 1e3, 1e8),
    torch.bfloat16: (0.3, 1e-3, 1e3),
}
SHIFTS = {torch.float64: (1e-2, 1e2, 1e4), torch.float32: (1e2,), torch.bfloat16: ()}
"""The deltas that are tried where the first one, 3.7 or a shift of size 1, shows no break."""
AFTER_A_BREAK = (1e-3, 1e3)


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
        self._largest = {id(s.a): greatest(s.a) for s in self.base.inside}
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
        self._largest[id(y)] = greatest(y)
        self.silent = self._largest[id(y)] == 0
        self.dtype = y.dtype

    def see(self, trial: Trial | None) -> Seen:
        """The subject under a trial, see :meth:`.Subject.see`; counted."""
        self.evaluations += 1
        return self.subject.see(trial)

    def agrees(self, other: Judge) -> bool:
        """True if both compute the same to rounding, outside and inside.

        Held against each other are what they compute as they are, and with all weights and
        inputs drawn anew, of sizes between which an eps would be seen.
        """
        pairs = [(self.base, other.base)]
        for size in (1.0, 1e-3):
            trial = self._drawn_anew(size)
            pairs.append((self.see(trial), other.see(trial)))
        return all(
            moved <= EXACT[self.dtype]
            for own, its in pairs
            for moved in (
                relative_change(own.y, its.y),
                *self._moves(own.inside, its.inside).values(),
            )
        )

    def _drawn_anew(self, size: float) -> Trial:
        """Random weights and inputs whose numbers are ``size`` times those that are there."""

        def drawn(like: Tensor, stream: int) -> Tensor:
            # of the size of what is there: other sizes might leave the range of a precision
            rms = size * float(root_mean_square(like))
            return (rms * normal(2, stream, like.numel())).view_as(like).to(like)

        x, own = self.subject.x, self.subject.parameters
        weights = {name: drawn(own[name].data, 2 + i) for i, name in enumerate(self.weights)}
        return Trial(drawn(x, 1) if x.is_floating_point() else x, weights)

    def uses(self, weight: Weight) -> bool:
        """True if anything that can be seen depends on ``weight``."""
        W = self.subject.parameters[weight.name].data
        other = normal(2, 0, W.numel()).view_as(W).to(W)
        return self._shows(Trial(self.subject.x, {weight.name: other}))

    @cache  # noqa: B019  a judge lives as long as a certificate takes
    def uses_x(self) -> bool:
        """True if anything that can be seen depends on x; of integers, that is not tried."""
        x = self.subject.x
        if not x.is_floating_point():
            return True
        return self._shows(Trial(x + normal(2, 1, x.numel()).view_as(x).to(x)))

    def _shows(self, trial: Trial) -> bool:
        seen = self.see(trial)
        sites = zip(seen.inside, self.base.inside, strict=False)
        return not torch.equal(seen.y, self.base.y) or not all(
            torch.equal(new.a, old.a) for new, old in sites
        )

    def differs(self, change: Change) -> bool:
        """True if a change changes anything: a weight of zeros is re-scaled to itself."""
        scales = change.transformation.scales
        trial = change.trial(self.subject, USUAL if scales else 1.0)
        own = self.subject.parameters
        return (
            trial.shift is not None
            or not torch.equal(trial.x, self.subject.x)
            or any(not torch.equal(W, own[name].data) for name, W in trial.weights.items())
        )

    def judged(self, change: Change, mode: str, *, known_broken: bool = False) -> Invariance:
        """Grade one change; of one that is ``known_broken``, only the usual delta is tried."""
        scales = change.transformation.scales
        usual, y = self.point(change, USUAL if scales else 1.0)
        points, sign = [usual], ""
        if not (known_broken or change.first_case_only):
            more, sign = self._more(change, usual, y)
            points += more
        upward = [p for p in points if p.delta > 0]
        rounding = cache(partial(self.rounding, change))
        outputs, inside = (
            grade(
                [
                    (
                        p.delta,
                        defect,
                        partial(_place, rounding, p.delta, i) if p.doubtful else None,
                    )
                    for p in upward
                    for defect in [(p.outputs, p.inside)[i]]
                ],
                scales,
                self.dtype,
            )
            for i in range(2)
        )
        moved = [p for p in upward if p.inside > EXACT[self.dtype]]
        # Nothing came out, but something moved inside, and the f behind the last of it was
        # shut: what dead units hide says nothing about the normalizer.
        hidden = outputs is Grade.EXACT and moved and all(p.swallowed for p in moved)
        worst = max(upward, key=lambda p: _bad(p.outputs))
        ruled = scales and outputs is Grade.APPROXIMATE
        rate, knee = law(upward, EXACT[self.dtype]) if ruled else (math.nan, math.nan)
        if ruled and math.isnan(rate):
            knee = self.knee(change, upward)
        return Invariance(
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
            worst_site=max(upward, key=lambda p: _bad(p.inside)).site,
            rate=rate,
            knee=knee,
            exact_without="",
            sign=sign,
            curve=tuple(sorted((p.delta, p.outputs) for p in points)),
        )

    def _more(self, change: Change, usual: Point, y: Tensor) -> tuple[list[Point], str]:
        """Further deltas, few once a break is plain; and what the sign of delta does."""
        scales = change.transformation.scales
        # not `>=`: NaN is a break, too
        if not usual.outputs < VISIBLE:
            deltas = AFTER_A_BREAK if scales else ()
            return [self.point(change, delta)[0] for delta in deltas], ""
        deltas = (SCALES if scales else SHIFTS)[self.dtype]
        points = [self.point(change, delta)[0] for delta in deltas]
        mirrored, minus = self.point(change, -usual.delta)
        return [*points, mirrored], sign_of(y, minus, EXACT[self.dtype]) if scales else ""

    def seen(self, change: Change, delta: float) -> tuple[Seen, Seen]:
        """The module seen at one delta, and as it was seen before any change."""
        seen, base = self.see(change.trial(self.subject, delta)), self.base
        if change.first_case_only:
            return _first_case(seen), _first_case(base)
        return seen, base

    def outputs(self, change: Change, delta: float) -> float:
        """The defect of the outputs at one delta."""
        seen, base = self.seen(change, delta)
        return relative_change(seen.y, base.y)

    def point(self, change: Change, delta: float) -> tuple[Point, Tensor]:
        """The defects at one delta, and the outputs y (B, ...)."""
        seen, base = self.seen(change, delta)
        outputs = relative_change(seen.y, base.y, self._largest.get(id(base.y)))
        moves = self._moves(seen.inside, base.inside)
        site, inside = max(moves.items(), key=lambda item: _bad(item[1]), default=("", 0.0))
        exact = EXACT[self.dtype]
        swallowed = not inside <= exact and self._swallowed(seen.inside, base.inside, exact)
        measured = Point(
            delta, outputs, inside, _worst_case(seen.y, base.y), site, swallowed,
            doubtful=any(exact < d < min(exact**0.5, VISIBLE) for d in (outputs, inside)),
        )  # fmt: skip
        return measured, seen.y

    def knee(self, change: Change, points: list[Point]) -> float:
        """The delta at which the defect crosses 1 - 1/sqrt(2): there delta² var = eps."""
        # With eps inside the root a scale delta leaves y / sqrt(1 + eps / (delta² var)): at
        # delta² var = eps the output has come down to 1/sqrt(2) of itself.
        far = 1 - 0.5**0.5
        gone = [p.delta for p in points if p.delta < 1 and not p.outputs < far]
        if not gone:
            return math.nan
        low = max(gone)
        high = min(p.delta for p in points if p.delta > low)
        # halving the interval in logarithms: to a 4,096th of it
        for _ in range(12):
            middle = (low * high) ** 0.5
            there = self.outputs(change, middle) < far
            low, high = (low, middle) if there else (middle, high)
        return (low * high) ** 0.5

    def rounding(self, change: Change, delta: float) -> tuple[float, float]:
        """The effect of weights and inputs off by one rounding, on the outputs and inside."""
        if self._jitter is None:
            self._jitter = Jitter(self.subject, self.weights)
        seen, _ = self.seen(change, delta)
        off = self.see(self._jitter(change.trial(self.subject, delta)))
        off = _first_case(off) if change.first_case_only else off
        inside = max(self._moves(off.inside, seen.inside).values(), key=_bad, default=0.0)
        return relative_change(off.y, seen.y), inside

    def _moves(self, now: list[Site], before: list[Site]) -> dict[str, float]:
        """The defect at each site; infinite at one that is not what it was."""
        moves: dict[str, float] = {}
        known: dict[tuple[int, int], float] = {}  # what a norm puts out may go into f at once
        for new, old in zip(now, before, strict=False):
            alike = new.name == old.name and new.a.shape == old.a.shape
            pair = id(new.a), id(old.a)
            if alike and pair not in known:
                known[pair] = self._moved(new, old)
            moved = known[pair] if alike else math.inf
            moves[new.name] = max(moves.get(new.name, 0.0), moved, key=_bad)
        if len(now) != len(before):
            moves["another number of sites"] = math.inf
        return moves

    def _moved(self, new: Site, old: Site) -> float:
        """The defect at a site."""
        return relative_change(new.a, old.a, self._largest.get(id(old.a)))

    def _swallowed(self, now: list[Site], before: list[Site], exact: float) -> bool:
        """True if the last place that moved is in front of an f which lets nothing through."""
        pairs = list(zip(now, before, strict=False))
        for new, old in reversed(pairs):
            if new.a.shape == old.a.shape and not self._moved(new, old) <= exact:
                if new.h is None or old.h is None:
                    return False
                return relative_change(new.h, old.h) <= exact
        return False


def _bad(defect: float) -> float:
    """A defect among others: NaN is worse than any number, and ``max`` alone would lose it."""
    return math.inf if math.isnan(defect) else defect


def _first_case(seen: Seen) -> Seen:
    return seen._replace(
        y=seen.y[:1], inside=[s._replace(a=s.a[:1], h=None) for s in seen.inside]
    )


def _place(pair: Callable[[float], tuple[float, float]], delta: float, place: int) -> float:
    return pair(delta)[place]


def _worst_case(now: Tensor, before: Tensor) -> int:
    return int((now.double() - before.double()).abs().flatten(1).amax(1).argmax())
