"""The invariances of Table 1 that a module of any make has.

Every transformation is tried at every weight, at the pre-activations that a weight makes (the
paper's summed inputs), and at the input, for factors delta over 60 decades. What the module
computes is compared in two places: at its outputs, and inside, at the inputs of each
nonlinearity f: a ReLU below 0 must not pass for an invariance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from lnlab.analysis.activations import NonlinearityOrNormCall, count_dead_units
from lnlab.analysis.inputs import Call, copy_with_one_input
from lnlab.analysis.magnitudes import EXACT, relative_max_change, root_mean_square
from lnlab.analysis.module_copy import (
    InputAndWeightOverrides,
    ModuleCopy,
    Observation,
    SelectOutput,
    Weight,
    as_list_even_if_single,
    check_nonempty_tensor,
    find_norms_with_running_statistics,
    find_weights,
    first_tensor,
    uncompiled_module,
)
from lnlab.analysis.normalized_layer import check_finite
from lnlab.analysis.random import normal, uniform
from lnlab.analysis.result import DataFrame, Figure, TextResult, make_frame
from lnlab.nn import Conv2d
from lnlab.nn.table1 import (
    TRANSFORMATIONS,
    LayerInputs,
    OneBasedExtendedTable1Column,
    Transformation,
    UnicodeFormula,
)
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread_if_small

# The result: invariances, and how they are read.


class Grade(Enum):
    """The degree to which an invariance holds, best first."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"


InputOrWeightName = str
DeltaBelowWhichBroken = float


ModeByStatisticsSource = str
""""train", "running" or "recomputed", or "evaluation" without batch normalization."""


@dataclass(frozen=True)
class Invariance:
    """One transformation at one place of the module, in one mode."""

    where: InputOrWeightName  # "x" or the name of a weight
    # the transformation's number, 1 to 10, or 11, independence of other examples
    column: OneBasedExtendedTable1Column
    transformation_name: str  # in words
    formula: UnicodeFormula  # the same in the paper's letters
    # "train", "running" or "recomputed", by the statistics of batch normalization, or
    # "evaluation" for a module without any
    mode: ModeByStatisticsSource
    # of the outputs; NOT_JUDGED if they are constant only because what moved inside went into
    # units that do not respond
    grade: Grade
    # the grade of what goes into f and comes out of normalizers; NOT_JUDGED if there is none of
    # these, none that can be seen, or none that a weight can change
    activations_grade: Grade
    defect: float  # max|y' - y| / max|y| at delta = 3.7, or for a shift as large as its target
    # the delta below which the invariance is gone: with eps inside the root, where
    # delta² var = eps
    knee_delta: DeltaBelowWhichBroken
    # what must be 0 for it to be exact, if that suffices: "eps", "bias inside" (the bias of the
    # layers that make pre-activations), or both
    exact_without: str
    curve: tuple[tuple[float, float], ...]  # (delta, defect) of all that was tried

    def __str__(self) -> str:
        return _format_grade_and_defects([self])

    @property
    def largest_defect(self) -> float:
        """The largest defect at any delta that was tried."""
        return max((defect for _, defect in self.curve), key=_nan_as_infinity)


def _first_place_and_others_count(alike: Sequence[Invariance]) -> str:
    others = len(alike) - 1
    more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
    return alike[0].where + more


def _format_grade_and_defects(alike: Sequence[Invariance]) -> str:
    """Return the grade of one or several invariances with the range of their defects."""
    first = alike[0]
    if first.grade is Grade.NOT_JUDGED:
        return "not judged: dead units only"
    exact = first.grade is Grade.EXACT
    sizes = sorted(
        (v.largest_defect if exact else v.defect for v in alike), key=_nan_as_infinity
    )
    low, high = _format_defect(sizes[0]), _format_defect(sizes[-1])
    text = low if low == high else f"{low} to {high}"
    if len(alike) == 1 and math.isfinite(first.knee_delta):
        text += f", knee δ = {_format_defect(first.knee_delta)}"
    without = f"; exact without {first.exact_without}" if first.exact_without else ""
    return f"{first.grade.value} ({text}{without})"


def _format_defect(defect: float) -> str:
    """Return two digits if it is visible, else its magnitude."""
    if not math.isfinite(defect):
        return "∞" if math.isinf(defect) else "not a number"
    return f"{defect:.2g}" if 0.01 <= defect < 1000 else f"{defect:.0e}" if defect else "0"


def _nan_as_infinity(defect: float) -> float:
    """Return a defect for comparison: ``max`` alone would lose NaN, worse than any number."""
    return math.inf if math.isnan(defect) else defect


LEGEND = (
    "number: the largest change of an output, over the largest output, max|y' - y| / max|y|.",
    "It is taken at δ = 3.7; of an exact invariance it is the largest of all δ tried.",
    "One weight is changed at a time: two weights may have to change together (W_x and W_h).",
    "inside: the grade of what goes into each f and comes out of each norm.",
)
KNEE = "knee δ: below it the change is larger than 0.29, as eps outweighs what it is added to."
NONE_INSIDE = (
    "inside, not judged: there is no f and no norm, none that can be seen, or none behind the "
    "weight."
)


@dataclass(frozen=True)
class InvarianceReport(TextResult):
    """The invariances of a module, each with its grade and defect; prints as a table."""

    class_name: str  # of the module
    input_shape: tuple[int, ...]
    output_dtype: str  # their precision, "float64" and so on
    invariances: tuple[Invariance, ...]  # one for each place, transformation and mode
    # for each f with units that are dead in all examples: how many, of how many
    dead_and_all_units: dict[str, tuple[int, int]]
    reasons_not_tried: dict[str, str]  # why a mode or change could not be tried
    unwrapped_columns = (1,)

    def to_frame(self) -> DataFrame:
        """Return one row per invariance: where, column, mode, grade, activations_grade, ..."""
        grades = (
            {"grade": v.grade.value, "activations_grade": v.activations_grade.value}
            for v in self.invariances
        )
        rows = [asdict(v) | g for v, g in zip(self.invariances, grades, strict=True)]
        return make_frame(rows).drop(columns="curve", errors="ignore")

    def plot(self) -> Figure:
        """Return a chart of the defects against delta in the first mode; equal curves once."""
        from lnlab.figures.curves import line_chart

        mode = self.invariances[0].mode
        groups = [alike for alike in self._groups_of_equal_results() if alike[0].mode == mode]
        curves = [alike for alike in groups if len(alike[0].curve) > 1]
        lines = {
            f"{_first_place_and_others_count(alike)}: {alike[0].formula}": tuple(
                np.array(alike[0].curve).T
            )
            for alike in curves or groups
        }
        return line_chart(
            {f"{mode}, {self.output_dtype}": lines}, x="δ", y="defect", log_x=True
        )

    def _groups_of_equal_results(self) -> Iterable[list[Invariance]]:
        """Return groups of invariances that differ in name and size alone."""
        groups: dict[tuple, list[Invariance]] = {}
        for v in self.invariances:
            grades = v.grade, v.activations_grade
            key = v.where == "x", v.column, v.mode, *grades, v.exact_without
            groups.setdefault(key, []).append(v)
        return groups.values()

    def _header_and_rows(self) -> list[Sequence[str]]:
        rows: list[Sequence[str]] = [
            ["where", "transformation", "mode", self.output_dtype, "inside"]
        ]
        for alike in self._groups_of_equal_results():
            first = alike[0]
            formula = f"{first.column:2d}  {first.formula}"
            where, words = (
                _first_place_and_others_count(alike),
                _format_grade_and_defects(alike),
            )
            rows.append([where, formula, first.mode, words, first.activations_grade.value])
        return rows

    def _html_above_figure(self) -> str:
        # grades first: a narrow screen shows them
        header, *rows = [(row[3], *row[:3], row[4]) for row in self._header_and_rows()]
        table = make_frame(rows, columns=header).to_html(index=False, border=0)
        above, below = self._html_lines_above_table(), self._html_lines_below_table()
        return f'{above}<div class="wide">{table}</div>{below}'

    def _lines_below_table(self) -> Iterator[str]:
        yield from LEGEND
        _, *rows = self._header_and_rows()
        if any("knee" in row[3] for row in rows):
            yield KNEE
        if any(row[4] == Grade.NOT_JUDGED.value for row in rows):
            yield NONE_INSIDE

    def _lines_above_table(self) -> Iterator[str]:
        shape, number = ", ".join(map(str, self.input_shape)), len(self.invariances)
        counts = Counter(v.grade for v in self.invariances)
        be = "is" if counts[Grade.EXACT] == 1 else "are"
        rest = "".join(f", {counts[g]} {g.value}" for g in list(Grade)[1:] if counts[g])
        exact = f"{counts[Grade.EXACT]} of {number} invariances {be} exact"
        yield f"{self.class_name} of x ({shape}): {exact}{rest} in {self.output_dtype}."
        for name, (dead, units) in self.dead_and_all_units.items():
            yield f"{dead} of {units} units are shut (constant) for all examples, at {name}"
        for what, why in self.reasons_not_tried.items():
            yield f"not tried: {what}: {why}"
        yield ""


# The transformations of Table 1, made to fit a module of any make: each is tried at one place,
# at one of its weights, at the pre-activations that a weight makes, or at its input.


OF_WEIGHTS, OF_INPUTS, OF_SUMMED = (1, 2, 3, 10), (4, 5, 6, 9), (7, 8)

OTHERS = Transformation(
    11, "the other examples replaced", "x₂…x_B → x′", lambda given, _: given, False
)

COLUMNS = {T.column: T for T in (*TRANSFORMATIONS, OTHERS)}


@dataclass(frozen=True)
class Change:
    """One transformation at one place."""

    where: InputOrWeightName  # "x", or the name of a weight
    transformation: Transformation  # the column
    changed_weight: Weight | None = None  # None at the input
    feature_axis: int = -1  # of the inputs in x, or of the units in pre-activations

    @property
    def compares_first_example_only(self) -> bool:
        """True if only the first example of the output is compared."""
        return self.transformation is OTHERS

    @property
    def default_delta(self) -> float:
        """The delta at which its defect is quoted."""
        return USUAL if self.transformation.is_scaling else 1.0

    def overrides(self, module: ModuleCopy, delta: float) -> InputAndWeightOverrides:
        """Return what is put in the place of a module's own.

        ``delta`` is the scale, or the size of a shift, 1 being that of what is shifted.
        """
        T, x, weight = self.transformation, module.x, self.changed_weight
        if T is OTHERS:
            # in another order alone they would have the same mean and variance, and BatchNorm
            # would not notice
            others = x[1:].flip(0) + _random_shift(x, 1.0, x[1:].numel()).view_as(x[1:])
            return InputAndWeightOverrides(torch.cat([x[:1], others]))
        nothing = x.new_zeros(())
        if weight is None:
            x = x if x.dim() < 2 else x.movedim(self.feature_axis, 1)
            shift = _random_shift(x, delta, max(x.shape[:2]))
            x = T(LayerInputs(nothing, x, nothing), delta, shift).x
            return InputAndWeightOverrides(
                x if x.dim() < 2 else x.movedim(1, self.feature_axis).contiguous()
            )
        if T.column in OF_SUMMED:
            return InputAndWeightOverrides(
                x,
                pre_activation_changes={
                    weight.owner: partial(self._add_example_or_unit_shift, delta)
                },
            )
        W = module.parameters[weight.name].data.movedim(weight.unit_axis, 0)
        if T.column == 3:
            # A quarter of the rows, drawn: the first alone may belong to a dead unit.
            rows = uniform(0, 6, len(W)).argsort()[: max(1, len(W) // 4)].to(W.device)
            W = W.index_copy(0, rows, delta * W[rows])
        else:
            shift = _random_shift(W, delta, max(len(W), W[0].numel()))
            W = T(LayerInputs(W, nothing, nothing), delta, shift).W
        return InputAndWeightOverrides(
            x, {weight.name: W.movedim(0, weight.unit_axis).contiguous()}
        )

    def _add_example_or_unit_shift(self, relative_size: float, a: Tensor) -> Tensor:
        # column 7: one number an example, the same for all its units; column 8: one a unit
        axis = 0 if self.transformation.column == 7 else self.feature_axis % a.dim()
        c = _random_shift(a, relative_size, a.shape[axis])
        return a + c.reshape(tuple(-1 if i == axis else 1 for i in range(a.dim())))


def _random_shift(like: Tensor, relative_size: float, length: int) -> Tensor:
    """Return a random vector of numbers ``relative_size`` times those of ``like``."""
    # of the size of what it is added to: a smaller one is lost in rounding, a larger one drowns
    # what was there
    rms = float(root_mean_square(like)) or 1.0
    return (relative_size * rms * normal(0, 3, length)).to(like.dtype).to(like.device)


def list_changes(
    weights: Collection[Weight], module: ModuleCopy, called_modules: Collection[str]
) -> Iterator[Change]:
    """Yield all changes that can be tried on ``module``, those of weights first.

    The pre-activations of modules that are not among ``called_modules`` (those of an
    attention's projection, say) cannot be reached.
    """
    # the inputs of an example: channels of images and where the first weight is a kernel, else
    # last
    input_axis = None
    for weight in weights:
        axis = 1 if is_convolution(module.module.get_submodule(weight.owner)) else -1
        input_axis = input_axis or axis
        reached = weight.makes_pre_activations and weight.owner in called_modules
        for column in sorted(OF_WEIGHTS + (OF_SUMMED if reached else ())):
            yield Change(weight.name, COLUMNS[column], weight, axis)
    input_axis = input_axis or (1 if module.x.dim() == 4 else -1)
    for column in OF_INPUTS:
        if column in (4, 6) or module.x.dim() > 1:
            yield Change("x", COLUMNS[column], feature_axis=input_axis)
    # recomputed statistics are those of the other examples too: of them there is no column 11
    if len(module.x) > 1 and module.bn_stats != "recomputed":
        yield Change("x", OTHERS)


def is_convolution(owner: nn.Module) -> bool:
    """Return True if the units of a layer are along axis 1."""
    return isinstance(owner, _ConvNd | Conv2d)


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

VISIBLE = 0.05
"""A defect above this at delta >= 1 is a break, whatever its law."""

ROUNDINGS = 8
"""A defect below this many times that of inputs and weights off by one rounding is none."""


class DefectsAtDelta(NamedTuple):
    """The defects that one delta made."""

    factor_or_shift_size: float  # delta
    output_defect: float  # the defect of the outputs
    largest_activation_defect: float  # of what the module computes inside
    # whether the last activation that changed goes into an f which is flat
    is_hidden_by_flat_unit: bool


class InvarianceTester:
    """Tries changes on one module copy and grades their defects."""

    def __init__(self, module: ModuleCopy, weights: dict[str, Weight]) -> None:
        self.module, self.weights = module, weights
        self.base = module.run()  # without any change
        y = self.base.y
        if not y.is_floating_point() or not y.dim():
            raise ValueError(
                f"the output to judge is {y.dtype} of shape {tuple(y.shape)}: give "
                "select_output=, which returns a floating point tensor with the examples along "
                "its first axis."
            )
        if not bool(y.isfinite().all()):
            raise ValueError("the outputs hold NaN or an infinity before any change.")
        if not torch.equal(module.run().y, y):
            raise ValueError(
                "two evaluations from one random state differ: the module draws random "
                "numbers from elsewhere or keeps something from call to call, and no defect "
                "could be distinguished from that."
            )
        self.precision = (
            module.effective_output_dtype
            if module.effective_output_dtype in EXACT
            else torch.bfloat16
        )
        self.exact = EXACT[self.precision]  # a defect below this is rounding
        # a deep module makes more of a rounding than a layer does; to half the digits at most
        off = module.run(self._overrides_off_by_one_rounding())
        rounding = max(
            relative_max_change(off.y, y),
            self._largest_activation_defect(off),
            key=_nan_as_infinity,
        )
        limit = min(self.exact**0.5, VISIBLE)
        self.exact = max(self.exact, min(ROUNDINGS * _nan_as_infinity(rounding), limit))

    def _overrides_off_by_one_rounding(self) -> InputAndWeightOverrides:
        """Return every input and weight off by one rounding."""

        def perturb_by_one_rounding(values: Tensor, stream: int) -> Tensor:
            if not values.is_floating_point():
                return values
            # eps is the unit in the last place of 1; a rounding is off by half of one at most
            noise = torch.sign(normal(1, stream, values.numel())).view_as(values)
            return values * (1 + torch.finfo(values.dtype).eps * noise).to(values)

        weights = {
            name: perturb_by_one_rounding(self.module.parameters[name].data, 2 + i)
            for i, name in enumerate(self.weights)
        }
        return InputAndWeightOverrides(perturb_by_one_rounding(self.module.x, 1), weights)

    def depends_on(self, tensor_name: str) -> bool:
        """Return True if an output or a pre-activation depends on a weight, or on "x".

        An input of integers is not tried.
        """
        x = self.module.x
        values = x if tensor_name == "x" else self.module.parameters[tensor_name].data
        if not values.is_floating_point():
            return True
        changed = self._run_with_random_values(tensor_name, values)
        return (
            not torch.equal(changed.y, self.base.y)
            or self._largest_activation_defect(changed) != 0
        )

    def check_output_depends_on_input(self) -> None:
        """Raise ValueError if other inputs change the outputs by rounding, and only by that.

        A change that multiplies the rounding would pass for one that breaks an invariance. If
        the outputs do not change at all, there is no rounding to multiply.
        """
        x, y = self.module.x, self.base.y
        if not x.is_floating_point():
            return
        change = relative_max_change(self._run_with_random_values("x", x).y, y)
        if 0 < change <= EXACT[self.precision]:
            raise ValueError(
                f"other inputs change the outputs by {change:.0e} of the largest, which is "
                "rounding, as where a normalizer takes a statistic over one value"
            )

    def _run_with_random_values(self, tensor_name: str, values: Tensor) -> Observation:
        """Evaluate with another random weight, or with random numbers added to ``x``."""
        x = self.module.x
        at_x = tensor_name == "x"
        other = normal(2, int(at_x), values.numel()).view_as(values).to(values)
        return self.module.run(
            InputAndWeightOverrides(
                x + other if at_x else x, {} if at_x else {tensor_name: other}
            )
        )

    def test(self, change: Change, mode_label: str) -> Invariance:
        """Grade one change; the result says that it was tried in ``mode_label``."""
        scales = change.transformation.is_scaling
        usual = self._defects_at(change, change.default_delta)
        deltas: Iterable[float] = (SCALES if scales else SHIFTS)[self.precision]
        if change.compares_first_example_only:
            deltas = ()
        elif not usual.output_defect < VISIBLE:  # not `>=`: NaN is a break, too
            deltas = AFTER_A_BREAK if scales else ()
        points = [usual, *(self._defects_at(change, delta) for delta in deltas)]
        outputs = self._grade({p.factor_or_shift_size: p.output_defect for p in points}, scales)
        inside = self._grade(
            {p.factor_or_shift_size: p.largest_activation_defect for p in points}, scales
        )
        changed = [
            p
            for p in points
            if p.largest_activation_defect
            > self._rounding_limit(p.factor_or_shift_size, not scales)
        ]
        # Nothing came out, but something moved inside, and the f behind the last of it was
        # flat: what dead units hide says nothing about the normalizer.
        hidden = (
            outputs is Grade.EXACT
            and changed
            and all(p.is_hidden_by_flat_unit for p in changed)
        )
        # of a last layer: the output changes, and nothing before it
        reaches_activations = (
            change.where == "x"
            or outputs is Grade.EXACT
            or any(p.largest_activation_defect != 0 for p in points)
        )
        T = change.transformation
        return Invariance(
            change.where,
            T.column,
            T.name,
            T.formula,
            mode_label,
            grade=Grade.NOT_JUDGED if hidden else outputs,
            activations_grade=inside
            if self.base.nonlinearity_and_norm_calls and reaches_activations
            else Grade.NOT_JUDGED,
            defect=usual.output_defect,
            knee_delta=self._knee_at_half_power(change, points)
            if outputs is Grade.APPROXIMATE
            else math.nan,
            exact_without="",
            curve=tuple(sorted((p.factor_or_shift_size, p.output_defect) for p in points)),
        )

    def _rounding_limit(self, delta: float, is_shift: bool) -> float:
        # a shift of size 100 rounds what it is added to to two digits less
        return self.exact * (max(1, delta) if is_shift else 1)

    def _grade(self, defects: dict[float, float], scales: bool) -> Grade:
        if all(d <= self._rounding_limit(at, not scales) for at, d in defects.items()):
            return Grade.EXACT
        # eps, below which an invariance to scales ends, has no part in one to shifts
        is_small = all(d < VISIBLE for delta, d in defects.items() if delta >= 1)
        return Grade.APPROXIMATE if scales and is_small else Grade.BROKEN

    def _defects_at(self, change: Change, delta: float) -> DefectsAtDelta:
        changed, base = self.module.run(change.overrides(self.module, delta)), self.base
        if change.compares_first_example_only:
            changed, base = _first_example_only(changed), _first_example_only(base)
        outputs = relative_max_change(changed.y, base.y)
        inside = self._largest_activation_defect(changed, base)
        hidden = not inside <= self.exact and self._is_hidden_by_flat_unit(
            changed.nonlinearity_and_norm_calls, base.nonlinearity_and_norm_calls
        )
        return DefectsAtDelta(delta, outputs, inside, hidden)

    def output_defect(self, change: Change, delta: float) -> float:
        """Return the defect of the outputs at one delta."""
        return self._defects_at(change, delta).output_defect

    def _largest_activation_defect(
        self, now: Observation, before: Observation | None = None
    ) -> float:
        """Return the largest defect of an activation; infinite if there are others now."""
        before = before or self.base
        if len(now.nonlinearity_and_norm_calls) != len(before.nonlinearity_and_norm_calls):
            return math.inf
        pairs = (
            (new.f_input_or_norm_output, old.f_input_or_norm_output)
            for new, old in zip(
                now.nonlinearity_and_norm_calls, before.nonlinearity_and_norm_calls, strict=True
            )
        )
        defects = (
            relative_max_change(new, old) if new.shape == old.shape else math.inf
            for new, old in pairs
        )
        return max(defects, key=_nan_as_infinity, default=0.0)

    def _is_hidden_by_flat_unit(
        self, now: list[NonlinearityOrNormCall], before: list[NonlinearityOrNormCall]
    ) -> bool:
        """Return True if the last one that changed goes into an f which is flat."""
        for new, old in reversed(list(zip(now, before, strict=False))):
            values, old_values = new.f_input_or_norm_output, old.f_input_or_norm_output
            if values.shape != old_values.shape:
                continue
            if not relative_max_change(values, old_values) <= self.exact:
                if new.h is None or old.h is None:
                    return False
                return relative_max_change(new.h, old.h) <= self.exact
        return False

    def _knee_at_half_power(self, change: Change, points: list[DefectsAtDelta]) -> float:
        """Return the delta where the defect crosses 1 - 1/sqrt(2); NaN if it does not."""
        # With eps inside the root a scale delta leaves y / sqrt(1 + eps / (delta² var)): at
        # delta² var = eps the output has come down to 1/sqrt(2) of itself.
        far = 1 - 0.5**0.5
        gone = [
            p.factor_or_shift_size
            for p in points
            if p.factor_or_shift_size < 1 and not p.output_defect < far
        ]
        if not change.transformation.is_scaling or not gone:
            return math.nan
        low = max(gone)
        high = min(p.factor_or_shift_size for p in points if p.factor_or_shift_size > low)
        # halving the interval in logarithms: to a 4,096th of it
        for _ in range(12):
            middle = (low * high) ** 0.5
            near = self.output_defect(change, middle) < far
            low, high = (low, middle) if near else (middle, high)
        return (low * high) ** 0.5


def _first_example_only(observation: Observation) -> Observation:
    calls = [
        call._replace(f_input_or_norm_output=call.f_input_or_norm_output[:1], h=None)
        for call in observation.nonlinearity_and_norm_calls
    ]
    return observation._replace(y=observation.y[:1], nonlinearity_and_norm_calls=calls)


# All modes.


MODES = {"train": "batch", "running": "running", "recomputed": "recomputed"}
"""The modes of a module with batch normalization, and the statistics that it takes in each."""


@in_one_thread_if_small
def check_invariances(
    model: nn.Module,
    x: Any,
    *,
    weights: Collection[str] | str | None = None,
    columns: Collection[OneBasedExtendedTable1Column]
    | OneBasedExtendedTable1Column
    | None = None,
    select_output: SelectOutput = first_tensor,
    dtype: torch.dtype = torch.float64,
    modes: Collection[str] | str | None = None,
    progress: bool = False,
) -> InvarianceReport:
    """Test which transformations of weights and inputs leave the output of ``model`` unchanged.

    The transformations are those of Table 1 of Ba et al. (2016), columns 1 to 6, and five more,
    7 to 11. Each one is tried at every weight (columns 1 to 3, 7, 8, 10) and at the input (4,
    5, 6, 9, 11), for sizes delta over 60 decades. Columns 7 and 8 need a weight whose module is
    called, such as nn.Linear, and not one that another module reads, as in attention. A model
    with batch normalization is tested with the statistics of the batch ("train"), with its
    "running" statistics, and with statistics that are "recomputed" after the transformation.
    The model and the random state do not change; hooks of the model are not called.

    The result is a numerical test on this x, no proof. One weight is transformed at a time. An
    invariance is "exact" if the output changes by rounding only, "approximate" if it changes
    by a little when something is scaled, as with an eps, which matters below some delta (the
    knee), and "broken" otherwise. So with an eps, "approximate" is the most that an invariance
    to scales can be. "Inside" has the grade of the pre-activations and of the outputs of
    normalizers, or "not judged" if the model has no such modules. A model without batch
    normalization has one mode, "evaluation", unless it computes something else in training, as
    with dropout.

    Args:
        model: any module.
        x: its input, examples along the first axis: a tensor; or, for a model of several
            inputs, a tuple of positional arguments, a mapping of keyword arguments, or a
            ``lnlab.auditing.Call``. Of several tensors, the first of floating point numbers is
            the x of the report, and the others keep their values.
        weights: the names of the parameters to transform; None takes every matrix and kernel
            that does not belong to a normalizer or an embedding. Units are along the first
            axis, as in nn.Linear: store the matrix of your own layer so, too.
        columns: the numbers of the transformations; None takes all. Of the weights: 1, weight
            matrix re-scaling, W → δW; 2, weight matrix re-centering, W → W + 1γᵀ; 3, weight
            vector re-scaling, w₁ → δw₁; 10, shift of a unit's weights, wᵢ → wᵢ + cᵢ1. Of the
            inputs: 4, dataset re-scaling, X → δX; 5, dataset re-centering, X → X + 1γᵀ; 6,
            single training case re-scaling, x₁ → δx₁; 9, shift of an example's inputs,
            xₙ → xₙ + cₙ1; 11, replacement of the other examples, x₂…x_B → x′. Of the
            pre-activations: 7, shift of an example's pre-activations, aₙ → aₙ + cₙ1; 8, shift
            of a unit's pre-activation, aᵢ → aᵢ + cᵢ.
        select_output: returns, from the output of the model, the tensor to compare; by default
            the first tensor.
        dtype: the precision. In torch.float32, rounding hides small changes.
        modes: which of "train", "running", "recomputed" and "evaluation" to test; modes that
            the model does not have are left out. None tests all that it has.
        progress: whether to show a progress bar for each mode.

    Raises:
        ValueError: if x holds values that are not finite, or integers, which no transformation
            of the input fits; if the model does not take x, cannot be copied, or returns
            different outputs for the same input, or outputs that depend on x by rounding only;
            if a weight or column does not exist.

    Examples:
        >>> layer = nn.Sequential(nn.Linear(8, 16, bias=False), nn.LayerNorm(16))
        >>> invariances = lnlab.check_invariances(layer, x)
        >>> print(invariances)
        >>> invariances.save("invariances.csv")
    """
    model = uncompiled_module(model)
    if not isinstance(x, Tensor):
        model, x = copy_with_one_input(model, Call.from_inputs(x))
    columns = [*COLUMNS] if columns is None else as_list_even_if_single(columns, int)
    _check_arguments(x, columns, dtype)
    chosen = find_weights(
        model, None if weights is None else as_list_even_if_single(weights, str)
    )
    has = _bn_stats_per_tried_mode(model, x, select_output)
    wanted = [*has] if modes is None else as_list_even_if_single(modes, str)
    if not set(wanted) & set(has) or set(wanted) - {*MODES, "evaluation"}:
        raise ValueError(f"modes is {wanted}: the model has {[*has]}.")
    found: list[Invariance] = []
    dead: dict[str, tuple[int, int]] = {}
    not_tried: dict[str, str] = {}
    precision = dtype
    for mode in [mode for mode in has if mode in wanted]:
        try:
            module = ModuleCopy(
                model, x, dtype=dtype, bn_stats=has[mode], select_output=select_output
            )
            tester = InvarianceTester(module, chosen)
            tester.check_output_depends_on_input()
        except ValueError as error:
            not_tried[mode] = str(error)
            continue
        dead = dead or count_dead_units(
            module.run(find_where_flat=True).nonlinearity_and_norm_calls
        )
        precision = tester.base.y.dtype
        plainer = _testers_without_eps_or_bias(tester) if mode != "running" else {}
        changes = _list_changes_and_note_untried(tester, columns, not_tried)
        for change in bar(changes, len(changes), mode, shown=progress):
            try:
                invariance = tester.test(change, mode)
            except ValueError as error:
                what = f"{mode}, {change.where} {change.transformation.formula}"
                not_tried[what] = str(error)
                continue
            imperfect = invariance.grade in (Grade.APPROXIMATE, Grade.BROKEN)
            if imperfect and change.transformation.is_scaling:
                # where the module itself is exact at these, nothing is to blame for the others
                blamed = {} if _is_exact_at_three_deltas(tester, change) else plainer
                without = next(
                    (w for w, t in blamed.items() if _is_exact_at_three_deltas(t, change)), ""
                )
                invariance = replace(invariance, exact_without=without)
            found.append(invariance)
    if not found:
        raise ValueError(_describe_why_nothing_was_tried(model, dtype, not_tried))
    name = str(precision).removeprefix("torch.")
    shape = tuple(x.shape)
    return InvarianceReport(type(model).__name__, shape, name, tuple(found), dead, not_tried)


def _describe_why_nothing_was_tried(
    model: nn.Module, dtype: torch.dtype, not_tried: dict[str, str]
) -> str:
    """Return what an error says if no transformation could be tested."""
    reasons = [f"{what}: {reason}" for what, reason in not_tried.items()]
    why = "; ".join(reasons) or "it has no matrix or kernel, and columns are of weights"
    text = f"nothing of {type(model).__name__} could be tried in {dtype}: {why.rstrip('.')}."
    if dtype == torch.float64 and "dtype" in why:
        text += " If the model makes tensors of float32 itself, give dtype=torch.float32."
    return text


def _list_changes_and_note_untried(
    tester: InvarianceTester, columns: Collection[int], not_tried: dict[str, str]
) -> list[Change]:
    """Return the changes of some columns whose effect could be seen; note the others."""
    at_input = {*OF_INPUTS, OTHERS.column} & {*columns}
    used = {name for name in (*tester.weights, "x") if tester.depends_on(name)}
    for name in (*tester.weights, *(["x"] if at_input else [])):
        if name not in used:
            not_tried[name] = "nothing that can be seen depends on it"
    weights = [w for name, w in tester.weights.items() if name in used]
    for w in weights if {*OF_SUMMED} & {*columns} else ():
        if w.makes_pre_activations and w.owner not in tester.base.called_modules:
            not_tried[f"shifts of the pre-activations of {w.name}"] = "its module is not called"
    module, changes = tester.module, []
    for change in list_changes(weights, module, tester.base.called_modules):
        T = change.transformation
        if T.column not in columns or (change.where == "x" and "x" not in used):
            continue
        new = change.overrides(module, change.default_delta)
        before = module.x, *(module.parameters[name].data for name in new.weights)
        # that a scale of 0 does not move anything would mean nothing
        if not new.pre_activation_changes and all(
            map(torch.equal, before, (new.x, *new.weights.values()))
        ):
            reason = f"it changes nothing: {change.where} is 0"
            not_tried[f"{change.where} {T.formula}"] = reason
        else:
            changes.append(change)
    return changes


def _testers_without_eps_or_bias(tester: InvarianceTester) -> dict[str, InvarianceTester]:
    """Return testers of the module without what commonly prevents an invariance."""
    testers: dict[str, InvarianceTester] = {}
    for without in ("eps", "bias inside", "eps and bias inside"):
        module = tester.module.copy_without(eps="eps" in without, bias="bias" in without)
        if module is not None:
            with suppress(ValueError):  # 0/0 if nothing varies
                testers[without] = InvarianceTester(module, tester.weights)
    return testers


def _is_exact_at_three_deltas(tester: InvarianceTester, change: Change) -> bool:
    # at still smaller ones a bias that BatchNorm takes away again has cost all digits; at a
    # large one a small effect, which passes for rounding to float32 at the others, is seen
    return all(
        tester.output_defect(change, delta) <= tester.exact for delta in (USUAL, 1e-3, 1e3)
    )


def _check_arguments(x: Tensor, columns: Collection[int], dtype: torch.dtype) -> None:
    check_nonempty_tensor(x)
    if unknown := set(columns) - set(COLUMNS):
        names = ", ".join(f"{T.column} ({T.name})" for T in COLUMNS.values())
        raise ValueError(f"there are no columns {sorted(unknown)}: choose from {names}.")
    if dtype not in EXACT:
        raise ValueError(f"no tolerance is known for {dtype}: choose from {[*EXACT]}.")
    if x.is_floating_point():
        check_finite("x", x)
    elif wrong := sorted(set(columns) & {*OF_INPUTS, OTHERS.column}):
        raise ValueError(
            f"x holds {x.dtype}, which columns {wrong} cannot re-scale or shift: check what "
            f"comes after the embedding, or give columns={sorted((*OF_WEIGHTS, *OF_SUMMED))}."
        )


def _bn_stats_per_tried_mode(
    model: nn.Module, x: Tensor, select_output: SelectOutput
) -> dict[str, str]:
    """Return the modes in which a model is tried, with the statistics that it takes in each."""
    if find_norms_with_running_statistics(model):
        return MODES
    evaluation, training = (
        InvarianceTester(
            ModuleCopy(model, x, bn_stats=bn_stats, select_output=select_output), {}
        ).base.y
        for bn_stats in ("running", "batch")
    )
    # training is a mode of its own if it computes something else, as with dropout
    same = torch.equal(evaluation, training)
    return {"evaluation": "running"} if same else {"train": "batch", "evaluation": "running"}
