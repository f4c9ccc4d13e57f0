"""Checks of learning: invariances and rates of weights, activations, gradients, curvature."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from lnlab.analysis.hessian import extreme_eigenvalues
from lnlab.analysis.internal_covariate_shift import parameter_names_by_layer_weight
from lnlab.analysis.invariances import (
    USUAL,
    Change,
    OneBasedExtendedTable1Column,
    is_convolution,
    list_changes,
)
from lnlab.analysis.magnitudes import (
    EXACT,
    max_abs,
    relative_max_change,
    root_mean_square,
    vector_norm,
)
from lnlab.analysis.module_copy import (
    InputAndWeightOverrides,
    ModuleCopy,
    Weight,
    find_norms_with_running_statistics,
    find_weights,
)
from lnlab.analysis.norm_gradients import (
    as_affine_norm,
    gradient_parts,
    record_norm_calls,
)
from lnlab.analysis.norm_identity import NormPropertyReport
from lnlab.analysis.recorder import as_examples_by_units, mean_cosine_of_rows, stable_rank
from lnlab.analysis.rotation import ROWS, WHOLE
from lnlab.auditing.finding import (
    CannotCheck,
    Findings,
    Severity,
    count_with_noun,
    make_finding,
    three_significant_digits,
)
from lnlab.auditing.norms import eps_of, find_norms
from lnlab.auditing.signals import find_norms_with_other_statistics, has_doubtful_derivative
from lnlab.auditing.subject import (
    DETACHED,
    HALF,
    RANDOM,
    AuditSubject,
    ModuleCall,
    all_zero_non_bias_names,
    make_different_input,
    random_scalar_projection,
)
from lnlab.nn import LayerNorm, RMSNorm, outside_root
from lnlab.nn.table1 import TRANSFORMATIONS

FAULT, RISK, FACT = Severity

STAND_IN = (
    "No loss was given: this is of half the squared distance between the output and a random "
    "target."
)

# Changes of each weight that do not change what comes out.
#
# If nothing depends on the length of w, the derivative along w is 0; likewise for shifts. One
# backward pass tells which changes of all weights are possible; these are made all at once.

FORMULAS = {T.column: T.formula for T in TRANSFORMATIONS}
UNSEEN = {
    1: "weight-scale-unseen",
    2: "weight-shift-unseen",
    7: "example-shift-unseen",
    8: "unit-shift-unseen",
}
"""The rules of the columns of Table 1 and its extension that a module may not see."""


class InvariancesByWeight(NamedTuple):
    """The transformations of each weight that leave the outputs as they are.

    Attributes:
        columns_by_weight: of each weight by its name.
        tried_weights_and_columns: those that could be tried. The pre-activations of a
            weight whose module is not called, as in an attention, cannot be shifted.
        measured_with_eps_0: whether every eps was 0.
    """

    columns_by_weight: dict[str, set[OneBasedExtendedTable1Column]]
    tried_weights_and_columns: set[tuple[str, OneBasedExtendedTable1Column]]
    measured_with_eps_0: bool


RIGHT_ANGLE = {torch.float64: 1e-8, torch.float32: 1e-5}
"""A cosine between gradient and change below this may be rounding, by precision."""


def check_weight_invariances(subject: AuditSubject) -> Findings:
    """Find the invariances of the weights to scales, of rows too, and to shifts."""
    holds, tried, without_eps = find_weight_invariances(subject)
    exact = "exact without eps" if without_eps else "exact"
    rows = []
    for name, columns in holds.items():
        row = {"weight": name}
        for c in (1, 2, 3, 7, 8):
            missing = "broken" if (name, c) in tried else "not tried"
            row[FORMULAS[c]] = exact if c in columns else missing
        rows.append(row)
    subject.keep_table(
        rows, "By derivatives; the changes that they allow were made, all at once."
    )
    for column, rule in UNSEEN.items():
        names = [name for name, columns in holds.items() if column in columns]
        yield make_finding(
            rule,
            names,
            up_to=", up to eps" if without_eps and column == 1 else "",
            some=len(names),
            weights=count_with_noun(sum((name, column) in tried for name in holds), "weight"),
            formula=FORMULAS[column],
        )


def find_weight_invariances(subject: AuditSubject) -> InvariancesByWeight:
    """Return the transformations of each weight that change nothing, found once.

    Raises:
        CannotCheck: where there is no weight to try.
    """
    if "invariances" in subject.cache:
        return subject.cache["invariances"]
    subject.require_float64()
    if subject.float64_copy_output_precision is torch.bfloat16:
        raise CannotCheck(HALF)
    weights = find_weights(subject.module)
    if not weights:
        raise CannotCheck("the module has no matrix or kernel.")
    # a weight of 0 has no length or direction, and hides the derivatives of what feeds it
    nonzero = subject.with_nonzero_weights
    evaluated, base = nonzero.float64_copy_if_possible(), nonzero.outputs_and_activations()
    without_eps = evaluated.copy_without(
        eps=True, with_large_input=_norms_with_eps_in_code(subject, evaluated)
    )
    if without_eps is not None:
        seen = without_eps.run()
        if bool(seen.y.isfinite().all()):  # where nothing varies it is 0/0
            evaluated, base = without_eps, seen
    if not bool(base.y.isfinite().all()):
        raise CannotCheck("the outputs hold NaN or an infinity before any change.")
    tolerance = RIGHT_ANGLE[subject.float64_copy_output_precision]
    zeros = all_zero_non_bias_names(subject.module)
    possible = {
        name: {column for column, cosine in columns.items() if cosine <= tolerance}
        for name, columns in _cosines_of_gradient_with_changes(evaluated, weights).items()
        if name not in zeros
    }
    changes = {
        (change.where, change.transformation.column): change
        for change in list_changes(weights.values(), evaluated, base.called_modules)
    }
    holds: dict[str, set[OneBasedExtendedTable1Column]] = {name: set() for name in possible}

    def add_changes_without_effect(
        pairs: Iterable[tuple[str, OneBasedExtendedTable1Column]],
    ) -> None:
        chosen = {pair: changes[pair] for pair in pairs if pair in changes}
        for name, column in _changes_without_output_effect(
            evaluated, base.y, chosen, subject.float64_copy_output_precision
        ):
            holds[name] |= {3, 1} if column == 3 else {column}

    # rows and the whole are both scales of one weight: the whole where rows are not invariant
    scales = [(n, 3 if 3 in each else 1) for n, each in possible.items() if each & {1, 3}]
    add_changes_without_effect(
        [*scales, *((n, 7) for n, each in possible.items() if 7 in each)]
    )
    add_changes_without_effect(
        [(n, 1) for n, column in scales if column == 3 and 3 not in holds[n]]
    )
    add_changes_without_effect([(n, c) for n, each in possible.items() for c in each & {2, 8}])
    subject.cache["invariances"] = InvariancesByWeight(
        holds, {*changes}, evaluated is without_eps
    )
    return subject.cache["invariances"]


def _norms_with_eps_in_code(subject: AuditSubject, evaluated: ModuleCopy) -> list[str]:
    """Return the names of normalizers whose eps is no attribute, and so cannot be set to 0.

    Without those that divide by running statistics here: they are no invariant ones.
    """
    return [
        name
        for norms in find_norms(subject)
        if norms.report is not None
        and (divisor := norms.report.divisor) is not None
        and divisor.eps > 0
        and math.isclose(divisor.variance_exponent, 0.5, abs_tol=1e-6)
        and not eps_of(norms.first_module)
        and (
            evaluated.bn_stats == "batch"
            or norms.found_properties.get("evaluation") == "as training"
        )
        for name in norms.module_names
    ]


def _cosines_of_gradient_with_changes(
    evaluated: ModuleCopy, weights: dict[str, Weight]
) -> dict[str, dict[OneBasedExtendedTable1Column, float]]:
    """Return the largest cosine between the gradient and the changes of each column.

    The gradient is that of a random function of the outputs; weights that have none are left
    out.
    """
    cosines: dict[str, dict[OneBasedExtendedTable1Column, float]] = {
        name: {} for name in weights
    }

    def add_gradient_cosine_hook(weight: Weight, a: Tensor) -> Tensor:
        if a.requires_grad and a.dim() > 1:
            a.register_hook(partial(keep_largest_shift_cosines, weight))
        return a

    def keep_largest_shift_cosines(weight: Weight, grad_a: Tensor) -> None:
        image = is_convolution(evaluated.module.get_submodule(weight.owner))
        of_units = grad_a.movedim(1 if image else -1, 0)
        for column, g in ((7, grad_a), (8, of_units)):
            g = g.flatten(1)
            cosine = _max_product_over_max_length(g.sum(1), g.norm(dim=1) * g.shape[1] ** 0.5)
            cosines[weight.name][column] = max(cosine, cosines[weight.name].get(column, 0.0))

    shifts = {
        w.owner: partial(add_gradient_cosine_hook, w)
        for w in weights.values()
        if w.makes_pre_activations
    }
    try:
        grads = evaluated.gradients(
            random_scalar_projection,
            InputAndWeightOverrides(evaluated.x, pre_activation_changes=shifts),
        )
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        raise CannotCheck(DETACHED) from error
    for name, weight in weights.items():
        g, W = (
            v.movedim(weight.unit_axis, 0).flatten(1)
            for v in (grads[name], evaluated.parameters[name].data)
        )
        along, lengths = torch.linalg.vecdot(g, W), g.norm(dim=1) * W.norm(dim=1)
        cosines[name] |= {
            1: _max_product_over_max_length(along.sum(), g.norm() * W.norm()),
            2: _max_product_over_max_length(g.sum(0), g.norm(dim=0) * len(g) ** 0.5),
            3: _max_product_over_max_length(along, lengths),
        }
    return {name: columns for name, columns in cosines.items() if bool(grads[name].any())}


def _max_product_over_max_length(products: Tensor, lengths: Tensor) -> float:
    """Return the largest product in units of the largest length; infinite where that is 0."""
    largest = max_abs(lengths)
    return max_abs(products) / largest if largest else math.inf


def _changes_without_output_effect(
    evaluated: ModuleCopy,
    y: Tensor,
    changes: dict[tuple[str, OneBasedExtendedTable1Column], Change],
    precision: torch.dtype,
) -> list[tuple[str, OneBasedExtendedTable1Column]]:
    """Return the changes that leave the outputs y (B, ...) as they are, made all at once.

    Where the outputs move, each half is tried by itself.
    """
    if not changes:
        return []
    # of a large change a small effect is seen, which passes for rounding to float32 else
    for size in (1, 1e3) if precision is torch.float32 else (1,):
        weights: dict[str, Tensor] = {}
        shifts: dict[str, Callable[[Tensor], Tensor]] = {}
        for number, change in enumerate(changes.values()):
            usual = USUAL if change.transformation.is_scaling else 1.0
            new = change.overrides(evaluated, size * usual * (1 + number % 7 / 10))
            weights |= new.weights
            shifts |= new.pre_activation_changes
        changed = evaluated.run(InputAndWeightOverrides(evaluated.x, weights, shifts)).y
        if not relative_max_change(changed, y) <= EXACT[precision]:
            break
    else:
        return list(changes)
    items, half = list(changes.items()), len(changes) // 2
    halves = (items[:half], items[half:]) if half else ()
    return [
        pair
        for part in halves
        for pair in _changes_without_output_effect(evaluated, y, dict(part), precision)
    ]


# The learning rate that a weight really has.
#
# A weight whose scale the loss does not see turns under a step of size eta as one of length 1
# would under :math:`\eta/\lVert w\rVert^2` (van Laarhoven 2017).

RATES_APART = 30.0
"""Effective rates further apart than this have no learning rate that suits both."""


def check_effective_rates(subject: AuditSubject) -> Findings:
    """Measure length and effective learning rate of every scale-invariant weight."""
    holds = find_weight_invariances(subject).columns_by_weight
    names = [name for name, columns in holds.items() if 1 in columns]
    if not names:
        raise CannotCheck(
            "no single weight was found whose scale changes nothing. (A bias of its own, or a "
            "sum before the normalizer, is enough for that. An eps in the forward method of a "
            "larger module, which cannot be set to 0, hides others: check_invariances shows "
            "them as approximate.)"
        )
    rows, rates = [], dict[str, dict[str, float]]()
    for name in names:
        W, kind = (
            subject.module.get_parameter(name).detach(),
            ROWS if 3 in holds[name] else WHOLE,
        )
        lengths = vector_norm(W.flatten(1), 1) if kind == ROWS else vector_norm(W)
        length = float(root_mean_square(lengths))
        inverse = 1 / length if length else math.inf
        row = {"weight": name, "invariant": kind, "length": length}
        rows.append(row | {"effective rate / rate": inverse * inverse})
        rates.setdefault(kind, {})[name] = inverse * inverse
    note = "Of weights whose rows are invariant, length is the root mean square of a row's."
    curve = "effective rate / rate" if len(rows) > 2 else ""
    subject.keep_table(rows, note, curve, "1 / ||w||²")
    values = [row["effective rate / rate"] for row in rows]
    least, most = three_significant_digits(min(values)), three_significant_digits(max(values))
    factors = least if least == most else f"{least} to {most}"
    weights = count_with_noun(len(rows), "weight")
    yield make_finding("effective-rate", names, weights=weights, factors=factors)
    for kind in (ROWS, WHOLE):
        of_kind = rates.get(kind, {"": 1.0})
        slow, fast = (pick(of_kind, key=of_kind.__getitem__) for pick in (min, max))
        if of_kind[fast] > RATES_APART * of_kind[slow]:
            factor = three_significant_digits(of_kind[fast] / of_kind[slow])
            yield make_finding("effective-rates-apart", [f"{fast} and {slow}"], factor=factor)


# The numbers that pass: outlier channels, rank, saturation, growth with depth.

OUTLIER = 6.0
"""A channel whose root mean square is so many times the median channel's is an outlier, the
bound of Dettmers et al. (2022, arXiv:2208.07339) for one number against the rest."""

FEW_OUTLIERS = 0.25
"""The fraction of the channels that are outliers at most."""

ALIKE, ALIKE_AT_END = 0.98, 0.999
"""Examples whose mean cosine is above this can hardly be told apart. (Behind a ReLU all numbers
are positive, and two thirds is nothing special.)"""

FEW_UNITS = 3
"""Among so few units examples point the same way by chance."""

FLAT = {"tanh": 2.0, "sigmoid": 4.0, "hardtanh": 1.0, "hardsigmoid": 3.0, "softsign": 3.0}
"""|a| beyond which the slope of f is below a fourteenth of its largest, tanh'(2) = 0.07; that
of softsign a sixteenth."""

SATURATED = 0.5
"""A nonlinearity of which more than this fraction is flat passes little gradient."""


def check_activations(subject: AuditSubject) -> Findings:
    """Measure size, outliers, stable rank and mean cosine of what each module makes."""
    constant = _modules_with_constant_output(subject)
    rows = [
        _leaf_output_statistics_row(call)
        for call in subject.trace.calls
        if _is_leaf_with_multiaxis_output(call) and call.name not in constant
    ]
    if not rows:
        raise CannotCheck("no part makes a matrix of numbers.")
    subject.keep_table(rows, "", "rms" if len(rows) > 2 else "", "root mean square")
    broken = [row["where"] for row in rows if not row["finite"]]
    yield make_finding("output-not-finite", broken)
    # where many are larger, the others are next to nothing: those of dead or saturated units
    few = (row for row in rows if 0 < row["outliers"] <= FEW_OUTLIERS * row["units"])
    if outliers := [row for row in few if row["of"] > 3]:
        worst = max(outliers, key=lambda row: row["outlier"])
        where = [
            f"{r['where']} ({count_with_noun(r['outliers'], 'channel')})" for r in outliers
        ]
        severity = RISK if worst["outlier"] > 5 * OUTLIER else FACT
        values = {"part": worst["where"], "times": three_significant_digits(worst["outlier"])}
        yield make_finding("outlier-channel", where, severity, **values)
    X = as_examples_by_units(subject.x.double())
    inputs_are_alike = bool((X[:1] == X).all()) or mean_cosine_of_rows(X) > ALIKE
    # not a part of which one call alone is alike, as the first step of a recurrent network
    differing = {row["where"] for row in rows if not row["cosine"] > ALIKE}
    alike = [r for r in rows if r["where"] not in differing and r["units"] > FEW_UNITS]
    if alike and not inputs_are_alike:
        # of a gate, or of a branch beside which others pass, that is nothing bad
        last = alike[-1]["where"]
        most = max(row["cosine"] for row in rows if row["where"] == last)
        severity = RISK if last == rows[-1]["where"] and most > ALIKE_AT_END else FACT
        values = {
            "limit": f"{ALIKE:g}",
            "unless": "nothing, unless training is slow: then " if severity is FACT else "",
        }
        where = list(dict.fromkeys(row["where"] for row in alike))
        yield make_finding("examples-alike", where, severity, **values)
    saturated = []
    for activation in subject.outputs_and_activations().nonlinearity_and_norm_calls:
        f = activation.name.rpartition(": ")[2]
        if f in FLAT and activation.h is not None:
            f_input = activation.f_input_or_norm_output
            share = float((f_input.abs() > FLAT[f]).double().mean())
            saturated += [f"{activation.name} ({share:.0%})"] if share > SATURATED else []
    yield make_finding("saturated", saturated)


def _modules_with_constant_output(subject: AuditSubject) -> set[str]:
    """Return the parts that make the same of another input: tables of positions, say."""
    if bool((subject.x == subject.x[:1]).all()):
        x = make_different_input(subject.x)
        if torch.equal(x, subject.x):
            return set()
        other = subject.trace_other_input(x, "running")
    else:
        other = subject.trace_with_statistics("running", example=0)
    outputs_by_name: dict[str, list] = {}
    for call in other.calls:
        outputs_by_name.setdefault(call.name, []).append(call.outputs)
    calls = subject.trace_with_statistics("running").calls
    # of a part that is called on several inputs, one may be the same
    moving = {
        call.name
        for call in calls
        if not (others := outputs_by_name.get(call.name))
        or not all(map(torch.equal, call.outputs, others.pop(0)))
    }
    return {call.name for call in calls} - moving


def _is_leaf_with_multiaxis_output(call: ModuleCall) -> bool:
    """Return True if a module without submodules made a matrix it had not been given."""
    if any(call.module.children()) or isinstance(call.module, _DropoutNd | nn.Identity):
        return False
    made = call.outputs[0] if call.outputs else None
    return made is not None and made.is_floating_point() and made.dim() > 1


def _leaf_output_statistics_row(call: ModuleCall) -> dict:
    A = as_examples_by_units(call.outputs[0])
    finite = bool(A.isfinite().all())
    channels = root_mean_square(A, 0)
    median, top = float(channels.median()), float(channels.max())
    return {
        "where": call.name,
        "rms": float(root_mean_square(A)),
        "outlier": top / median if median else math.nan,
        "outliers": int((channels > OUTLIER * median).sum()) if median else 0,
        "rank": stable_rank(A) if finite and top else math.nan,
        "of": min(A.shape),
        "units": A.shape[1],
        "cosine": mean_cosine_of_rows(A),
        "finite": finite,
    }


# The profile of gradients over depth.

STEEP = 100.0
"""A gradient that grows or shrinks by this from one end to the other needs looking after."""

FEW_LAYERS = 4
"""Fewer layers have no trend."""


def check_gradients(subject: AuditSubject) -> Findings:
    """Measure ||dL/dW|| and ||dL/dW||/||W|| of every layer, from the first called on."""
    objective = subject.objective
    norms = _gradient_norms_rounding_as_zero(subject)
    sizes = {n: float(vector_norm(w)) for n, w in objective.unflatten(objective.start).items()}
    names = [name for name in parameter_names_by_layer_weight(objective) if name in norms]
    if not names:
        raise CannotCheck("no parameter is trained.")
    rows = [
        {
            "layer": name,
            "gradient": norms[name],
            "weight": sizes[name],
            "gradient / weight": norms[name] / sizes[name] if sizes[name] else math.inf,
        }
        for name in names
    ]
    # a part that is never called has no place in the order of the calls, and no gradient
    trained = {name: norms[name] for name in names if norms[name]}
    note = "" if subject.has_loss else STAND_IN
    subject.keep_table(rows, note, "gradient" if trained else "", "norm")
    infinite = [name for name, norm in norms.items() if not math.isfinite(norm)]
    yield make_finding("gradient-not-finite", infinite)
    if len(trained) < FEW_LAYERS or infinite:
        return
    growth, where = _last_over_first_and_layers(trained)
    factor = max(growth, 1 / growth)
    if factor > STEEP:
        change, effect = ("grows", "less") if growth > 1 else ("shrinks", "more")
        values: dict[str, Any] = {
            "change": change,
            "effect": effect,
            "factor": three_significant_digits(factor),
        }
        yield make_finding("gradient-steep", [where], **values)
    largest = max(trained, key=trained.__getitem__)
    ratio = three_significant_digits(trained[largest] / min(trained.values()))
    where = [f"{largest} has the largest"]
    wide = trained[largest] > STEEP * min(trained.values())
    advice = "look at the curve of this check, or use Adam" if wide else "nothing"
    values = {"layers": len(trained), "ratio": ratio, "advice": advice}
    yield make_finding("gradient-spread", where, **values)


def _gradient_norms_rounding_as_zero(subject: AuditSubject) -> dict[str, float]:
    """Return the norm of each gradient, 0 where it is rounding: of what cancels.

    That is another one after a step that changes nothing else.
    """
    objective, start = subject.objective, subject.objective.start
    step = 10 * torch.finfo(start.dtype).eps * torch.linspace(-1, 1, len(start)).to(start)
    gradient, (_, after) = subject.loss_gradient, objective.gradient(start + start * step)
    norms = {name: float(vector_norm(gradient[i])) for name, i in objective.slices().items()}
    for name, i in objective.slices().items():
        if vector_norm(after[i] - gradient[i]) > 0.5 * norms[name]:
            norms[name] = 0.0
    return norms


def _last_over_first_and_layers(gradient_norms: dict[str, float]) -> tuple[float, str]:
    """Return the last gradient over the first, a geometric mean, and their names.

    Layers of one kind are compared, as those of queries have smaller gradients than others:
    the mean of each kind, of the first and the last quarter of its layers.
    """
    kinds: dict[str, list[str]] = {}
    for name in gradient_norms:
        kinds.setdefault(re.sub(r"\d+", "*", name), []).append(name)
    groups = [names for names in kinds.values() if len(names) > 1] or [list(gradient_norms)]
    trends = []
    for names in groups:
        logs, quarter = (
            [math.log(gradient_norms[name]) for name in names],
            max(1, len(names) // 4),
        )
        trends.append((sum(logs[-quarter:]) - sum(logs[:quarter])) / quarter)
    layers = [name for name in gradient_norms if any(name in names for names in groups)]
    log_ratio = min(max(sum(trends) / len(trends), -700.0), 700.0)  # exp(710) overflows
    return math.exp(log_ratio), f"{layers[0]} to {layers[-1]}"


# The effect of the derivatives of mu and sigma on the gradient (Xu et al. 2019, section 3).

OURS = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}
"""The normalizers that are most often written by hand, as ours."""

NOTHING_LEFT = 1e-6
"""The share of the squared gradient below which a part asks for what cannot change."""

AMPLIFIED = 10.0
"""A gradient that comes back so many times as long is reported, as a risk at ten times that:
a start with a deviation of 0.02 makes it 50."""


def check_gradient_taken_by_statistics(subject: AuditSubject) -> Findings:
    """Measure the part of the gradient that mu and sigma of each normalizer take away."""
    norms = find_norms(subject)
    # the gradient behind one that holds its activation is not that of its normalization
    plain = [each for each in norms if not any(each.first_module.children())]
    reports = {name: each.report for each in plain for name in each.module_names}
    if not reports:
        why = "each normalizer holds what follows it" if norms else "there is no normalizer"
        raise CannotCheck(f"{why}.")
    calls = record_norm_calls(subject.objective, reports)
    rows, why = [], ""
    for name in [call.name for call in subject.first_calls if call.name in calls]:
        seen = calls[name]
        try:
            norm = as_supported_norm_or_raise(seen.norm, reports[name], seen.a)
            parts = gradient_parts(norm, seen.a, seen.grad_h, *seen.other_args)
        except (TypeError, ValueError) as error:
            why = why or str(error)
            continue
        direct, total = float(vector_norm(parts.direct)), float(vector_norm(parts.total))
        if direct:
            without_mu = float(vector_norm(parts.direct + parts.through_mu))
            rows.append(
                {
                    "where": name,
                    "taken by mu": 1 - (without_mu / direct) ** 2,
                    "taken by sigma": (without_mu**2 - total**2) / direct**2,
                    "left": (total / direct) ** 2,
                    "gradient before / behind": total / float(vector_norm(seen.grad_h)),
                }
            )
    if not rows:
        raise CannotCheck(why or "no gradient reaches a normalizer.")
    note = f"Fractions of ||dL/da||². {'' if subject.has_loss else STAND_IN}".strip()
    subject.keep_table(rows, note, "left" if len(rows) > 2 else "", "fraction of ||dL/da||²")
    # constant statistics, as of batch norm in evaluation, take nothing
    moving = [row for row in rows if row["taken by mu"] or row["taken by sigma"]]
    shares = [
        sum(row[f"taken by {name}"] for row in moving) / max(len(moving), 1)
        for name in ("mu", "sigma")
    ]
    mu, sigma = (_describe_share(share) for share in shares)
    where = [row["where"] for row in moving]
    yield make_finding("gradient-of-statistics", where, mu=mu, sigma=sigma)
    taken = [row["where"] for row in rows if abs(row["left"]) < NOTHING_LEFT]
    yield make_finding("gradient-taken", taken)
    factors = {row["where"]: row["gradient before / behind"] for row in rows}
    large = [name for name, factor in factors.items() if factor > AMPLIFIED]
    most = max(factors.values())
    severity = RISK if most > 10 * AMPLIFIED else FACT
    yield make_finding(
        "gradient-amplified", large, severity, times=three_significant_digits(most)
    )


def _describe_share(share: float) -> str:
    """Return how much of the squared gradient a statistic takes; below 0 it adds to it."""
    if abs(share) < 5e-4:  # RMSNorm has no mu, for example
        return "takes nothing"
    return f"{'takes' if share > 0 else 'adds'} {abs(share):.1%}"


def as_supported_norm_or_raise(
    norm: nn.Module, report: NormPropertyReport | None, a: Tensor
) -> nn.Module:
    """Return ``norm`` itself where its rule is known; one that turned out to be LayerNorm or
    RMSNorm of the units of ``a``, as ours with its gain, bias and eps.

    Raises:
        TypeError: for any other.
    """
    try:
        as_affine_norm(norm)
    except TypeError as error:
        refused = TypeError(
            f"{str(error).rstrip('.')}, or a class that computes the same as these LayerNorm "
            "and RMSNorm over the units."
        )
        if report is None or report.kind not in OURS:
            raise refused from error
        properties = {f.name: f.found for f in report.properties}
        wrong = {
            f.name
            for f in report.properties
            if f.differs_from_torch and "differs" not in f.name
        }
        parameters = {
            n: p for n, p in norm.named_parameters() if p.dim() == 1 and n in properties
        }
        settings = _norm_arguments_for_axes(properties["statistics over"], a.dim())
        known = wrong <= {"variance", "eps"} and "sum" not in properties.get("variance", "")
        known &= "at least" not in properties.get("eps", "")  # where it is met, nothing passes
        known &= report.kind == "LayerNorm" or "per_position" not in (settings or {})
        if not known or settings is None or len(parameters) < sum(1 for _ in norm.parameters()):
            raise refused from error
        if "unbiased" in properties.get("variance", ""):
            settings["correction"] = 1
        if "added to sigma" in properties["eps"]:
            settings["root"] = outside_root
        units = a.shape[-1 - settings.get("space", 0)]
        ours = OURS[report.kind](units, eps=eps_of(norm), **settings)
        for name, words in (("g", "multiplies"), ("b", "added last")):
            roles = (p for n, p in parameters.items() if properties[n].startswith(words))
            setattr(ours, name, next(roles, None))
        return ours
    return norm


def _norm_arguments_for_axes(statistics_over: str, axis_count: int) -> dict[str, Any] | None:
    """Return the arguments of a norm whose units stand last, or along axis 1 of pictures."""
    if statistics_over.startswith(f"axis {axis_count - 1} "):
        return {}
    if statistics_over.startswith("axis 1 "):
        return {"space": axis_count - 2, "per_position": True}
    return None


# The curvature of the loss at the parameters as they are.

PRODUCTS, PRODUCT_SECONDS = (3, 30), 6.0
"""Products with the Hessian, at least and at most, and the seconds that they may take: each
costs two gradients, and some vectors of all parameters."""


UNCHECKED = ". Whether the gradient is that of the loss was not checked"


def check_curvature(subject: AuditSubject) -> Findings:
    """Measure the extreme eigenvalues of the Hessian, and the rate that they allow."""
    if not subject.has_loss:
        raise CannotCheck("no loss was given: curvature is that of a loss.")
    is_doubtful = has_doubtful_derivative(subject)
    if is_doubtful:
        raise CannotCheck(
            "the gradient is not that of the loss, so its derivative is no Hessian."
        )
    least, most = PRODUCTS
    seconds = 4 * subject.evaluation_seconds_from_operation_count
    seconds += 4e-8 * len(subject.objective.start)
    subject.drop_copies_and_traces()  # the products need the memory
    steps = max(least, min(most, int(PRODUCT_SECONDS / seconds)))
    # few products get further from the gradient than from a random direction
    start = subject.loss_gradient if steps < 10 and bool(subject.loss_gradient.any()) else None
    eigenvalues = extreme_eigenvalues(
        subject.objective, steps=steps, tolerance=1e-2, start=start
    )
    row = eigenvalues.summary()
    subject.keep_table([row])
    largest, smallest = row["largest"], row["smallest"]
    if not largest and not smallest:
        yield make_finding("curvature-zero", [subject.name])
        return
    error = abs(row["error"] / largest) if largest else 0.0
    # what is left of a 0 is rounding, or the error of the largest
    bends_down = smallest < -max(error, 1e-6) * abs(largest)
    yield make_finding(
        "curvature",
        [subject.name],
        largest=three_significant_digits(largest),
        within=f"± {three_significant_digits(100 * error)}%"
        if error >= 1e-4
        else "± less than 0.01%",
        smallest=three_significant_digits(smallest),
        rate=three_significant_digits(row["critical_rate"]),
        bends="; the loss bends down somewhere as well" if bends_down else "",
        unchecked=UNCHECKED if is_doubtful is None else "",
        spherical=three_significant_digits(row["scale_free"]),
    )


# The digits that are lost in the module's own precision, and in half of it.

LOST = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""A relative error above this is more than the rounding of a few layers."""


def check_precision(subject: AuditSubject) -> Findings:
    """Compare the outputs in lower precisions with those in float64, in evaluation."""
    subject.require_float64()
    if subject.is_random:
        raise CannotCheck(RANDOM)
    if subject.float64_copy_output_precision is torch.bfloat16:
        raise CannotCheck(HALF)
    others = [
        subject.module.get_submodule(n) for n in find_norms_with_other_statistics(subject)
    ]
    norms: list[Any] = [
        n
        for n in find_norms_with_running_statistics(subject.module)
        if hasattr(n, "running_var") and n not in others
    ]
    if norms and all(
        not n.running_mean.any() and bool((n.running_var == 1).all()) for n in norms
    ):
        raise CannotCheck("running statistics have seen no batch: evaluation is not yet known.")
    y = subject.outputs_and_activations("running").y
    if not bool(y.isfinite().all()):
        raise CannotCheck("the outputs are not finite in float64 either.")
    dtypes = dict.fromkeys((subject.dtype, torch.float32, torch.float16, torch.bfloat16))
    dtypes.pop(torch.float64, None)
    rows = []
    for dtype in dtypes:
        error, remark = _output_error_and_remark(subject, dtype, y)
        name = str(dtype).removeprefix("torch.")
        rows.append({"precision": name, "error": error, "remark": remark})
        values: dict[str, Any] = {"precision": name, "error": f"{error:.2g}"}
        if remark == "not finite":
            severity = FAULT if dtype is subject.dtype else RISK
            yield make_finding("overflow", None, severity, effect="are not finite", **values)
        elif error > LOST[dtype] and remark == "underflow":
            yield make_finding("overflow", effect="underflow", **values)
        elif error > LOST[dtype]:
            yield make_finding("precision-lost", **values)
    subject.keep_table(rows)


def _output_error_and_remark(
    subject: AuditSubject, dtype: torch.dtype, exact_y: Tensor
) -> tuple[float, str]:
    """Return the relative error of the outputs in a precision, and what hinders it."""
    try:
        low = subject.copy_in_dtype(dtype, "running").run().y
    except (ValueError, TypeError) as error:
        return math.nan, str(error).splitlines()[0][:120]
    if not bool(low.isfinite().all()):
        return math.inf, "not finite"
    if not bool(exact_y.any()):  # what is left of 0 is rounding
        return 0.0, "the outputs are 0"
    is_tiny = dtype.is_floating_point and float(exact_y.abs().max()) < torch.finfo(dtype).tiny
    return relative_max_change(low.double(), exact_y), "underflow" if is_tiny else ""
