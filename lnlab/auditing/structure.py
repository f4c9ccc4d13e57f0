"""Checks of structure: normalizers, parameters without effect, examples that see each other."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from lnlab.analysis.activations import NonlinearityOrNormCall, count_dead_units, is_known_norm
from lnlab.analysis.inputs import GIVEN
from lnlab.analysis.magnitudes import max_abs, relative_max_change
from lnlab.analysis.module_copy import (
    InputAndWeightOverrides,
    ModuleCopy,
    deepcopy_with_rebound_closures,
    find_norms_with_running_statistics,
    frozen_copy_without_hooks,
)
from lnlab.analysis.norm_identity import CONSTANT, NOTHING, ROLES, NormPropertyReport
from lnlab.analysis.random import normal
from lnlab.auditing.finding import (
    CannotCheck,
    Finding,
    Findings,
    Severity,
    count_with_noun,
    list_names,
    make_finding,
    three_significant_digits,
)
from lnlab.auditing.norms import (
    NormGroup,
    eps_of,
    find_norms,
    find_norms_of_several_tensors,
)
from lnlab.auditing.signals import (
    find_norms_with_other_statistics,
    find_stuck_running_statistics,
)
from lnlab.auditing.subject import (
    DETACHED,
    AuditSubject,
    CallTrace,
    ModuleCall,
    all_zero_non_bias_names,
    is_bias_name,
    make_different_input,
    padding_row_by_embedding_weight,
    random_scalar_projection,
    restored_random_state,
    turn_dropout_off,
)
from lnlab.nn.batch import batch_moments

FAULT, RISK, FACT = Severity

# The normalizers that there are, and whether each is what its name says.

DIFFERENCES = {
    "statistics over": "norm-wrong-axes",
    "evaluation": "norm-evaluation",
    "float32 at mean 1e4": "variance-cancels",
    "variance": "variance-unbiased",
    "eps": "eps-outside-root",
}
"""The rules of the properties that are otherwise than in torch.nn."""

FITTING = ("evaluation", "momentum")
"""Properties that differ in how statistics are kept: weights of torch's operator fit."""

PROMISES = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm", "InstanceNorm")
"""The operators of torch.nn that a class name may promise."""

SPECIAL = {"GroupNorm": ("InstanceNorm", "LayerNorm"), "LayerNorm": ("GroupNorm(1)",)}
"""Operators that keep such a promise as well: groups of one unit, or one of all."""

FUNCTIONS = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm")

STEEP = 1e-6
"""An eps below this lets a constant example multiply gradients by more than 1000."""

OVER_EXAMPLES = re.compile(r"statistics over ax[ei]s 0\b")
"""The words of identify_norm for statistics that run over the examples of a batch."""

SILENT = 1e-3
"""A gain that is this fraction of the largest one switches its unit off."""


def check_normalizers(subject: AuditSubject) -> Findings:
    """Find the normalizers, and what of each differs from what its name promises."""
    groups = find_norms(subject)
    others = find_norms_of_several_tensors(subject)
    subject.keep_table(
        [
            *(_norm_row(norms) for norms in groups),
            *(_unidentified_norm_row(call, reason) for call, reason in others),
        ]
    )
    yield from _not_identified_findings(groups, others)
    alone = [f for norms in groups for f in _misleading_name_and_eps_findings(norms)]
    yield from _merge_findings(
        [*alone, *(f for norms in groups for f in _torch_difference_findings(norms))]
    )
    yield _dominant_eps_finding(groups)
    yield _switched_off_units_finding(groups)
    known = {name for norms in groups for name in norms.module_names}
    modules = dict(subject.module.named_modules())
    callers: dict[str, list[str]] = {}
    for function, name in subject.trace.functions:
        if function in FUNCTIONS and name not in known and not is_known_norm(modules[name]):
            callers.setdefault(function, []).append(name)
    for function, names in callers.items():
        norm = function.title().replace("_", "")
        yield make_finding("norm-as-function", names, function=function, norm=norm)
    if not groups and not others and not callers:
        yield make_finding("no-norm", model=subject.name)


def _not_identified_findings(
    groups: list[NormGroup], others: list[tuple[ModuleCall, str]]
) -> Findings:
    """Yield what is a normalizer by its name alone, by class and reason."""
    names: dict[tuple[str, str], list[str]] = {}
    for norms in groups:
        if norms.report is None:
            key = norms.class_name, norms.failure_reason
            names.setdefault(key, []).extend(norms.module_names)
    for call, reason in others:
        names.setdefault((type(call.module).__name__, reason), []).append(call.name)
    for (norm, reason), where in names.items():
        yield make_finding("norm-not-identified", where, norm=norm, reason=reason)


def _norm_row(norms: NormGroup) -> dict:
    properties = norms.found_properties
    return {
        "where": list_names(norms.module_names, 2),
        "how many": len(norms.first_calls),
        "class": norms.class_name,
        "is": norms.report.kind if norms.report else f"not found out: {norms.failure_reason}",
        "statistics over": properties.get("statistics over", properties.get("statistics", "")),
        "variance": properties.get("variance", properties.get("mean square", "")),
        "eps": properties.get("eps", ""),
    }


def _unidentified_norm_row(call: ModuleCall, reason: str) -> dict:
    return {
        "where": call.name,
        "how many": 1,
        "class": type(call.module).__name__,
        "is": f"not found out: {reason}",
        "statistics over": "",
        "variance": "",
        "eps": "",
    }


def _misleading_name_and_eps_findings(norms: NormGroup) -> Findings:
    """A name that promises another operator, and an eps that is missing or small."""
    if norms.report is None:
        return
    kind, promise, is_known = (
        norms.report.kind,
        _operator_promised_by_class_name(norms),
        is_known_norm(norms.first_module),
    )
    if kind != NOTHING:
        kept = promise is None or promise in kind or kind.startswith(SPECIAL.get(promise, ()))
        if not kept and not is_known:
            verb = "comes nearest to" if norms.report.differences else "computes"
            message = f"{norms.class_name} {verb} {kind}"
            yield make_finding(
                "norm-misnamed", norms.module_names, message=message, promise=promise
            )
        yield _missing_or_small_eps_finding(norms)
        return
    computes = "; ".join(f"{what} {found}" for what, found in norms.found_properties.items())
    if CONSTANT in computes:
        yield make_finding("norm-constant", norms.module_names, norm=norms.class_name)
    elif not is_known:
        if computes.startswith("statistics none"):
            yield make_finding(
                "norm-without-statistics", norms.module_names, norm=norms.class_name
            )
            return
        mixes = OVER_EXAMPLES.match(computes) and promise not in (None, "BatchNorm")
        rule = "norm-mixes-examples" if mixes else "norm-of-another-form"
        message = f"{norms.class_name} is no normalizer of torch.nn: {computes}"
        yield make_finding(rule, norms.module_names, None if promise else FACT, message=message)


def _operator_promised_by_class_name(norms: NormGroup) -> str | None:
    """Return the operator of torch.nn that the name of a class, or of a base, promises."""
    names = [
        kind.__name__.replace("_", "").lower() for kind in type(norms.first_module).__mro__
    ]
    promises = (p for name in names for p in PROMISES if p.lower() in name)
    return next(promises, None)


def _merge_findings(findings: Iterable[Finding | None]) -> Findings:
    """Merge findings that mean the same, of normalizers of several sizes."""
    alike: dict[tuple, list[Finding]] = {}
    for f in findings:
        if f:
            alike.setdefault((f.rule, f.severity, f.meaning, f.advice), []).append(f)
    for same in alike.values():
        where, message = (
            list_names([getattr(f, field) for f in same], separator="; ")
            for field in ("where", "message")
        )
        yield replace(same[0], where=where, message=message)


def _torch_difference_findings(norms: NormGroup) -> Findings:
    """The properties that are otherwise than in torch, each by itself."""
    if norms.report is None or norms.report.kind == NOTHING:
        return
    promise = _operator_promised_by_class_name(norms)
    for f in norms.report.properties:
        if not f.differs_from_torch or f.name.startswith("differs"):
            continue
        if (f.found, promise) == ("kept", "RMSNorm"):  # the mean, as promised
            continue
        rule, severity = DIFFERENCES.get(f.name, "norm-differs"), None
        if f.name == "variance" and "unbiased" not in f.found:
            rule = "norm-differs"
        if f.name == "eps" and "at least" in f.found:
            rule = "eps-floor"
        if f.found.startswith(f"{f.torch} of") and " parts" in f.found:
            rule = "norm-misnamed"  # of groups of the right axis, as in Mamba-2
        if f.name == "evaluation" and "own batch" in f.found:
            # the same in both modes: a fault where no batch is promised; the check
            # "independent examples" finds what follows from it
            if is_known_norm(norms.first_module) or promise is None:
                continue
            rule = "norm-differs" if promise == "BatchNorm" else "norm-mixes-examples"
        if rule == "norm-wrong-axes" and _are_examples_mixed(norms.report, promise):
            rule, severity = "norm-mixes-examples", RISK if promise is None else None
        elif rule == "norm-wrong-axes" and _are_gains_inside(norms.report):
            # over more axes than LayerNorm is: a fault if that is what its name promises
            severity = {None: RISK, "GroupNorm": FACT}.get(promise, FAULT)
        if (f.name, f.found) == ("running variance", "biased variance"):
            yield _biased_running_variance_finding(norms)
            continue
        is_one_plus = f.found.startswith(ROLES["gain, 1 + "])
        if rule == "norm-differs" and (promise is None or is_one_plus):
            severity = FACT
        kind = norms.report.kind
        message = f"{norms.class_name}: {f.name}: {f.found}; in torch's {kind}: {f.torch}"
        if f.name == "gradient":
            rule = "norm-gradient"
        fit = "" if f.name in FITTING else "; the weights of one do not fit the other"
        values = {"kind": kind, "promise": promise or kind, "fit": fit}
        yield make_finding(rule, norms.module_names, severity, message=message, **values)


def _are_examples_mixed(report: NormPropertyReport, promise: str | None) -> bool:
    """Return True if statistics run over the batch, and those of the operator do not.

    The operator is the one that the name promises, else the one that comes nearest.
    """
    over, kind = report.over, promise or report.kind
    return over is not None and 0 in over.axes and kind != "BatchNorm"


def _are_gains_inside(report: NormPropertyReport) -> bool:
    """Return True if the axes of the gains are among those of the statistics."""
    gains = {axis for role in report.roles if "gain" in role.role for axis in role.axes}
    return bool(gains) and report.over is not None and gains <= {*report.over.axes}


def _biased_running_variance_finding(norms: NormGroup) -> Finding | None:
    """Return the finding that the running variance divides by N: a risk where N is small."""
    a = norms.first_calls[0].inputs[0]
    over = norms.report.over if norms.report else None
    assert over is not None
    N = math.prod(a.shape[axis] for axis in over.axes)
    factor = math.sqrt(N / (N - 1)) if N > 1 else math.inf
    return make_finding(
        "running-variance-biased",
        norms.module_names,
        RISK if factor > 1.01 else FACT,
        message=f"{norms.class_name}: running variance: biased; in torch's BatchNorm: unbiased",
        factor=f"{factor:.5g}",
        N=f"{N:,}",
    )


def _missing_or_small_eps_finding(norms: NormGroup) -> Finding | None:
    """No eps at all, or one so small that a constant example has a steep gradient."""
    words = norms.found_properties.get("eps", "")
    square = _square_below_root(norms)
    constant = "0" if square == "mean square" else "equal"
    values: dict[str, Any] = {"square": square, "constant": constant}
    if words == "none":
        nan = _is_nonfinite_at_constant_input(norms.first_calls[0], float(square == "variance"))
        severity, result = (FAULT, ": the output is NaN") if nan else (RISK, "")
        values |= {"norm": norms.class_name, "result": result}
        return make_finding("eps-missing", norms.module_names, severity, **values)
    eps = float(words.split()[0]) if words[:1].isdigit() else 1.0
    if eps >= STEEP:
        return None
    factor = three_significant_digits(1 / eps if "sigma" in words else eps**-0.5)
    # torch's norms, and others that say so, compute in float32 what they are given in float16
    report = norms.report
    keeps_eps = report is None or report.computes_float64_in_float32
    is_lost = eps < 3e-8 and not keeps_eps and not is_known_norm(norms.first_module)
    values |= {
        "eps": three_significant_digits(eps),
        "usual": words.partition(", ")[2] or "where 1e-5 is usual",
        "factor": factor,
        "in_half": ", and in float16 this eps is 0" if is_lost else "",
    }
    return make_finding("eps-small", norms.module_names, **values)


def _square_below_root(norms: NormGroup) -> str:
    """Return "variance" or "mean square", what normalizers take the root of."""
    divisor = norms.report.divisor if norms.report else None
    about_mean = divisor is None or divisor.is_variance_about_mean
    return "variance" if about_mean else "mean square"


def _is_nonfinite_at_constant_input(call: ModuleCall, constant: float) -> bool:
    """Return True if a constant input comes out as NaN or infinite."""
    x = call.inputs[0]
    module = frozen_copy_without_hooks(call.module).to(x.dtype).train()
    with torch.no_grad(), restored_random_state():
        try:
            return not bool(module(torch.full_like(x, constant)).isfinite().all())
        except Exception:  # a user's module may raise anything
            return False


def _dominant_eps_finding(groups: list[NormGroup]) -> Finding | None:
    """An eps that is not small beside what the normalizers are given."""
    calls = [(norms, call) for norms in groups for call in norms.first_calls]
    shares = {call.name: _share_of_variances_below_eps(norms, call) for norms, call in calls}
    names = [name for name, share in shares.items() if share > 0]
    worst = max(shares.values(), default=0.0)
    severity, share = (RISK, f"{worst:.0%}") if worst > 0.01 else (FACT, "1%")
    squares = dict.fromkeys(
        _square_below_root(norms) for norms, call in calls if call.name in names
    )
    return make_finding(
        "eps-decides", names, severity, share=share, square=" or ".join(squares)
    )


def _share_of_variances_below_eps(norms: NormGroup, call: ModuleCall) -> float:
    """Return the fraction of the statistics of a call whose variance is below eps."""
    eps, report = eps_of(call.module), norms.report
    if report is None or report.kind == NOTHING or report.over is None or not eps > 0:
        return 0.0
    if report.divisor is not None and not report.divisor.eps:  # declared, and not used
        return 0.0
    a, axes = report.over.unflatten_split_axis(call.inputs[0]), report.over.axes_after_split
    is_variance = _square_below_root(norms) == "variance"
    square = a.var(axes, correction=0) if is_variance else a.square().mean(axes)
    return float((square < eps).double().mean())


def _switched_off_units_finding(groups: list[NormGroup]) -> Finding | None:
    """Units that learned gains have switched off."""
    off: dict[str, tuple[int, int]] = {}
    for call in [call for norms in groups for call in norms.first_calls]:
        gains = (getattr(call.module, n, None) for n in ("weight", "g", "gamma"))
        g = next((g for g in gains if g is not None), None)
        if isinstance(g, Tensor) and g.dim() == 1 and bool(g.detach().any()):
            size = g.detach().double().abs()
            if silent := int((size < SILENT * size.max()).sum()):
                off[call.name] = silent, len(g)
    silent, units = (sum(column[i] for column in off.values()) for i in (0, 1))
    return make_finding("gains-off", off, silent=silent, units=units, limit=f"{SILENT:g}")


# Parameters on which nothing depends: a bias in front of a normalizer, most often.

SMALL_GRADIENT = 1e-9
"""A gradient below this fraction of its parameter's largest, or of the largest of all, may
belong to what nothing depends on: it is then tried. In float32 rounding leaves a larger one."""

RANDOM_STATES = 8
"""The states an effect is looked for from, where a module draws random numbers."""

MOST_CUT = 16
"""Parameters that are tried for an effect without a gradient."""


def check_idle_parameters(subject: AuditSubject) -> Findings:
    """Find numbers of parameters that can be anything, as far as a training batch tells."""
    nonzero = subject.with_nonzero_weights
    try:
        grads = _gradients_of_random_projection(nonzero)
    except CannotCheck as error:
        names = [name for name, trained in subject.trainable.items() if trained]
        have = count_with_noun(len(names), "parameter has", "parameters have")
        if str(error) != DETACHED or not names:
            raise
        yield make_finding("gradient-cut", names, parameters=have)
        return
    masks = _zero_gradient_masks(grads, subject.relative_rounding_threshold)
    flat = masks
    if nonzero is not subject:  # what has a gradient as the module is has an effect
        flat = _zero_gradient_masks(
            _gradients_of_random_projection(subject), subject.relative_rounding_threshold
        )
        both = {name: mask & flat[name] for name, mask in masks.items() if name in flat}
        masks = {name: mask for name, mask in both.items() if mask.any()}
    rounded = any(bool(grads[name][mask].any()) for name, mask in masks.items())
    states = list(product(range(RANDOM_STATES), (1, 100) if rounded else (1, 1)))
    tries = states if subject.is_random else states[:2]
    effects = ParameterEffectTest(subject, nonzero.float64_copy_if_possible(), tries)
    if not subject.is_random:
        effects.unchanged[0] = nonzero.outputs_and_activations().y
    names = effects.parameters_without_effect(masks)
    if names and subject.noise:  # what is turned off may need them
        noisy = deepcopy_with_rebound_closures(subject.original, share_parameters=True)
        turn_dropout_off(noisy)
        noisy = ModuleCopy(
            noisy, subject.x, bn_stats="batch", select_output=subject.concatenate_scaled_outputs
        )
        effects_of_noise = ParameterEffectTest(subject, noisy, states)
        names = effects_of_noise.parameters_without_effect({n: masks[n] for n in names})
    idle = {name: (int(masks[name].sum()), masks[name].numel()) for name in names}
    # without effect on this input, and with one on another
    whole = {name: masks[name] for name in names if masks[name].all()}
    other = ParameterEffectTest(
        subject, effects.evaluated, tries, make_different_input(effects.evaluated.x)
    )
    here = whole.keys() - other.parameters_without_effect(whole)
    norms = _next_norm_by_module(subject)
    subject.keep_table(
        [
            {"parameter": name, "without effect": n, "of": size}
            | {"in front of": norms.get(_owner_module_name(name), "")}
            for name, (n, size) in idle.items()
        ]
    )
    yield from _idle_findings(subject, idle, here, norms)
    yield _cut_gradient_finding(subject, effects.evaluated, grads, idle)
    if nonzero is not subject:
        all_flat = {n for n, mask in masks.items() if mask.all()} | idle.keys()
        waiting = sum(bool(mask.all()) and n not in all_flat for n, mask in flat.items())
        zeros = all_zero_non_bias_names(subject.module) if waiting else []
        parameters = count_with_noun(waiting, "other parameter has", "other parameters have")
        yield make_finding("branch-of-zeros", zeros, parameters=parameters)


def _cut_gradient_finding(
    subject: AuditSubject,
    evaluated: ModuleCopy,
    grads: dict[str, Tensor],
    idle: Collection[str],
) -> Finding | None:
    """Parameters without a gradient whose change by a hundredth changes the outputs."""
    names = [
        name
        for name, g in grads.items()
        if not g.any() and name not in idle and subject.trainable.get(name)
    ]
    masks = {n: torch.ones_like(grads[n], dtype=torch.bool) for n in names[:MOST_CUT]}
    for name, row in padding_row_by_embedding_weight(subject.module).items():
        if name in masks:
            masks[name][row] = False
    without = ParameterEffectTest(subject, evaluated, [(0, 0.01)]).parameters_without_effect(
        masks
    )
    cut = [name for name in masks if name not in without]
    parameters = count_with_noun(len(cut), "parameter has", "parameters have")
    return make_finding("gradient-cut", cut, parameters=parameters)


def _owner_module_name(name: str) -> str:
    return name.rpartition(".")[0]


def _gradients_of_random_projection(subject: AuditSubject) -> dict[str, Tensor]:
    """Return the gradients of a random function of the outputs by parameters with numbers."""
    return {
        name: g
        for name, g in subject.gradients_of_random_projection.items()
        if name and g.numel()
    }


def _zero_gradient_masks(
    grads: dict[str, Tensor], relative_rounding_threshold: float
) -> dict[str, Tensor]:
    """Return the places of each parameter where its gradient may be rounding, if it has some.

    Of a matrix all or none: single numbers are those of words that did not occur, and of dead
    units.
    """
    sizes = {name: max_abs(g) for name, g in grads.items()}
    largest = max(sizes.values(), default=0.0)
    small = max(SMALL_GRADIENT, relative_rounding_threshold / 10)
    limits = {name: small * max(size, 1e-4 * largest) for name, size in sizes.items()}
    flat = {
        name: g.abs() <= limits[name]
        for name, g in grads.items()
        if g.dim() < 2 or sizes[name] <= limits[name]
    }
    return {name: mask for name, mask in flat.items() if mask.any()}


class ParameterEffectTest:
    """The effects of parameters on the outputs.

    Args:
        subject: says what is rounding.
        evaluated: a copy.
        tries: a random seed each, and the size of the change in units of the parameter's own.
        x: the input; None: that of the copy.
    """

    def __init__(
        self,
        subject: AuditSubject,
        evaluated: ModuleCopy,
        tries: Sequence[tuple[int, float]],
        x: Tensor | None = None,
    ) -> None:
        self.subject, self.evaluated, self.tries = subject, evaluated, tries
        self.x = evaluated.x if x is None else x
        self.unchanged: dict[int, Tensor] = {}

    def parameters_without_effect(
        self, masks: dict[str, Tensor], *, by_gradient: bool = True
    ) -> list[str]:
        """Return the parameters whose masked numbers can be replaced without any change.

        All are replaced at once. Where that moves the outputs, those that have a gradient then
        are left out (units that were dead, say), or each half is tried by itself.
        """
        if not masks or not self._have_effect(masks):
            return list(masks)
        half = len(masks) // 2
        if not half:
            return []
        if by_gradient and not self.subject.is_random:
            new = InputAndWeightOverrides(self.x, self._perturb_masked_numbers(masks, 0))
            grads = self.evaluated.gradients(random_scalar_projection, new)
            flat = _zero_gradient_masks(grads, self.subject.relative_rounding_threshold)
            rest = {n: m for n, m in masks.items() if n in flat and not (m & ~flat[n]).any()}
            if len(rest) < len(masks):
                return self.parameters_without_effect(rest)
        items = list(masks.items())
        halves = items[:half], items[half:]
        return [
            n
            for each in halves
            for n in self.parameters_without_effect(dict(each), by_gradient=False)
        ]

    def _have_effect(self, masks: dict[str, Tensor]) -> bool:
        """Return True if the outputs move when the masked numbers are replaced."""
        for draw, (seed, _) in enumerate(self.tries):
            if seed not in self.unchanged:
                self.unchanged[seed] = self._run_with_seed(seed, {})
            changed = self._run_with_seed(seed, self._perturb_masked_numbers(masks, draw))
            if self.subject.is_more_than_rounding(
                relative_max_change(changed, self.unchanged[seed])
            ):
                return True
        return False

    def _run_with_seed(self, seed: int, weights: dict[str, Tensor]) -> Tensor:
        with restored_random_state(seed):
            return self.evaluated.run(InputAndWeightOverrides(self.x, weights)).y

    def _perturb_masked_numbers(self, masks: dict[str, Tensor], draw: int) -> dict[str, Tensor]:
        others = {}
        for name, mask in masks.items():
            p = self.evaluated.parameters[name].data
            size = self.tries[draw][1] * (float(p.abs().mean()) or 1.0)
            # up and down: a bias may shut a unit that a later normalizer lets shift
            size *= (-1) ** draw
            other = p + size * normal(9, draw // 2, p.numel()).view_as(p).to(p)
            others[name] = torch.where(mask, other, p)
        return others


def _next_norm_by_module(subject: AuditSubject) -> dict[str, str]:
    """Return the normalizer that is handed what a module has just made, by its name."""
    names = {name for norms in find_norms(subject) for name in norms.module_names}
    pairs = subject.trace.calls_and_their_input_makers()
    return {maker.name: call.name for call, maker in pairs if maker and call.name in names}


def _idle_findings(
    subject: AuditSubject,
    idle: dict[str, tuple[int, int]],
    only_on_this_input: Collection[str],
    next_norms: dict[str, str],
) -> Findings:
    """Tell biases that cancel, parameters that are not used, and those of this input."""
    trace = subject.trace
    called = {call.name for call in trace.calls}
    active = {
        _owner_module_name(name)
        for name in subject.float64_copy_if_possible().parameters
        if name not in idle
    }
    biases: dict[str, int] = {}
    unused, some = [], []
    for name, (part, size) in idle.items():
        owner = _owner_module_name(name)
        share = "" if part == size else f" ({part} of {size})"
        if is_bias_name(name) and owner in called & active:
            remark = f" (before {next_norms[owner]})" if owner in next_norms else share
            biases[name + remark] = part
        elif share or name in only_on_this_input:
            some.append(name + share)
        else:
            unused.append(name)
    # another input or method may need what nothing is computed with
    parameters = trace.module.named_parameters()
    used = {name for name, p in parameters if p.untyped_storage()._cdata in trace.used}
    for severity, is_used in ((FAULT, True), (RISK, False)):
        names = [name for name in unused if (name in used) is is_used]
        has = count_with_noun(len(names), "parameter has", "parameters have")
        computed = ", although something is computed with them" if is_used else ""
        values = {"parameters": has, "computed": computed}
        yield make_finding("parameter-unused", names, severity, **values)
    numbers, several = (
        count_with_noun(sum(biases.values()), "number"),
        count_with_noun(len(biases), "bias", "biases"),
    )
    has = "has" if numbers == "1 number" else "have"
    yield make_finding("bias-without-effect", biases, biases=f"{numbers} of {several} {has}")
    yield make_finding("parameter-partly-unused", some)


# Examples of a batch that see each other in evaluation: an axis that was mistaken, most often.

CASES_TRIED = 0, 1
"""Two examples are tried, as one may have the largest value, which counts for all."""


def check_dependent_examples(subject: AuditSubject) -> Findings:
    """Find examples whose output changes, module by module, when the others become like them.

    It is evaluated in evaluation mode, where no statistics over examples are those of the
    batch.
    """
    batch_size = len(subject.x)
    if batch_size < 2:
        raise CannotCheck("the input has one example.")
    calls = _last_calls(subject.trace_with_statistics("running"))
    # to other inputs, masks say, each example has its own
    has_one_input = not any(n.startswith(GIVEN) for n, _ in subject.module.named_buffers())
    changes: dict[str, float] = {}
    by_index = 0.0
    for n in CASES_TRIED:
        others = _last_calls(subject.trace_with_statistics("running", example=n))
        for name in calls.keys() & others.keys():
            changes_of_example = [
                relative_max_change(b[n], a[n])
                for a, b in zip(calls[name].outputs, others[name].outputs, strict=False)
                if a.is_floating_point() and a.dim() and len(a) == batch_size == len(b)
                if a.shape == b.shape
            ]
            if changes_of_example:
                changes[name] = max(*changes_of_example, changes.get(name, 0.0))
        if "" in changes and has_one_input and not subject.is_random:
            # the inputs are equal now, and so are to be the outputs
            outputs = [v for v in others[""].outputs if v.dim() and len(v) == batch_size]
            by_index = max(
                by_index, *(relative_max_change(v, v[n].expand_as(v)) for v in outputs)
            )
    if "" not in changes:
        raise CannotCheck(
            "no output has one entry for each example; examples are the first axis of inputs."
        )
    if not math.isfinite(changes[""]):
        raise CannotCheck("the outputs are not finite.")
    rows = [{"part": name, "change": changes[name]} for name in calls if name in changes]
    subject.keep_table(rows)
    if subject.is_more_than_rounding(changes[""]):
        first = next(
            row["part"] for row in rows if subject.is_more_than_rounding(row["change"])
        )
        message = (
            f"in evaluation the output of an example changes by {changes['']:.2g} of its size "
            "when the others are replaced"
        )
        yield make_finding("examples-mix", [first], message=message)
    elif subject.is_more_than_rounding(by_index):
        message = (
            f"in evaluation outputs of equal examples differ by {by_index:.2g}, by their places"
        )
        yield make_finding("examples-mix", message=message)


def _last_calls(trace: CallTrace) -> dict[str, ModuleCall]:
    """Return the last call of each module, in the order of the computation, its own last."""
    return {call.name: call for call in trace.calls}


# Dead units: those that are shut in every example.

FEW_EXAMPLES = 16
"""Below so many examples a unit that is off in all may be on in the next, and a variance is off
by a third or more, one time in three."""


def check_dead_units(subject: AuditSubject) -> Findings:
    """Find units in front of an f that is flat in all examples of the input."""
    activations = list(_nonlinearity_calls_merged_by_name(subject))
    if not activations:
        raise CannotCheck("no nonlinearity of torch is called where it can be seen.")
    values = {a.name: _count_values_per_unit(a) for a in activations}
    dead = count_dead_units(activations)
    subject.keep_table(
        [
            {"where": name, "dead": n, "units": units, "examples": values[name]}
            for name, (n, units) in dead.items()
        ]
    )
    yield make_finding("layer-dead", [name for name, (n, units) in dead.items() if n == units])
    some = {name: of_units for name, of_units in dead.items() if of_units[0] < of_units[1]}
    n, units = (sum(column[i] for column in some.values()) for i in (0, 1))
    is_one_example = bool((subject.x == subject.x[:1]).all())
    least = 1 if is_one_example else min(map(_count_values_per_unit, activations))
    where = [f"{name} ({n} of {units})" for name, (n, units) in some.items()]
    severity = RISK if least >= FEW_EXAMPLES and n >= 0.25 * units else FACT
    yield make_finding("units-dead", where, severity, dead=n, units=units, least=least)


def _nonlinearity_calls_merged_by_name(
    subject: AuditSubject,
) -> Iterator[NonlinearityOrNormCall]:
    """Yield the calls of nonlinearities whose flat places are known, each with its own name.

    Those of a module that is called again and again, a recurrent cell, are one: its units are
    dead if they are so in each call. Of several in one forward method each is numbered.
    """
    module_calls = Counter(call.name for call in subject.trace.calls)
    by_name: dict[str, list[NonlinearityOrNormCall]] = {}
    for a in subject.outputs_and_activations().nonlinearity_and_norm_calls:
        if a.is_flat is not None:
            by_name.setdefault(a.name, []).append(a)
    for name, same in by_name.items():
        module = name.rpartition(": ")[0]
        flat = [a.is_flat for a in same if a.is_flat is not None]
        if len(same) == module_calls[module] and len({v.shape[1:] for v in flat}) == 1:
            yield same[0]._replace(is_flat=torch.cat(flat))
        else:
            numbered = enumerate(same, 1)
            yield from (a._replace(name=f"{name}, call {n}") for n, a in numbered)


def _count_values_per_unit(activation: NonlinearityOrNormCall) -> int:
    """Return the number of values of one unit that were seen."""
    flat = activation.is_flat
    assert flat is not None
    units = flat.shape[1] if flat.dim() == 4 else flat.shape[-1]
    return flat.numel() // max(units, 1)


# Running statistics: whether evaluation is what was trained.

APART = 0.5
"""Running statistics no longer describe a batch whose typical unit is this far away (in their
sigmas), or whose variance is larger or smaller by this power of e."""


def check_running_statistics(subject: AuditSubject) -> Findings:
    """Find how far running statistics are from those of this input, and what it costs."""
    if not find_norms_with_running_statistics(subject.module):
        raise CannotCheck(_describe_missing_running_statistics(subject))
    if subject.bn_stats != "batch":
        raise CannotCheck("the module cannot be evaluated as in training on this input.")
    norms = {id(module) for module in find_norms_with_running_statistics(subject.trace.module)}
    others = find_norms_with_other_statistics(subject)
    calls = [
        call
        for call in subject.first_calls
        if id(call.module) in norms
        and hasattr(call.module, "running_var")
        and call.name not in others
    ]
    rows = [row for row in map(_running_statistics_row, calls) if row]
    in_training = {call.name for call in calls if call.is_training}
    # that no batch changes them is said once, by the check of both modes
    stuck = find_stuck_running_statistics(subject)
    followed = [row for row in rows if row["where"] not in stuck]
    gap = relative_max_change(
        subject.outputs_and_activations("running").y, subject.outputs_and_activations("batch").y
    )
    subject.keep_table(rows, f"evaluation differs by {gap:.2g}.")
    used = [row for row in rows if row["where"] in in_training]
    least = min((row["values a unit"] for row in used), default=0)
    given = dict(subject.given.named_modules())
    # in training mode as given: the audit sets this mode itself
    single = {
        call.name
        for call in calls
        if len(subject.x) == len(call.inputs[0]) == 1
        and call.name in given
        and given[call.name].training
    }
    few = [
        row["where"]
        for row in used
        if row["values a unit"] < FEW_EXAMPLES or row["where"] in single
    ]
    of_one = ", all of one example" if single else ""
    yield make_finding("statistics-of-few", few, least=least, of_one=of_one)
    fresh = [row["where"] for row in followed if row["as at the start"]]
    if math.isfinite(gap) and subject.is_more_than_rounding(gap):
        yield make_finding("running-statistics-fresh", fresh, gap=gap)
    factors = {row["where"]: row["variance off by a factor"] for row in followed}
    stale = [
        row["where"]
        for row in followed
        if not row["as at the start"]
        # not `>`: NaN, which one bad batch leaves for good, is far from any batch
        and not (
            row["mean off by (sigma)"] <= APART and factors[row["where"]] <= math.exp(APART)
        )
    ]
    worst = three_significant_digits(
        max(factors.values(), key=lambda v: math.inf if math.isnan(v) else v, default=1.0)
    )
    dropout = "dropout, which is off here, enlarged the variance, " if subject.dropout else ""
    yield make_finding(
        "running-statistics-stale",
        stale,
        worst=worst.replace("nan", "NaN: a batch was not finite"),
        gap=f"{gap:.0%}" if math.isfinite(gap) else "NaN",
        dropout=dropout,
    )


def _describe_missing_running_statistics(subject: AuditSubject) -> str:
    """Return that no norm was found that keeps statistics, and whether evaluation differs."""
    why = "no normalizer of torch or lnlab that keeps running statistics was found"
    if subject.bn_stats != "batch":
        return f"{why}."
    evaluation, training = map(subject.outputs_and_activations, ("running", "batch"))
    gap = relative_max_change(evaluation.y, training.y)
    return f"{why}; evaluation differs by {gap:.2g} all the same." if gap > 1e-3 else f"{why}."


def _running_statistics_row(call: ModuleCall) -> dict | None:
    a, module = call.inputs[0], call.module
    mu, var, m = batch_moments(a, getattr(module, "unit_axis", 1))
    mean, spread = module.get_buffer("running_mean"), module.get_buffer("running_var")
    if mean.shape != mu.shape:
        return None
    shift = ((mu - mean).abs() / (spread + 1e-12).sqrt()).median()
    ratio = ((var + 1e-12) / (spread + 1e-12)).log().abs().median()
    return {
        "where": call.name,
        "as at the start": not bool(mean.any()) and bool((spread == 1).all()),
        "values a unit": m,
        "mean off by (sigma)": float(shift),
        "variance off by a factor": float(ratio.exp()),
    }
