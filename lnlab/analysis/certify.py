"""The invariances of Table 1 that a module of any make has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from lnlab.analysis.activations import Site, dead_units
from lnlab.analysis.certificate import Certificate, Grade, Invariance
from lnlab.analysis.magnitudes import EXACT, max_abs, relative_change, root_mean_square
from lnlab.analysis.module_copy import (
    ModuleCopy,
    Observation,
    Read,
    Replacement,
    Weight,
    as_list,
    batch_norms,
    check_input,
    find_weights,
    first_tensor,
    original_module,
    tensors,
)
from lnlab.analysis.normalized_layer import check_finite
from lnlab.analysis.random import normal, uniform
from lnlab.nn import Conv2d
from lnlab.nn.table1 import TRANSFORMATIONS, Given, Transformation, scale_rows
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread

# The transformations of Table 1, made to fit a module of any make.
#
# A change is a transformation at one place of a module: at one of its weights, at the summed
# inputs that a weight makes, or at its input.


OF_WEIGHTS, OF_INPUTS, OF_SUMMED = (1, 2, 3, 10), (4, 5, 6, 9), (7, 8)

OTHERS = Transformation(11, "the other cases replaced", "x₂…x_B → x′", lambda g, d, s: g, False)


@dataclass(frozen=True)
class Change:
    """One transformation at one place.

    Attributes:
        where: "x", or the name of a weight.
        transformation: the column.
        trial: makes, of a subject and delta (or the size of a shift, 1 being that of what
            is shifted), what is put in the place of its own.
        first_case_only: whether only the first case of the output is judged.
    """

    where: str
    transformation: Transformation
    trial: Callable[[ModuleCopy, float], Replacement]
    first_case_only: bool = False


def changes_of(
    weights: Collection[Weight],
    subject: ModuleCopy,
    called: Collection[str],
    feature_axis: int | None,
) -> Iterator[Change]:
    """All that can be tried on ``subject``, weights first.

    Args:
        weights: what to try columns 1 to 3, 7, 8 and 10 on.
        subject: the module and its input.
        called: the modules that are called; the summed inputs of the others (those of an
            attention's projection, say) cannot be reached.
        feature_axis: of x, along which a case's inputs stand; None: 1 where the first
            weight is a kernel, else the last.
    """
    columns = {T.column: T for T in TRANSFORMATIONS}
    for weight in weights:
        summed = weight.summed and weight.owner in called
        for column in sorted(OF_WEIGHTS + (OF_SUMMED if summed else ())):
            of = _of_summed if column in OF_SUMMED else _of_weight
            change = partial(of, weight=weight, transformation=columns[column])
            yield Change(weight.name, columns[column], change)
    axis = _feature_axis(subject, weights) if feature_axis is None else feature_axis
    for column in OF_INPUTS:
        if column in (4, 6) or subject.x.dim() > 1:
            change = partial(_of_input, transformation=columns[column], axis=axis)
            yield Change("x", columns[column], change)
    if len(subject.x) > 1 and subject.bn_stats != "recomputed":
        yield Change("x", OTHERS, _others_replaced, first_case_only=True)


def _feature_axis(subject: ModuleCopy, weights: Collection[Weight]) -> int:
    for weight in weights:
        owner = subject.module.get_submodule(weight.owner)
        return 1 if isinstance(owner, _ConvNd | Conv2d) else -1
    return 1 if subject.x.dim() == 4 else -1


def _of_weight(
    subject: ModuleCopy, delta: float, *, weight: Weight, transformation: Transformation
) -> Replacement:
    own = subject.parameters[weight.name].data
    W = own.movedim(weight.unit_axis, 0)
    if transformation.column == 3:
        # A quarter of the rows, drawn: the first alone may belong to a dead unit.
        order = uniform(0, 6, len(W)).argsort().to(W.device)
        rows = max(1, len(W) // 4)
        transformation = replace(transformation, change=partial(scale_rows, rows=rows))
        changed = _transformed(W[order], transformation, delta)
        W = torch.empty_like(changed).index_copy_(0, order, changed)
    else:
        W = _transformed(W, transformation, delta)
    return Replacement(subject.x, {weight.name: W.movedim(0, weight.unit_axis).contiguous()})


def _transformed(W: Tensor, transformation: Transformation, delta: float) -> Tensor:
    """W after the change; a shift is ``delta`` times as large as W."""
    nothing = W.new_zeros(())
    length = max(len(W), W[0].numel())
    shift = nothing if transformation.scales else _shift(W, delta, length)
    return transformation(Given(W, nothing, nothing), delta, shift).W


def _shift(like: Tensor, size: float, length: int) -> Tensor:
    """A random vector whose numbers are ``size`` times those of ``like``."""
    # of the size of what it is added to: a smaller one is lost in rounding, a larger one drowns
    # what was there
    rms = float(root_mean_square(like)) or 1.0
    return (size * rms * normal(0, 3, length)).to(like.dtype).to(like.device)


def _of_input(
    subject: ModuleCopy, delta: float, *, transformation: Transformation, axis: int
) -> Replacement:
    x = subject.x if subject.x.dim() < 2 else subject.x.movedim(axis, 1)
    nothing = x.new_zeros(())
    shift = nothing if transformation.scales else _shift(x, delta, max(x.shape[:2]))
    changed = transformation(Given(nothing, x, nothing), delta, shift).x
    return Replacement(changed if x.dim() < 2 else changed.movedim(1, axis).contiguous())


def _of_summed(
    subject: ModuleCopy, size: float, *, weight: Weight, transformation: Transformation
) -> Replacement:
    owner = subject.module.get_submodule(weight.owner)

    def shift(a: Tensor) -> Tensor:
        unit_axis = 1 if isinstance(owner, _ConvNd | Conv2d) else a.dim() - 1
        # column 7: one number a case, the same for all its units; column 8: one a unit
        axis = 0 if transformation.column == 7 else unit_axis
        c = _shift(a, size, a.shape[axis])
        return a + c.reshape(tuple(-1 if i == axis else 1 for i in range(a.dim())))

    return Replacement(subject.x, shift=(weight.owner, shift))


def _others_replaced(subject: ModuleCopy, delta: float) -> Replacement:
    x = subject.x
    # in another order alone they would have the same mean and variance, and BatchNorm would not
    # see that they are others
    others = x[1:].flip(0) + _shift(x, 1.0, x[1:].numel()).view_as(x[1:])
    return Replacement(torch.cat([x[:1], others]))


class Jitter:
    """A change of every input and weight of a subject by about one rounding, at random."""

    def __init__(self, subject: ModuleCopy, weights: Collection[str]) -> None:
        self.own = {name: subject.parameters[name].data for name in weights}
        self.factors = {
            name: _factors(W, 2 + i) for i, (name, W) in enumerate(self.own.items())
        }
        self.of_x = _factors(subject.x, 1)

    def __call__(self, trial: Replacement) -> Replacement:
        """``trial`` off by one rounding, its shifted summed inputs too."""
        weights = {**self.own, **trial.weights}
        off = {name: W * self.factors[name] for name, W in weights.items()}
        shift = trial.shift
        if shift is not None:
            owner, plain = shift
            shift = owner, lambda a: plain(a) * _factors(a, 0)
        return Replacement(trial.x * self.of_x, off, shift)


def _factors(like: Tensor, stream: int) -> Tensor:
    """1 and one unit in the last place more or less."""
    if not like.is_floating_point():
        return torch.ones_like(like)
    # eps is the unit in the last place of 1; a rounding is off by half of one at most
    noise = torch.sign(normal(1, stream, like.numel())).view_as(like)
    return (1 + torch.finfo(like.dtype).eps * noise).to(like)


# Grades of defects, and the laws that defects follow.


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


# Defects of a module under a change, and the grade that they earn.


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

    def __init__(self, subject: ModuleCopy, weights: dict[str, Weight]) -> None:
        self.subject, self.weights = subject, weights
        self.evaluations = 0
        self._jitter: Jitter | None = None
        self.base = self.see(None)
        self._largest = {id(s.a): max_abs(s.a) for s in self.base.sites}
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
        self._largest[id(y)] = max_abs(y)
        self.silent = self._largest[id(y)] == 0
        self.dtype = y.dtype

    def see(self, trial: Replacement | None) -> Observation:
        """The subject under a trial, see :meth:`.ModuleCopy.run`; counted."""
        self.evaluations += 1
        return self.subject.run(trial)

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
                *self._moves(own.sites, its.sites).values(),
            )
        )

    def _drawn_anew(self, size: float) -> Replacement:
        """Random weights and inputs whose numbers are ``size`` times those that are there."""

        def drawn(like: Tensor, stream: int) -> Tensor:
            # of the size of what is there: other sizes might leave the range of a precision
            rms = size * float(root_mean_square(like))
            return (rms * normal(2, stream, like.numel())).view_as(like).to(like)

        x, own = self.subject.x, self.subject.parameters
        weights = {name: drawn(own[name].data, 2 + i) for i, name in enumerate(self.weights)}
        return Replacement(drawn(x, 1) if x.is_floating_point() else x, weights)

    def uses(self, weight: Weight) -> bool:
        """True if anything that can be seen depends on ``weight``."""
        W = self.subject.parameters[weight.name].data
        other = normal(2, 0, W.numel()).view_as(W).to(W)
        return self._shows(Replacement(self.subject.x, {weight.name: other}))

    @cache  # noqa: B019  a judge lives as long as a certificate takes
    def uses_x(self) -> bool:
        """True if anything that can be seen depends on x; of integers, that is not tried."""
        x = self.subject.x
        if not x.is_floating_point():
            return True
        return self._shows(Replacement(x + normal(2, 1, x.numel()).view_as(x).to(x)))

    def _shows(self, trial: Replacement) -> bool:
        seen = self.see(trial)
        sites = zip(seen.sites, self.base.sites, strict=False)
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
            inside=inside if self.base.sites else Grade.NOT_JUDGED,
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

    def seen(self, change: Change, delta: float) -> tuple[Observation, Observation]:
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
        moves = self._moves(seen.sites, base.sites)
        site, inside = max(moves.items(), key=lambda item: _bad(item[1]), default=("", 0.0))
        exact = EXACT[self.dtype]
        swallowed = not inside <= exact and self._swallowed(seen.sites, base.sites, exact)
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
        inside = max(self._moves(off.sites, seen.sites).values(), key=_bad, default=0.0)
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


def _first_case(seen: Observation) -> Observation:
    return seen._replace(
        y=seen.y[:1], sites=[s._replace(a=s.a[:1], h=None) for s in seen.sites]
    )


def _place(pair: Callable[[float], tuple[float, float]], delta: float, place: int) -> float:
    return pair(delta)[place]


def _worst_case(now: Tensor, before: Tensor) -> int:
    return int((now.double() - before.double()).abs().flatten(1).amax(1).argmax())


COLUMNS = (*OF_WEIGHTS, *OF_INPUTS, *OF_SUMMED, OTHERS.column)
BADNESS = list(Grade)
MODES = ("train", "frozen", "recomputed", "evaluation")
FREED = 30 * 2**20
"""Bytes: glibc gives what is freed at the end of its memory back, from twice the largest block
that was freed so far, up to 32 MB, and small kernels would ask for it anew each time: for some
200,000 pages in a certificate of ResNet20, which without takes a twentieth less."""


@in_one_thread
def certify(
    module: nn.Module,
    x: Tensor,
    *,
    weights: Collection[str] | str | None = None,
    columns: Collection[int] | int | None = None,
    read: Read = first_tensor,
    feature_axis: int | None = None,
    dtypes: Collection[torch.dtype] | torch.dtype = tuple(EXACT),
    modes: Collection[str] | str | None = None,
    progress: bool = False,
) -> Certificate:
    """Try every transformation of Table 1 and its extension on ``module``.

    Each is tried at every weight (columns 1 to 3, 7, 8, 10) and at the input (4, 5, 6, 9,
    11), for deltas over 60 decades and of both signs, with statistics over cases of the
    batch ("train"), as they are ("frozen"), and taken again after the change ("recomputed"),
    where the module has any. A module that computes the same, to rounding, in training and
    with statistics taken again (batch norm does, without dropout) is tried in training alone,
    and both modes have what was found. Outputs are judged, and what goes into each f: a ReLU
    that is shut must not pass for an invariance. The module itself is not touched, nor is the
    random state; your hooks on it are not called.

    Args:
        module: called as ``module(x)``.
        x: its input, cases along the first axis.
        weights: names of the parameters to change; None: every matrix and kernel that is no
            part of a normalizer or an embedding.
        columns: which transformations; None: all.
        read: from what the module returns to the tensor that is judged; without it the first,
            and the certificate says of how many.
        feature_axis: of x, along which one case's inputs stand; None: the second for a
            picture or where the first weight is a kernel, else the last.
        dtypes: precisions; the first is graded by itself, the others are never graded better.
        modes: of "train", "frozen", "recomputed" and "evaluation", those to try where the
            module has them; None: all.
        progress: whether to show a bar: of all changes in all precisions and modes, of which
            there are fewer where some can do nothing.

    Raises:
        TypeError: where ``module`` is none, or x, or what is read from the output, no tensor.
        ValueError: where x holds NaN or an infinity, or integers that no input
            transformation fits; where the module does not take x, cannot be copied, or is
            not the same function twice; for a weight or column that does not exist.
    """
    start = time.perf_counter()
    torch.empty(FREED, dtype=torch.uint8)  # freed at once, and never written to
    module = original_module(module)
    read = _First() if read is first_tensor else read
    columns = COLUMNS if columns is None else as_list(columns, int)
    dtypes = as_list(dtypes, torch.dtype)
    if weights is not None:
        weights = as_list(weights, str)
    if modes is not None:
        modes = as_list(modes, str)
    _check(x, columns, dtypes, feature_axis)
    chosen = find_weights(module, weights)
    chosen_modes = _chosen(_modes(module, x, read), modes)
    session = _Session(columns, feature_axis)

    def tried() -> Iterator[Change]:
        trained: dict[torch.dtype, Judge] = {}
        for dtype, (mode, statistics) in product(dtypes, chosen_modes.items()):
            label = f"{_name(dtype)}, {mode}"
            try:
                subject = ModuleCopy(module, x, dtype=dtype, bn_stats=statistics, read=read)
                judge = Judge(subject, chosen)
            except ValueError as error:
                session.not_tried[label] = str(error)
                continue
            if mode == "train":
                trained[dtype] = judge
            if mode == "recomputed" and dtype in trained and judge.agrees(trained[dtype]):
                session.repeat(judge, _name(dtype))
                continue
            yield from session.hear(judge, mode, label)

    most = len(dtypes) * len(chosen_modes) * _most(chosen.values(), columns)
    for _ in bar(tried(), most, type(module).__name__, shown=progress):
        pass
    if not session.invariances:
        why = session.not_tried or "it has no matrix or kernel, and columns are of weights"
        raise ValueError(f"nothing of {type(module).__name__} could be tried: {why}.")
    return Certificate(
        module=type(module).__name__,
        shape=tuple(x.shape),
        invariances=tuple(session.invariances),
        dead=session.dead,
        not_tried=session.not_tried,
        returned=read.returned if isinstance(read, _First) else 1,
        silent=session.silent,
        evaluations=session.evaluations,
        seconds=time.perf_counter() - start,
    )


def _chosen(there: dict[str, str], wanted: Collection[str] | None) -> dict[str, str]:
    """The modes of the module that are looked at: all, or those that are wanted.

    Raises:
        ValueError: for a mode that does not exist, and where none is left.
    """
    if wanted is None:
        return there
    if unknown := sorted(set(wanted) - set(MODES)):
        raise ValueError(f"there are no modes {unknown}: choose from {', '.join(MODES)}.")
    chosen = {mode: statistics for mode, statistics in there.items() if mode in wanted}
    if not chosen:
        raise ValueError(f"modes is {sorted(wanted)}: the module has {', '.join(there)}.")
    return chosen


class _First:
    """:func:`first_tensor`, which remembers of how many."""

    returned = 1

    def __call__(self, output: Any) -> Tensor:
        self.returned = sum(1 for _ in tensors(output))
        return first_tensor(output)


class _Session:
    """All precisions and modes of one module, one after the other."""

    def __init__(self, columns: Sequence[int], feature_axis: int | None) -> None:
        self.columns, self.feature_axis = columns, feature_axis
        self.invariances: list[Invariance] = []
        self.first: dict[tuple, Invariance] = {}
        self.used: dict[str, list[Weight]] = {}
        self.not_tried: dict[str, str] = {}
        self.dead: dict[str, tuple[int, int]] = {}
        self.silent = False
        self.evaluations = 0

    def hear(self, judge: Judge, mode: str, label: str) -> Iterator[Change]:
        """Take down every invariance of one subject, a change at each turn."""
        self.silent = self.silent or judge.silent
        if not self.invariances:
            self.dead = dead_units(judge.subject.run(find_shut=True).sites)
        again = mode not in {m for *_, m in self.first}
        plainer = _Plainer(judge) if again and mode != "frozen" else None
        if mode not in self.used:  # the same in every precision
            self.used[mode] = [
                weight for weight in judge.weights.values() if judge.uses(weight)
            ]
        used = self.used[mode]
        for name in judge.weights.keys() - {weight.name for weight in used}:
            self.not_tried[name] = "nothing that can be seen depends on it"
        changes = [
            change
            for change in changes_of(used, judge.subject, judge.base.called, self.feature_axis)
            if change.transformation.column in self.columns
            and self._does_something(change, judge)
        ]
        for change in changes:
            yield change
            try:
                first = self.first.get((change.where, change.transformation.column, mode))
                broken = first is not None and first.grade is Grade.BROKEN
                found = judge.judged(change, mode, known_broken=broken)
            except ValueError as error:
                what = f"{label}, {change.where} {change.transformation.formula}"
                self.not_tried[what] = str(error)
                continue
            self.invariances.append(self._settled(found, change, plainer))
        self.evaluations += judge.evaluations + (plainer.evaluations if plainer else 0)

    def repeat(self, judge: Judge, dtype: str) -> None:
        """Take down for recomputed statistics what training found of the same function."""
        found = [v for v in self.invariances if (v.mode, v.dtype) == ("train", dtype)]
        self.invariances += [
            replace(v, mode="recomputed") for v in found if v.column != OTHERS.column
        ]
        self.evaluations += judge.evaluations

    def _does_something(self, change: Change, judge: Judge) -> bool:
        """True if a change can be seen at all: where it cannot, exact would mean nothing."""
        if change.where == "x" and not judge.uses_x():
            self.not_tried["x"] = "nothing that can be seen depends on it"
            return False
        if not judge.differs(change):
            what = f"{change.where} {change.transformation.formula}"
            self.not_tried[what] = f"it changes nothing: {change.where} is 0"
            return False
        return True

    def _settled(
        self, found: Invariance, change: Change, plainer: _Plainer | None
    ) -> Invariance:
        """The invariance with what is in its way, no better than in the first precision."""
        key = (found.where, found.column, found.mode)
        first = self.first.setdefault(key, found)
        # a coarser precision can hide a small break behind its rounding, and cannot mend one
        found = replace(found, grade=max(first.grade, found.grade, key=BADNESS.index))
        imperfect = found.grade in (Grade.APPROXIMATE, Grade.BROKEN)
        if plainer is None or not change.transformation.scales or not imperfect:
            return found
        return replace(found, exact_without=plainer.exact_without(change))


class _Plainer:
    """A subject without what commonly stands in the way of an invariance."""

    WITHOUT: ClassVar = {
        "eps": {"eps": True},
        "bias inside": {"bias": True},
        "eps and bias inside": {"eps": True, "bias": True},
    }

    def __init__(self, judge: Judge) -> None:
        self.judges: dict[str, Judge] = {}
        for without, which in self.WITHOUT.items():
            subject = judge.subject.without(**which)
            if subject is not None:
                with suppress(ValueError):  # 0/0 where nothing varies
                    self.judges[without] = Judge(subject, judge.weights)

    @property
    def evaluations(self) -> int:
        return sum(judge.evaluations for judge in self.judges.values())

    def exact_without(self, change: Change) -> str:
        """The setting that, at 0, lets ``change`` change nothing; "" where none does."""
        # the most plain comes last, and is mostly not needed
        return next((without for without in self.judges if self._exact(without, change)), "")

    def _exact(self, without: str, change: Change) -> bool:
        judge = self.judges[without]
        # at still smaller ones a bias that BatchNorm takes away again has cost all digits
        defects = (judge.outputs(change, delta) for delta in (USUAL, 1e-3))
        return all(defect <= EXACT[judge.dtype] for defect in defects)


def _most(weights: Iterable[Weight], columns: Sequence[int]) -> int:
    """The number of changes there can be in one precision and mode."""
    at_weights = (OF_WEIGHTS + (OF_SUMMED if weight.summed else ()) for weight in weights)
    each = (*at_weights, (*OF_INPUTS, OTHERS.column))
    return sum(len(set(own) & set(columns)) for own in each)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(
    x: Tensor, columns: Sequence[int], dtypes: Sequence[torch.dtype], feature_axis: int | None
) -> None:
    """Raise where certify cannot begin."""
    check_input(x)
    axes = range(-x.dim(), x.dim())
    if feature_axis is not None and feature_axis not in axes:
        raise ValueError(
            f"feature_axis is {feature_axis!r}: x has the axes {axes.start} to {axes.stop - 1}."
        )
    if unknown := [column for column in columns if column not in COLUMNS]:
        raise ValueError(f"there are no columns {unknown}: choose from {sorted(COLUMNS)}.")
    if unknown := [dtype for dtype in dtypes if dtype not in EXACT]:
        raise ValueError(f"no tolerance is known for {unknown}: choose from {list(EXACT)}.")
    if x.is_floating_point():
        check_finite("x", x)
    elif wrong := sorted(set(columns) & {*OF_INPUTS, OTHERS.column}):
        raise ValueError(
            f"x holds {x.dtype}, which columns {wrong} cannot re-scale or shift: certify what "
            f"comes behind the embedding, or give columns={sorted((*OF_WEIGHTS, *OF_SUMMED))}."
        )


def _modes(module: nn.Module, x: Tensor, read: Read) -> dict[str, str]:
    """The modes in which a module is to be tried, from what it does as it is.

    Raises:
        ValueError: where it does not take x in training or in evaluation.
    """
    if batch_norms(module):
        return {
            "train": "batch",
            "frozen": "running",
            "recomputed": "recomputed",
        }
    evaluation = Judge(ModuleCopy(module, x, bn_stats="running", read=read), {})
    training = Judge(ModuleCopy(module, x, bn_stats="batch", read=read), {})
    both = {"train": "batch", "evaluation": "running"}
    same = torch.equal(evaluation.base.y, training.base.y)
    return {"evaluation": "running"} if same else both
