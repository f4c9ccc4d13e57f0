"""The invariances of Table 1 that a module of any make has.

Every transformation is tried at every weight, at the pre-activations that a weight makes (the
paper's summed inputs), and at the input, for factors delta over 60 decades and of both signs.
What the module computes is compared in two places: at its outputs, and inside, at the inputs of
each nonlinearity f: a ReLU that is shut must not pass for an invariance.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from lnlab.analysis.activations import Site, dead_units
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
from lnlab.analysis.result import Figure, Frame, Report, make_frame
from lnlab.nn import Conv2d
from lnlab.nn.table1 import TRANSFORMATIONS, LayerInputs, Transformation
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread

# The result: invariances, and how they are read.


class Grade(Enum):
    """The degree to which an invariance holds, best first."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Invariance:
    """One transformation at one place of the module, in one mode and precision."""

    where: str  # "x" or the name of a weight
    column: int  # the transformation's number, 1 to 10, or 11, independence of other cases
    name: str  # the transformation in words
    formula: str  # the same in the paper's letters
    # "train", "running" or "recomputed", by the statistics of batch normalization, or
    # "evaluation" for a module without any
    mode: str
    dtype: str  # "float64" and so on
    # of the outputs; NOT_JUDGED if they are constant only because what moved inside went into
    # units that do not respond
    grade: Grade
    # the grade of what goes into f and comes out of normalizers; NOT_JUDGED if there is none of
    # these, or none that can be seen
    inside: Grade
    # max|y' - y| / max|y| at delta = 3.7, or for a shift as large as what it shifts
    defect: float
    worst: float  # the largest defect at any delta > 0 that was tried
    worst_delta: float  # that delta
    worst_case: int  # the case whose output moved most there
    worst_site: str  # the place inside that moved most there
    # p if the defect goes as delta^-p below 1: 2 is an eps inside the root, 1 one outside; NaN
    # if there is no such law
    rate: float
    knee: float  # the delta below which the invariance is gone, where delta² var = eps
    # what must be 0 for it to be exact, if that suffices: "eps", "bias inside" (the bias of the
    # layers that make pre-activations), or both
    exact_without: str
    sign: str  # what delta < 0 does beside |delta|: "same", "flips" (about a bias), "other"
    curve: tuple[tuple[float, float], ...]  # (delta, defect) of all that was tried

    def __str__(self) -> str:
        if self.grade is Grade.EXACT:
            return f"exact ({_size(self.worst)})"
        if self.grade is Grade.NOT_JUDGED:
            return "not judged: dead units only"
        without = f"; exact without {self.exact_without}" if self.exact_without else ""
        if self.grade is Grade.BROKEN:
            worse = self.worst > self.defect > 0
            worst = f"; {_size(self.worst)} at {self.worst_delta:g}" if worse else ""
            return f"broken ({self.size}{worst}, case {self.worst_case}{without})"
        law = f", ∝ δ^-{self.rate:.1f}" if math.isfinite(self.rate) else ""
        knee = f", knee δ = {_size(self.knee)}" if math.isfinite(self.knee) else ""
        return f"approximate ({self.size}{law}{knee}{without})"

    @property
    def size(self) -> str:
        """The defect in words: at the usual delta, or if there is none, the worst."""
        if self.defect > 0 or self.grade is Grade.EXACT:
            return _size(self.defect)
        if self.worst != 0:
            return f"{_size(self.worst)} at δ = {self.worst_delta:g}"
        return f"not seen in {self.dtype}"


def _size(defect: float) -> str:
    """Return two digits if it is visible, else its magnitude."""
    if not math.isfinite(defect):
        return "∞" if math.isinf(defect) else "not a number"
    return f"{defect:.2g}" if 0.01 <= defect < 1000 else f"{defect:.0e}" if defect else "0"


LEGEND = (
    "number: max|y' - y| / max|y| at δ = 3.7, for exact the largest; at: the δ of the largest.",
    "inside: the grade of what goes into each f and comes out of each norm.",
    "δ < 0: what a negative δ does beside |δ|: same, flips (a sign), other; blank: not tried.",
)


@dataclass(frozen=True)
class InvarianceReport(Report):
    """The invariances of a module; prints as a table."""

    module: str  # its class
    shape: tuple[int, ...]  # of the input
    # one for each place, transformation, mode and precision
    invariances: tuple[Invariance, ...]
    # for each f with units that are shut in all cases: how many, of how many
    dead: dict[str, tuple[int, int]]
    not_tried: dict[str, str]  # why a mode or precision could not be tried
    evaluations: int  # how often the module was evaluated
    seconds: float  # how long that took
    returned: int = 1  # how many tensors the module returns, of which the first was compared
    silent: bool = False  # whether all outputs are 0 before any change
    whole = (1,)

    def to_frame(self) -> Frame:
        """Return one row per invariance, without the curves."""
        grades = ({"grade": v.grade.value, "inside": v.inside.value} for v in self.invariances)
        rows = [asdict(v) | g for v, g in zip(self.invariances, grades, strict=True)]
        return make_frame(rows).drop(columns="curve", errors="ignore")

    def plot(self) -> Figure:
        """Return the defects against delta > 0, of the first mode and precision."""
        from lnlab.figures.curves import line_chart

        first = self.invariances[0]
        lines = {}
        for v in self.invariances:
            if (v.mode, v.dtype) == (first.mode, first.dtype):
                delta, defect = np.array([point for point in v.curve if point[0] > 0]).T
                lines[f"{v.where}: {v.formula}"] = delta, defect
        title = f"{first.mode}, {first.dtype}"
        return line_chart({title: lines}, x="δ", y="defect", log_x=True)

    def grade(
        self,
        where: str,
        column: int,
        *,
        mode: str | None = None,
        dtype: torch.dtype | str | None = None,
    ) -> Grade:
        """Return the grade of one cell, such as ``.grade("0.weight", 1, dtype="float32")``.

        ``where`` is "x" or the name of a weight, ``column`` the number of the transformation;
        without ``mode`` and ``dtype`` the first. If there is no such row, a KeyError lists the
        places.
        """
        given = {"mode": mode, "dtype": None if dtype is None else _name(dtype)}
        which = {name: value for name, value in given.items() if value is not None}
        wanted = {"where": where, "column": column, **which}
        for v in self.invariances:
            if all(getattr(v, name) == value for name, value in wanted.items()):
                return v.grade
        settings = "".join(f", {name}={value!r}" for name, value in which.items())
        places = ", ".join(dict.fromkeys(v.where for v in self.invariances))
        raise KeyError(
            f"nothing was found on column {column} at {where!r}{settings}: there are the "
            f"places {places}."
        )

    def _rows(self) -> list[Sequence[str]]:
        dtypes = list(dict.fromkeys(v.dtype for v in self.invariances))
        judged = any(v.inside is not Grade.NOT_JUDGED for v in self.invariances)
        inside = ["inside"] if judged else []
        head = ["where", "transformation", "mode", *dtypes, *inside, "δ < 0"]
        rows: list[Sequence[str]] = [head]
        for group in self._groups():
            first = group[0].get(dtypes[0]) or next(iter(group[0].values()))
            others = len(group) - 1
            more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
            row = [f"{first.where}{more}", f"{first.column:2d}  {first.formula}", first.mode]
            row += [_cell([v[d] for v in group if d in v], first) for d in dtypes]
            row += [first.inside.value] if judged else []
            rows.append([*row, first.sign])
        return rows

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *LEGEND])

    def _groups(self) -> Iterator[list[dict[str, Invariance]]]:
        """Yield the cells of each row by dtype; rows that differ in weight and size are one."""
        cells: dict[tuple, dict[str, Invariance]] = {}
        for v in self.invariances:
            cells.setdefault((v.where, v.column, v.mode), {})[v.dtype] = v
        groups: dict[tuple, list[dict[str, Invariance]]] = {}
        for (where, column, mode), row in cells.items():
            grades = tuple((dtype, v.grade, v.exact_without) for dtype, v in row.items())
            first = next(iter(row.values()))
            key = (where == "x", column, mode, grades, first.inside, first.sign)
            groups.setdefault(key, []).append(row)
        yield from groups.values()

    def _notes(self) -> Iterator[str]:
        shape = ", ".join(map(str, self.shape))
        first = [v for v in self.invariances if v.dtype == self.invariances[0].dtype]
        counts = Counter(v.grade for v in first)
        be = "is" if counts[Grade.EXACT] == 1 else "are"
        rest = "".join(f", {counts[g]} {g.value}" for g in list(Grade)[1:] if counts[g])
        exact = f"{counts[Grade.EXACT]} of {len(first)} invariances {be} exact"
        yield f"{self.module} of x ({shape}): {exact}{rest} in {first[0].dtype}."
        yield f"{self.evaluations} evaluations in {self.seconds:.1f} s"
        if self.returned > 1:
            yield f"judged: the first of {self.returned} tensors returned; read= takes another"
        if self.silent:
            yield "all outputs are 0 before any change: next to that every movement is ∞"
        for name, (dead, units) in self.dead.items():
            yield f"dead in all cases: {dead} of {units} units at {name}"
        for what, why in self.not_tried.items():
            yield f"not tried: {what}: {why}"
        yield ""


def _cell(cells: list[Invariance], first: Invariance) -> str:
    """Return one invariance in full, or the grade of several with the range of their defects.

    In another precision than ``first``, with the same grade, the defects alone.
    """
    if not cells:
        return "not tried"
    whole = cells[0].dtype == first.dtype
    if len(cells) == 1 and whole:
        return str(cells[0])
    sizes = sorted((v.defect, v.size) for v in cells)
    low, high = sizes[0][1], sizes[-1][1]
    text = low if low == high else f"{low} to {high}"
    if not whole and cells[0].grade is first.grade:
        return text
    exact_without = cells[0].exact_without if whole else ""
    without = f"; exact without {exact_without}" if exact_without else ""
    return f"{cells[0].grade.value} ({text}{without})"


# The transformations of Table 1, made to fit a module of any make: each is tried at one place,
# at one of its weights, at the pre-activations that a weight makes, or at its input.


OF_WEIGHTS, OF_INPUTS, OF_SUMMED = (1, 2, 3, 10), (4, 5, 6, 9), (7, 8)

OTHERS = Transformation(
    11, "the other cases replaced", "x₂…x_B → x′", lambda given, _: given, False
)

COLUMNS = (*OF_WEIGHTS, *OF_INPUTS, *OF_SUMMED, OTHERS.column)


@dataclass(frozen=True)
class Change:
    """One transformation at one place."""

    where: str  # "x", or the name of a weight
    transformation: Transformation  # the column
    # from a module copy and delta (or the size of a shift, 1 being that of what is shifted) to
    # what is put in the place of its own
    replacement: Callable[[ModuleCopy, float], Replacement]
    first_case_only: bool = False  # whether only the first case of the output is compared


def changes_of(
    weights: Collection[Weight], module: ModuleCopy, called: Collection[str], axis: int | None
) -> Iterator[Change]:
    """Yield all changes that can be tried on ``module``, those of weights first.

    The pre-activations of modules that are not ``called`` (those of an attention's projection,
    say) cannot be reached. ``axis`` of x holds the inputs of a case; None: 1 if the first
    weight is a kernel, else the last.
    """
    columns = {T.column: T for T in TRANSFORMATIONS}
    for weight in weights:
        summed = weight.summed and weight.owner in called
        for column in sorted(OF_WEIGHTS + (OF_SUMMED if summed else ())):
            of = _of_summed if column in OF_SUMMED else _of_weight
            make = partial(of, weight=weight, transformation=columns[column])
            yield Change(weight.name, columns[column], make)
    if axis is None:
        convolves = [_convolves(module.module.get_submodule(w.owner)) for w in weights]
        axis = 1 if (convolves[0] if convolves else module.x.dim() == 4) else -1
    for column in OF_INPUTS:
        if column in (4, 6) or module.x.dim() > 1:
            make = partial(_of_input, transformation=columns[column], axis=axis)
            yield Change("x", columns[column], make)
    # recomputed statistics are those of the other cases too: of them there is no column 11
    if len(module.x) > 1 and module.bn_stats != "recomputed":
        yield Change("x", OTHERS, _others_replaced, first_case_only=True)


def _convolves(owner: nn.Module) -> bool:
    return isinstance(owner, _ConvNd | Conv2d)


def _of_weight(
    module: ModuleCopy, delta: float, *, weight: Weight, transformation: Transformation
) -> Replacement:
    W = module.parameters[weight.name].data.movedim(weight.unit_axis, 0)
    if transformation.column == 3:
        # A quarter of the rows, drawn: the first alone may belong to a dead unit.
        rows = uniform(0, 6, len(W)).argsort()[: max(1, len(W) // 4)].to(W.device)
        W = W.index_copy(0, rows, delta * W[rows])
    else:
        nothing = W.new_zeros(())
        length = max(len(W), W[0].numel())
        shift = nothing if transformation.scales else _shift(W, delta, length)
        W = transformation(LayerInputs(W, nothing, nothing), delta, shift).W
    return Replacement(module.x, {weight.name: W.movedim(0, weight.unit_axis).contiguous()})


def _shift(like: Tensor, size: float, length: int) -> Tensor:
    """Return a random vector whose numbers are ``size`` times those of ``like``."""
    # of the size of what it is added to: a smaller one is lost in rounding, a larger one drowns
    # what was there
    rms = float(root_mean_square(like)) or 1.0
    return (size * rms * normal(0, 3, length)).to(like.dtype).to(like.device)


def _of_input(
    module: ModuleCopy, delta: float, *, transformation: Transformation, axis: int
) -> Replacement:
    x = module.x if module.x.dim() < 2 else module.x.movedim(axis, 1)
    nothing = x.new_zeros(())
    shift = nothing if transformation.scales else _shift(x, delta, max(x.shape[:2]))
    changed = transformation(LayerInputs(nothing, x, nothing), delta, shift).x
    return Replacement(changed if x.dim() < 2 else changed.movedim(1, axis).contiguous())


def _of_summed(
    module: ModuleCopy, size: float, *, weight: Weight, transformation: Transformation
) -> Replacement:
    image = _convolves(module.module.get_submodule(weight.owner))

    def shift(a: Tensor) -> Tensor:
        unit_axis = 1 if image else a.dim() - 1
        # column 7: one number a case, the same for all its units; column 8: one a unit
        axis = 0 if transformation.column == 7 else unit_axis
        c = _shift(a, size, a.shape[axis])
        return a + c.reshape(tuple(-1 if i == axis else 1 for i in range(a.dim())))

    return Replacement(module.x, shift=(weight.owner, shift))


def _others_replaced(module: ModuleCopy, delta: float) -> Replacement:
    x = module.x
    # in another order alone they would have the same mean and variance, and BatchNorm would not
    # notice
    others = x[1:].flip(0) + _shift(x, 1.0, x[1:].numel()).view_as(x[1:])
    return Replacement(torch.cat([x[:1], others]))


# Defects: how they are graded, and the laws that they follow.


VISIBLE = 0.05
"""A defect above this at delta >= 1 is a break, whatever its law."""

ROUNDINGS = 8
"""A defect below this many times that of inputs and weights off by one rounding is none."""


@dataclass(frozen=True)
class DefectsAtDelta:
    """The defects that one delta made."""

    delta: float  # the scale, or the size of a shift
    outputs: float  # the defect of the outputs
    inside: float  # the largest defect inside, and ``site`` where
    case: int  # the case whose output moved most
    site: str
    # whether the last site that moved is in front of an f that lets nothing pass
    swallowed: bool
    doubtful: bool  # whether a defect may be one of rounding


def _sign(plus: Tensor, minus: Tensor, exact: float) -> str:
    """Compare outputs at delta and at -delta: "same", "flips" (about a bias) or "other"."""
    plus, minus = plus.double(), minus.double()
    tolerance = exact * float(plus.abs().max())
    changed = (plus - minus).abs() > tolerance
    if not bool(changed.any()):
        return "same"
    # an odd function has y(delta) + y(-delta) = 0
    both = torch.where(changed, plus + minus, 0.0)
    if both.dim() > 1:
        both = both[changed.flatten(1).any(1)]
    if len(both) > 1:
        both = both - both[:1]  # LN(-a) = -LN(a), and behind it a bias b: their sum is 2b
    return "flips" if float(both.abs().max()) <= 2 * tolerance else "other"


def _law(points: list[DefectsAtDelta], exact: float) -> tuple[float, float]:
    """Return (p, knee): defects go as delta^-p below 1, and reach order one at the knee.

    With eps inside the root the defect is eps/(2 var) (delta^-2 - 1) while that is small, and
    the knee is where delta² var = eps; outside, eps/sigma (1/delta - 1), and delta sigma = eps.
    (NaN, NaN) if no power law is seen.
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


def _roundings(like: Tensor, stream: int) -> Tensor:
    """Return 1 and one unit in the last place more or less, in the shape of ``like``."""
    if not like.is_floating_point():
        return torch.ones_like(like)
    # eps is the unit in the last place of 1; a rounding is off by half of one at most
    noise = torch.sign(normal(1, stream, like.numel())).view_as(like)
    return (1 + torch.finfo(like.dtype).eps * noise).to(like)


# Changes tried on one module copy.


USUAL = 3.7
"""The delta at which a defect is quoted: nothing special, such as a power of two."""

SCALES = {
    torch.float64: (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-6, 1e-12, 1e-30, 1e3, 1e30),
    torch.float32: (0.3, 1e-3, 1e-8, 1e3, 1e8),
    torch.bfloat16: (0.3, 1e-3, 1e3),
}
SHIFTS = {torch.float64: (1e-2, 1e2, 1e4), torch.float32: (1e2,), torch.bfloat16: ()}
"""The deltas that are tried if the first one, 3.7 or a shift of size 1, shows no break."""
AFTER_A_BREAK = (1e-3, 1e3)


class Tester:
    """Tries changes on one module copy and grades their defects.

    Attributes:
        base: the evaluation without any change.
        evaluations: how often the module was evaluated.
        precision: that which the outputs have.
        exact: a defect below this is rounding.
    """

    def __init__(self, module: ModuleCopy, weights: dict[str, Weight]) -> None:
        self.module, self.weights = module, weights
        self.evaluations = 0
        self.base = self.run(None)
        y = self.base.y
        if not y.is_floating_point() or not y.dim():
            raise ValueError(
                f"the output to judge is {y.dtype} of shape {tuple(y.shape)}: give read=, "
                "which returns a floating point tensor with the cases along its first axis."
            )
        if not bool(y.isfinite().all()):
            raise ValueError("the outputs hold NaN or an infinity before any change.")
        if not torch.equal(self.run(None).y, y):
            raise ValueError(
                "two evaluations from one random state differ: the module draws random "
                "numbers from elsewhere or keeps something from call to call, and no defect "
                "could be distinguished from that."
            )
        # the largest |a| of every tensor of the base, which each change is compared with
        self._largest = {id(v): max_abs(v) for v in (y, *(s.a for s in self.base.sites))}
        self.silent = self._largest[id(y)] == 0
        self.dtype = y.dtype
        self.precision = module.precision if module.precision in EXACT else torch.bfloat16
        self.exact = EXACT[self.precision]

    def run(self, new: Replacement | None) -> Observation:
        """Evaluate the module, see :meth:`.ModuleCopy.run`; counted."""
        self.evaluations += 1
        return self.module.run(new)

    def depends_on(self, where: str) -> bool:
        """Return True if anything that can be seen depends on a weight, or on "x".

        An input of integers is not tried.
        """
        x = self.module.x
        values = x if where == "x" else self.module.parameters[where].data
        if not values.is_floating_point():
            return True
        other = normal(2, int(where == "x"), values.numel()).view_as(values).to(values)
        changed = self.run(
            Replacement(x + other) if where == "x" else Replacement(x, {where: other})
        )
        sites = zip(changed.sites, self.base.sites, strict=False)
        return not torch.equal(changed.y, self.base.y) or not all(
            torch.equal(one.a, another.a) for one, another in sites
        )

    def test(self, change: Change, mode: str, *, known_broken: bool = False) -> Invariance:
        """Grade one change; if it is ``known_broken``, only the usual delta is tried."""
        scales = change.transformation.scales
        usual, y = self._point(change, USUAL if scales else 1.0)
        points, sign = [usual], ""
        if not (known_broken or change.first_case_only):
            more, sign = self._more_points(change, usual, y)
            points += more
        upward = [p for p in points if p.delta > 0]
        rounding = cache(partial(self._rounding, change))
        outputs = self._grade(upward, scales, lambda p: p.outputs, lambda p: rounding(p)[0])
        inside = self._grade(upward, scales, lambda p: p.inside, lambda p: rounding(p)[1])
        changed = [p for p in upward if p.inside > self.exact]
        # Nothing came out, but something moved inside, and the f behind the last of it was
        # shut: what dead units hide says nothing about the normalizer.
        hidden = outputs is Grade.EXACT and changed and all(p.swallowed for p in changed)
        worst = max(upward, key=lambda p: _badness(p.outputs))
        has_law = scales and outputs is Grade.APPROXIMATE
        rate, knee = _law(upward, self.exact) if has_law else (math.nan, math.nan)
        if has_law and math.isnan(rate):
            knee = self._knee(change, upward)
        transformation = change.transformation
        return Invariance(
            change.where, transformation.column, transformation.name, transformation.formula,
            mode, _name(self.dtype),
            grade=Grade.NOT_JUDGED if hidden else outputs,
            inside=inside if self.base.sites else Grade.NOT_JUDGED,
            defect=usual.outputs, worst=worst.outputs, worst_delta=worst.delta,
            worst_case=worst.case,
            worst_site=max(upward, key=lambda p: _badness(p.inside)).site,
            rate=rate, knee=knee, exact_without="", sign=sign,
            curve=tuple(sorted((p.delta, p.outputs) for p in points)),
        )  # fmt: skip

    def _grade(
        self,
        points: list[DefectsAtDelta],
        scales: bool,
        defect: Callable[[DefectsAtDelta], float],
        rounding: Callable[[DefectsAtDelta], float],
    ) -> Grade:
        """Return the grade of points of delta > 0; roundings, which cost time, come last."""
        certain = all(defect(p) <= self.exact for p in points if not p.doubtful)
        if certain and all(
            defect(p) <= max(self.exact, ROUNDINGS * rounding(p)) for p in points if p.doubtful
        ):
            return Grade.EXACT
        counted = [defect(p) for p in points if p.delta >= 1 or not scales]
        return Grade.APPROXIMATE if all(d < VISIBLE for d in counted) else Grade.BROKEN

    def _more_points(
        self, change: Change, usual: DefectsAtDelta, y: Tensor
    ) -> tuple[list[DefectsAtDelta], str]:
        """Return further deltas, few after a break, and what the sign of delta does."""
        scales = change.transformation.scales
        if not usual.outputs < VISIBLE:  # not `>=`: NaN is a break, too
            deltas = AFTER_A_BREAK if scales else ()
            return [self._point(change, delta)[0] for delta in deltas], ""
        deltas = (SCALES if scales else SHIFTS)[self.precision]
        points = [self._point(change, delta)[0] for delta in deltas]
        mirrored, minus = self._point(change, -usual.delta)
        return [*points, mirrored], _sign(y, minus, self.exact) if scales else ""

    def _compared(self, change: Change, delta: float) -> tuple[Observation, Observation]:
        """Return the evaluation at one delta, and that before any change."""
        changed, base = self.run(change.replacement(self.module, delta)), self.base
        if change.first_case_only:
            return _first_case(changed), _first_case(base)
        return changed, base

    def defect(self, change: Change, delta: float) -> float:
        """Return the defect of the outputs at one delta."""
        changed, base = self._compared(change, delta)
        return relative_change(changed.y, base.y)

    def _point(self, change: Change, delta: float) -> tuple[DefectsAtDelta, Tensor]:
        """Return the defects at one delta, and the outputs y (B, ...)."""
        changed, base = self._compared(change, delta)
        outputs = relative_change(changed.y, base.y, self._largest.get(id(base.y)))
        defects = self._site_defects(changed.sites, base.sites)
        site = max(defects, key=lambda name: _badness(defects[name]), default="")
        inside = defects.get(site, 0.0)
        case = (changed.y.double() - base.y.double()).abs().flatten(1).amax(1).argmax()
        swallowed = not inside <= self.exact and self._swallowed(changed.sites, base.sites)
        limit = min(self.exact**0.5, VISIBLE)
        doubtful = any(self.exact < d < limit for d in (outputs, inside))
        point = DefectsAtDelta(delta, outputs, inside, int(case), site, swallowed, doubtful)
        return point, changed.y

    def _knee(self, change: Change, points: list[DefectsAtDelta]) -> float:
        """Return the delta where the defect crosses 1 - 1/sqrt(2): there delta² var = eps."""
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
            near = self.defect(change, middle) < far
            low, high = (low, middle) if near else (middle, high)
        return (low * high) ** 0.5

    def _rounding(self, change: Change, point: DefectsAtDelta) -> tuple[float, float]:
        """Return the effect of one rounding of weights and inputs, on outputs and inside."""
        changed, _ = self._compared(change, point.delta)
        off = self.run(self._rounded(change.replacement(self.module, point.delta)))
        off = _first_case(off) if change.first_case_only else off
        inside = self._site_defects(off.sites, changed.sites).values()
        return relative_change(off.y, changed.y), max(inside, key=_badness, default=0.0)

    def _rounded(self, new: Replacement) -> Replacement:
        """Return ``new`` with every input, weight and shifted sum off by one rounding."""
        parameters = {name: self.module.parameters[name].data for name in self.weights}
        weights = {
            name: new.weights.get(name, W) * _roundings(W, 2 + i)
            for i, (name, W) in enumerate(parameters.items())
        }
        shift = new.shift
        if shift is not None:
            owner, plain = shift
            shift = owner, lambda a: plain(a) * _roundings(a, 0)
        return Replacement(new.x * _roundings(new.x, 1), weights, shift)

    def _site_defects(self, now: list[Site], before: list[Site]) -> dict[str, float]:
        """Return the defect at each site; infinite at one that is not what it was."""
        defects: dict[str, float] = {}
        known: dict[tuple[int, int], float] = {}  # a norm's output may go into f at once
        for new, old in zip(now, before, strict=False):
            alike = new.name == old.name and new.a.shape == old.a.shape
            pair = id(new.a), id(old.a)
            if alike and pair not in known:
                known[pair] = relative_change(new.a, old.a, self._largest.get(id(old.a)))
            defect = known[pair] if alike else math.inf
            defects[new.name] = max(defects.get(new.name, 0.0), defect, key=_badness)
        if len(now) != len(before):
            defects["another number of sites"] = math.inf
        return defects

    def _swallowed(self, now: list[Site], before: list[Site]) -> bool:
        """Return True if the last site that moved is in front of an f which is shut."""
        for new, old in reversed(list(zip(now, before, strict=False))):
            if new.a.shape != old.a.shape:
                continue
            if not relative_change(new.a, old.a, self._largest.get(id(old.a))) <= self.exact:
                if new.h is None or old.h is None:
                    return False
                return relative_change(new.h, old.h) <= self.exact
        return False


def _badness(defect: float) -> float:
    """Return a defect for comparison: ``max`` alone would lose NaN, worse than any number."""
    return math.inf if math.isnan(defect) else defect


def _first_case(seen: Observation) -> Observation:
    sites = [s._replace(a=s.a[:1], h=None) for s in seen.sites]
    return seen._replace(y=seen.y[:1], sites=sites)


def _name(dtype: torch.dtype | str) -> str:
    return str(dtype).removeprefix("torch.")


# All precisions and modes.


DTYPES: dict[Any, Any] = {_name(dtype): dtype for dtype in EXACT}

MODES = {"train": "batch", "running": "running", "recomputed": "recomputed"}
"""The modes of a module with batch normalization, and the statistics that it takes in each."""


@in_one_thread
def check_invariances(
    model: nn.Module,
    x: Tensor,
    *,
    weights: Collection[str] | str | None = None,
    columns: Collection[int] | int | None = None,
    read: Read = first_tensor,
    feature_axis: int | None = None,
    dtypes: Collection[torch.dtype | str] | torch.dtype | str = tuple(EXACT),
    modes: Collection[str] | str | None = None,
    progress: bool = False,
) -> InvarianceReport:
    """Try every transformation of Table 1 and its extension on ``model``.

    Each is tried at every weight (columns 1 to 3, 7, 8, 10) and at the input (4, 5, 6, 9, 11),
    for deltas over 60 decades and of both signs. A model with batch normalization is tried with
    the statistics of the batch ("train"), with the "running" ones, and with those "recomputed"
    after the change. The model and the random state are left as they are; its hooks are not
    called.

    Args:
        model: called as ``model(x)``.
        x: its input, cases along the first axis.
        weights: names of the parameters to change; None: every matrix and kernel that belongs
            to no normalizer or embedding.
        columns: the numbers of the transformations; None: all. At the weights: 1, weight matrix
            re-scaling, W → δW; 2, weight matrix re-centering, W → W + 1γᵀ; 3, weight vector
            re-scaling, w₁ → δw₁; 10, shift of a unit's weights, wᵢ → wᵢ + cᵢ1. At the inputs:
            4, dataset re-scaling, X → δX; 5, dataset re-centering, X → X + 1γᵀ; 6, single
            training case re-scaling, x₁ → δx₁; 9, shift of a case's inputs, xₙ → xₙ + cₙ1; 11,
            the other cases replaced, x₂…x_B → x′. At the pre-activations, the summed inputs: 7,
            shift of a case's, aₙ → aₙ + cₙ1; 8, shift of a unit's, aᵢ → aᵢ + cᵢ.
        read: from what the model returns to the tensor that is compared; without it the first.
        feature_axis: of x, along which the inputs of one case are; None: the second for an
            image or if the first weight is a kernel, else the last.
        dtypes: precisions, torch.float32 or "float32"; the first is graded by itself, the
            others are never graded better.
        modes: of "train", "running", "recomputed" and "evaluation", those to try if the model
            has them; None: all.
        progress: whether to show a bar, of at most all changes in all precisions and modes.

    Raises:
        TypeError: if ``model`` is no module, or x, or what is read from the output, no tensor.
        ValueError: if x holds NaN or an infinity, or integers that no input transformation
            fits; if the model does not take x, cannot be copied, or is not the same function
            twice; for a weight or column that does not exist.

    Examples:
        >>> invariances = lnlab.check_invariances(net, x)
        >>> print(invariances)
        >>> invariances.save("invariances.csv")
    """
    start, model = time.perf_counter(), original_module(model)
    columns = COLUMNS if columns is None else as_list(columns, int)
    precisions = [DTYPES.get(d, d) for d in as_list(dtypes, (torch.dtype, str))]
    _check_arguments(x, columns, precisions, feature_axis)
    returned = 1

    def read_first(output: Any) -> Tensor:
        nonlocal returned
        returned = sum(1 for _ in tensors(output))
        return first_tensor(output)

    read = read_first if read is first_tensor else read
    chosen = find_weights(model, None if weights is None else as_list(weights, str))
    all_modes = _modes(model, x, read)
    wanted = set(all_modes if modes is None else as_list(modes, str))
    if unknown := wanted - {*MODES, "evaluation"}:
        raise ValueError(f"there are no modes {sorted(unknown)}: the model has {[*all_modes]}.")
    tried = {mode: bn_stats for mode, bn_stats in all_modes.items() if mode in wanted}
    if not tried:
        raise ValueError(f"modes is {sorted(wanted)}: the model has {[*all_modes]}.")
    search = _Search(columns, feature_axis)

    def changes() -> Iterator[Change]:
        for dtype, (mode, bn_stats) in product(precisions, tried.items()):
            label = f"{_name(dtype)}, {mode}"
            try:
                module = ModuleCopy(model, x, dtype=dtype, bn_stats=bn_stats, read=read)
                tester = Tester(module, chosen)
            except ValueError as error:
                search.not_tried[label] = str(error)
                continue
            yield from search.run(tester, mode, label)

    at_most = len(precisions) * len(tried) * _count(chosen.values(), columns)
    for _ in bar(changes(), at_most, type(model).__name__, shown=progress):
        pass
    if not search.found:
        why = search.not_tried or "it has no matrix or kernel, and columns are of weights"
        raise ValueError(f"nothing of {type(model).__name__} could be tried: {why}.")
    return InvarianceReport(
        type(model).__name__, tuple(x.shape), tuple(search.found), search.dead,
        search.not_tried, search.evaluations, time.perf_counter() - start, returned,
        search.silent,
    )  # fmt: skip


class _Search:
    """The invariances found in all precisions and modes of one model, one by one."""

    def __init__(self, columns: Collection[int], feature_axis: int | None) -> None:
        self.columns, self.feature_axis = columns, feature_axis
        self.found: list[Invariance] = []
        self.first: dict[tuple, Invariance] = {}
        self.used: dict[str, list[str]] = {}
        self.not_tried: dict[str, str] = {}
        self.dead: dict[str, tuple[int, int]] = {}
        self.silent = False
        self.evaluations = 0

    def run(self, tester: Tester, mode: str, label: str) -> Iterator[Change]:
        """Find every invariance of one module copy, a change at each turn."""
        self.silent = self.silent or tester.silent
        if not self.found:
            self.dead = dead_units(tester.module.run(find_shut=True).sites)
        first_precision = mode not in {m for *_, m in self.first}
        plainer = _plainer(tester) if first_precision and mode != "running" else {}
        names = [*tester.weights, *(["x"] if {*OF_INPUTS, 11} & {*self.columns} else [])]
        if mode not in self.used:  # the same in every precision
            self.used[mode] = [name for name in names if tester.depends_on(name)]
        for name in {*names} - {*self.used[mode]}:
            self.not_tried[name] = "nothing that can be seen depends on it"
        used = [w for name, w in tester.weights.items() if name in self.used[mode]]
        changes = [
            change
            for change in changes_of(used, tester.module, tester.base.called, self.feature_axis)
            if change.transformation.column in self.columns
            and (change.where != "x" or "x" in self.used[mode])
            and self._changes_something(change, tester)
        ]
        for change in changes:
            yield change
            key = change.where, change.transformation.column, mode
            broken = key in self.first and self.first[key].grade is Grade.BROKEN
            try:
                invariance = tester.test(change, mode, known_broken=broken)
            except ValueError as error:
                formula = change.transformation.formula
                self.not_tried[f"{label}, {change.where} {formula}"] = str(error)
                continue
            first = self.first.setdefault(key, invariance)
            # a coarser precision can hide a small break behind its rounding, not repair it
            grade = max(first.grade, invariance.grade, key=list(Grade).index)
            imperfect = grade in (Grade.APPROXIMATE, Grade.BROKEN)
            without = ""
            if imperfect and change.transformation.scales:
                without = next((w for w, t in plainer.items() if _holds(t, change)), "")
            self.found.append(replace(invariance, grade=grade, exact_without=without))
        self.evaluations += sum(t.evaluations for t in (tester, *plainer.values()))

    def _changes_something(self, change: Change, tester: Tester) -> bool:
        """Return True unless it re-scales 0: that it does not move would mean nothing."""
        scales = change.transformation.scales
        new = change.replacement(tester.module, USUAL if scales else 1.0)
        module = tester.module
        before = [module.x, *(module.parameters[name].data for name in new.weights)]
        if new.shift is not None or not all(
            map(torch.equal, before, (new.x, *new.weights.values()))
        ):
            return True
        what = f"{change.where} {change.transformation.formula}"
        self.not_tried[what] = f"it changes nothing: {change.where} is 0"
        return False


def _plainer(tester: Tester) -> dict[str, Tester]:
    """Return testers of the module without what commonly prevents an invariance."""
    testers: dict[str, Tester] = {}
    for without in ("eps", "bias inside", "eps and bias inside"):
        module = tester.module.without(eps="eps" in without, bias="bias" in without)
        if module is not None:
            with suppress(ValueError):  # 0/0 if nothing varies
                testers[without] = Tester(module, tester.weights)
    return testers


def _holds(tester: Tester, change: Change) -> bool:
    # at still smaller ones a bias that BatchNorm takes away again has cost all digits; at a
    # large one a small effect, which passes for rounding to float32 at the others, is seen
    return all(tester.defect(change, delta) <= tester.exact for delta in (USUAL, 1e-3, 1e3))


def _count(weights: Iterable[Weight], columns: Collection[int]) -> int:
    """Return the number of changes there can be in one precision and mode."""
    at_weights = (OF_WEIGHTS + (OF_SUMMED if weight.summed else ()) for weight in weights)
    each = (*at_weights, (*OF_INPUTS, OTHERS.column))
    return sum(len(set(tried) & set(columns)) for tried in each)


def _check_arguments(
    x: Tensor, columns: Collection[int], dtypes: Collection[Any], feature_axis: int | None
) -> None:
    check_input(x)
    if feature_axis is not None and feature_axis not in range(-x.dim(), x.dim()):
        raise ValueError(f"feature_axis is {feature_axis!r}: x has {x.dim()} axes.")
    if unknown := [column for column in columns if column not in COLUMNS]:
        names = ", ".join(f"{t.column} ({t.name})" for t in (*TRANSFORMATIONS, OTHERS))
        raise ValueError(f"there are no columns {unknown}: choose from {names}.")
    if unknown := [dtype for dtype in dtypes if dtype not in EXACT]:
        raise ValueError(f"no tolerance is known for {unknown}: choose from {list(EXACT)}.")
    if x.is_floating_point():
        check_finite("x", x)
    elif wrong := sorted(set(columns) & {*OF_INPUTS, OTHERS.column}):
        raise ValueError(
            f"x holds {x.dtype}, which columns {wrong} cannot re-scale or shift: check what "
            f"comes after the embedding, or give columns={sorted((*OF_WEIGHTS, *OF_SUMMED))}."
        )


def _modes(model: nn.Module, x: Tensor, read: Read) -> dict[str, str]:
    """Return the modes in which a model is tried, with the statistics that it takes in each."""
    if batch_norms(model):
        return MODES
    evaluation, training = (
        Tester(ModuleCopy(model, x, bn_stats=bn_stats, read=read), {}).base.y
        for bn_stats in ("running", "batch")
    )
    # training is a mode of its own if it computes something else, as with dropout
    same = torch.equal(evaluation, training)
    return {"evaluation": "running"} if same else {"train": "batch", "evaluation": "running"}
