"""Checks of structure: normalizers, parameters without effect, cases that see each other."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from lnlab.analysis.activations import Activation, dead_units, is_known_norm
from lnlab.analysis.magnitudes import max_abs, relative_change
from lnlab.analysis.module_copy import (
    ModuleCopy,
    Replacement,
    batch_norms,
    copy_module,
    deepcopy_module,
)
from lnlab.analysis.norm_identity import NOTHING, ROLES
from lnlab.analysis.random import normal
from lnlab.auditing.finding import (
    CannotCheck,
    Finding,
    Severity,
    count,
    digits,
    list_names,
    make_finding,
)
from lnlab.auditing.norms import NormGroup, eps_of, find_norms
from lnlab.auditing.subject import (
    AuditSubject,
    CallTrace,
    ModuleCall,
    is_bias,
    other_input,
    padding_rows,
    random_projection,
    restored_random_state,
    turn_dropout_off,
    zero_weights,
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

PROMISES = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm", "InstanceNorm")
"""The operators of torch.nn that a class name may promise."""

FUNCTIONS = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm")

STEEP = 1e-6
"""An eps below this lets a constant case multiply gradients by more than 1000."""

OVER_CASES = re.compile(r"statistics over ax[ei]s 0\b")
"""The words of identify_norm for statistics that run over the cases of a batch."""

SILENT = 1e-3
"""A gain that is this fraction of the largest one switches its unit off."""


def check_normalizers(subject: AuditSubject) -> list[Finding]:
    """Find the normalizers, and what of each differs from what its name promises."""
    groups = find_norms(subject)
    subject.show([_norm_row(norms) for norms in groups])
    findings = _merge(finding for norms in groups for finding in _norm_findings(norms))
    findings += _merge(finding for norms in groups for finding in _differences(norms))
    findings += [*_eps_decides(groups), *_gains_off(groups)]
    known = {name for norms in groups for name in norms.names}
    for function, callers in functional_calls(subject).items():
        if callers := [name for name in callers if name not in known]:
            norm = function.title().replace("_", "")
            message = f"calls F.{function} itself"
            findings.append(make_finding("norm-as-function", callers, message, norm=norm))
    if not groups and not findings:
        message = f"no part of {subject.name} is a normalizer"
        findings.append(make_finding("no-norm", [], message))
    return findings


def functional_calls(subject: AuditSubject) -> dict[str, list[str]]:
    """Return the modules that call each normalizing function of torch themselves."""
    modules = dict(subject.module.named_modules())
    callers: dict[str, list[str]] = {}
    for function, name in subject.trace.functions:
        if function in FUNCTIONS and not is_known_norm(modules[name]):
            callers.setdefault(function, []).append(name)
    return callers


def _norm_row(norms: NormGroup) -> dict:
    properties = norms.properties
    return {
        "where": list_names(norms.names, 2),
        "how many": len(norms.calls),
        "class": norms.kind,
        "is": norms.report.kind if norms.report else f"not found out: {norms.why}",
        "statistics over": properties.get("statistics over", properties.get("statistics", "")),
        "variance": properties.get("variance", properties.get("mean square", "")),
        "eps": properties.get("eps", ""),
    }


def _norm_findings(norms: NormGroup) -> Iterator[Finding]:
    if norms.report is None:
        return
    if norms.report.kind != NOTHING:
        yield from _misnamed(norms, norms.report.kind)
        yield from _missing_or_small_eps(norms)
    elif not is_known_norm(norms.module):
        yield _name_alone(norms)


def _name_alone(norms: NormGroup) -> Finding:
    """A class that is called a normalizer and computes no (x - mu) / sigma."""
    computes = "; ".join(f"{what} {found}" for what, found in norms.properties.items())
    if computes.startswith("statistics none"):
        message = f"{norms.kind} takes no statistics of its input"
        return make_finding("norm-without-statistics", norms.names, message)
    mixes = OVER_CASES.match(computes) and _promise(norms) not in (None, "BatchNorm")
    rule = "norm-mixes-cases" if mixes else "norm-of-another-form"
    severity = None if _promise(norms) else FACT
    message = f"{norms.kind} is no normalizer of torch.nn: {computes}"
    return make_finding(rule, norms.names, message, severity)


def _promise(norms: NormGroup) -> str | None:
    """Return the operator of torch.nn that the name of a class, or of a base, promises."""
    names = [kind.__name__.replace("_", "").lower() for kind in type(norms.module).__mro__]
    promises = (p for name in names for p in PROMISES if p.lower() in name)
    return next(promises, None)


def _misnamed(norms: NormGroup, kind: str) -> Iterator[Finding]:
    """A class that promises one operator and is another."""
    promise = _promise(norms)
    if promise is None or is_known_norm(norms.module) or promise in kind:
        return
    # of as many groups as units, or of one
    special = {"GroupNorm": ("InstanceNorm", "LayerNorm"), "LayerNorm": ("GroupNorm(1)",)}
    if not kind.startswith(special.get(promise, ("none",))):
        message = f"{norms.kind} computes {kind}"
        yield make_finding("norm-misnamed", norms.names, message, promise=promise)


def _merge(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that mean the same, of normalizers of several sizes."""
    alike: dict[tuple, list[Finding]] = {}
    for f in findings:
        alike.setdefault((f.rule, f.severity, f.meaning, f.advice), []).append(f)
    return [
        replace(
            same[0],
            where=list_names([f.where for f in same], separator="; "),
            message=list_names([f.message for f in same], separator="; "),
        )
        for same in alike.values()
    ]


def _differences(norms: NormGroup) -> Iterator[Finding]:
    """The properties that are otherwise than in torch, each by itself."""
    if norms.report is None or norms.report.kind == NOTHING:
        return
    for f in norms.report.properties:
        if not f.wrong or f.name.startswith("differs"):
            continue
        if (f.found, _promise(norms)) == ("kept", "RMSNorm"):  # the mean, as promised
            continue
        rule, severity = DIFFERENCES.get(f.name, "norm-differs"), None
        if f.name == "variance" and "unbiased" not in f.found:
            rule = "norm-differs"
        if f.name == "eps" and "at least" in f.found:
            rule = "eps-floor"
        if f.found.startswith(f"{f.torch} of") and " parts" in f.found:
            rule = "norm-misnamed"  # of groups of the right axis, as in Mamba-2
        if f.name == "evaluation" and "own batch" in f.found:
            # the same in both modes: a fault where no batch is promised; see check_mixed_cases
            if is_known_norm(norms.module) or _promise(norms) is None:
                continue
            rule = "norm-differs" if _promise(norms) == "BatchNorm" else "norm-mixes-cases"
        if rule == "norm-differs" and (
            _promise(norms) is None or f.found.startswith(ROLES["gain, 1 + "])
        ):
            severity = FACT
        message = f"{norms.kind}: {f.name} {f.found}, not {f.torch}"
        kind = norms.report.kind
        promise = _promise(norms) or kind
        yield make_finding(rule, norms.names, message, severity, kind=kind, promise=promise)


def _missing_or_small_eps(norms: NormGroup) -> Iterator[Finding]:
    """No eps at all, or one so small that a constant case has a steep gradient."""
    words = norms.properties.get("eps", "")
    if words == "none":
        nan = _nan_at_a_constant(norms.calls[0])
        severity, result = (FAULT, ": the output is NaN") if nan else (RISK, "")
        message = f"{norms.kind} has no eps"
        yield make_finding("eps-missing", norms.names, message, severity, result=result)
        return
    eps = float(words.split()[0]) if words[:1].isdigit() else 1.0
    if eps < STEEP:
        factor = digits(1 / eps if "sigma" in words else eps**-0.5)
        in_half = "0" if eps < 3e-8 else "hardly there"
        message = f"eps is {digits(eps)}, torch's own 1e-5"
        where = norms.names
        yield make_finding("eps-small", where, message, factor=factor, in_half=in_half)


def _nan_at_a_constant(call: ModuleCall) -> bool:
    """Return True if a constant input comes out as NaN or infinite."""
    x = call.inputs[0]
    module = copy_module(call.module).to(x.dtype).train()
    with torch.no_grad(), restored_random_state():
        try:
            return not bool(module(torch.ones_like(x)).isfinite().all())
        except Exception:  # a user's module may raise anything
            return False


def _eps_decides(groups: list[NormGroup]) -> Iterator[Finding]:
    """An eps that is not small beside what the normalizers are given."""
    calls = [(norms, call) for norms in groups for call in norms.calls]
    shares = {call.name: _share_below(norms, call) for norms, call in calls}
    shares = {name: share for name, share in shares.items() if share > 0}
    if shares:
        worst = max(shares.values())
        severity = RISK if worst > 0.01 else FACT
        share = f"{worst:.0%}" if worst > 0.01 else "1%"
        message = f"up to {share} of the statistics have a variance below eps"
        yield make_finding("eps-decides", list(shares), message, severity)


def _share_below(norms: NormGroup, call: ModuleCall) -> float:
    """Return the fraction of the statistics of a call whose variance is below eps."""
    eps, report = eps_of(call.module), norms.report
    if report is None or report.kind == NOTHING or report.over is None or not eps > 0:
        return 0.0
    a, axes = report.over.grouped(call.inputs[0]), report.over.grouped_axes
    square = a.square().mean(axes) if report.kind == "RMSNorm" else a.var(axes, correction=0)
    return float((square < eps).double().mean())


def _gains_off(groups: list[NormGroup]) -> Iterator[Finding]:
    """Units that learned gains have switched off."""
    off: dict[str, tuple[int, int]] = {}
    for call in [call for norms in groups for call in norms.calls]:
        gains = (getattr(call.module, n, None) for n in ("weight", "g", "gamma"))
        g = next((g for g in gains if g is not None), None)
        if isinstance(g, Tensor) and g.dim() == 1 and bool(g.detach().any()):
            size = g.detach().double().abs()
            silent = int((size < SILENT * size.max()).sum())
            if silent:
                off[call.name] = silent, len(g)
    if off:
        silent, units = (sum(column) for column in zip(*off.values(), strict=True))
        message = f"{silent} of {units} gains are below {SILENT:g} of the largest"
        yield make_finding("gains-off", list(off), message)


# Parameters on which nothing depends: a bias in front of a normalizer, most often.

SMALL_GRADIENT = 1e-9
"""A gradient below this fraction of its parameter's largest, or of the largest of all, may
belong to what nothing depends on: it is then tried. In float32 rounding leaves a larger one."""

RANDOM_STATES = 8
"""The states an effect is looked for from, where a module draws random numbers."""


def check_idle_parameters(subject: AuditSubject) -> list[Finding]:
    """Find numbers of parameters that can be anything, as far as a training batch tells."""
    nonzero = subject.without_zeros
    grads = _by_parameter(nonzero)
    masks = _flat_places(grads, subject.exact)
    rounded = any(bool(grads[name][mask].any()) for name, mask in masks.items())
    states = list(product(range(RANDOM_STATES), (1, 100) if rounded else (1, 1)))
    tries = states if subject.is_random else states[:2]
    effects = ParameterEffects(subject, nonzero.copy(), tries)
    if not subject.is_random:
        effects.unchanged[0] = nonzero.seen().y
    names = effects.without_effect(masks)
    if names and subject.noise:  # what is turned off may need them
        noisy = deepcopy_module(subject.original, share=True)
        turn_dropout_off(noisy)
        noisy = ModuleCopy(noisy, subject.x, bn_stats="batch", read=subject.read)
        names = ParameterEffects(subject, noisy, states).without_effect(
            {n: masks[n] for n in names}
        )
    idle = {name: (int(masks[name].sum()), masks[name].numel()) for name in names}
    # without effect on this input, and with one on another
    whole = {name: masks[name] for name in names if masks[name].all()}
    other = other_input(effects.evaluated.x)
    unseen = ParameterEffects(subject, effects.evaluated, tries, other).without_effect(whole)
    here = [name for name in whole if name not in unseen]
    norms = _next_norms(subject)
    subject.show(
        [
            {"parameter": name, "without effect": n, "of": size, "in front of": norm}
            for name, (n, size) in idle.items()
            for norm in [norms.get(_owner(name), "")]
        ]
    )
    findings = list(_idle_findings(subject, idle, here, norms))
    findings += _cut_findings(subject, effects.evaluated, grads, idle)
    if nonzero is not subject:
        flat = _flat_places(_by_parameter(subject), subject.exact)
        waiting = [
            n for n, m in flat.items() if m.all() and not (n in masks and masks[n].all())
        ]
        findings += _behind_zeros(subject, [name for name in waiting if name not in idle])
    return findings


MOST_CUT = 16
"""Parameters that are tried for an effect without a gradient."""


def _cut_findings(
    subject: AuditSubject,
    evaluated: ModuleCopy,
    grads: dict[str, Tensor],
    idle: Collection[str],
) -> Iterator[Finding]:
    """Parameters without a gradient whose change by a hundredth changes the outputs."""
    names = [
        name
        for name, g in grads.items()
        if not g.any() and name not in idle and subject.trainable.get(name)
    ]
    masks = {n: torch.ones_like(grads[n], dtype=torch.bool) for n in names[:MOST_CUT]}
    for name, row in padding_rows(subject.module).items():
        if name in masks:
            masks[name][row] = False
    without = ParameterEffects(subject, evaluated, [(0, 0.01)]).without_effect(masks)
    cut = [name for name in masks if name not in without]
    if cut:
        has = "has" if len(cut) == 1 else "have"
        message = f"{count(len(cut), 'parameter')} {has} an effect and no gradient"
        yield make_finding("gradient-cut", cut, message)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _by_parameter(subject: AuditSubject) -> dict[str, Tensor]:
    """Return the gradients of a random function of the outputs by parameters with numbers."""
    return {name: g for name, g in subject.gradients.items() if name and g.numel()}


def _flat_places(grads: dict[str, Tensor], exact: float) -> dict[str, Tensor]:
    """Return the places of each parameter where its gradient may be rounding, if it has some.

    Of a matrix all or none: single numbers are those of words that did not occur, and of dead
    units.
    """
    sizes = {name: max_abs(g) for name, g in grads.items()}
    largest = max(sizes.values(), default=0.0)
    small = max(SMALL_GRADIENT, exact / 10)
    limits = {name: small * max(size, 1e-6 * largest) for name, size in sizes.items()}
    flat = {
        name: g.abs() <= limits[name]
        for name, g in grads.items()
        if g.dim() < 2 or sizes[name] <= limits[name]
    }
    return {name: mask for name, mask in flat.items() if mask.any()}


class ParameterEffects:
    """The effects of parameters on the outputs.

    Args:
        subject: says what is rounding.
        evaluated: a copy.
        tries: a random state each, and the size of the change in units of the parameter's own.
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

    def without_effect(
        self, masks: dict[str, Tensor], *, by_gradient: bool = True
    ) -> list[str]:
        """Return the parameters whose masked numbers can be replaced without any change.

        All are replaced at once. Where that moves the outputs, those that have a gradient then
        are left out (units that were dead, say), or each half is tried by itself.
        """
        if not masks or not self._are_seen(masks):
            return list(masks)
        half = len(masks) // 2
        if not half:
            return []
        if by_gradient and not self.subject.is_random:
            new = Replacement(self.x, self._replaced(masks, 0))
            grads = self.evaluated.gradients(random_projection, new)
            flat = _flat_places(grads, self.subject.exact)
            rest = {n: m for n, m in masks.items() if n in flat and not (m & ~flat[n]).any()}
            if len(rest) < len(masks):
                return self.without_effect(rest)
        items = list(masks.items())
        parts = items[:half], items[half:]
        return [n for part in parts for n in self.without_effect(dict(part), by_gradient=False)]

    def _are_seen(self, masks: dict[str, Tensor]) -> bool:
        """Return True if the outputs move when the masked numbers are replaced."""
        for draw, (state, _) in enumerate(self.tries):
            with restored_random_state(state):
                if state not in self.unchanged:
                    self.unchanged[state] = self.evaluated.run(Replacement(self.x)).y
            with restored_random_state(state):
                new = Replacement(self.x, self._replaced(masks, draw))
                changed = self.evaluated.run(new).y
            if self.subject.has_moved(relative_change(changed, self.unchanged[state])):
                return True
        return False

    def _replaced(self, masks: dict[str, Tensor], draw: int) -> dict[str, Tensor]:
        others = {}
        for name, mask in masks.items():
            p = self.evaluated.parameters[name].data
            size = self.tries[draw][1] * (float(p.abs().mean()) or 1.0)
            # up and down: a bias may shut a unit that a later normalizer lets shift
            size *= (-1) ** draw
            other = p + size * normal(9, draw // 2, p.numel()).view_as(p).to(p)
            others[name] = torch.where(mask, other, p)
        return others


def _next_norms(subject: AuditSubject) -> dict[str, str]:
    """Return the normalizer that is handed what a module has just made, by its name."""
    names = {name for norms in find_norms(subject) for name in norms.names}
    makers: dict[int, str] = {}  # by the memory of what they made
    following: dict[str, str] = {}
    for call in subject.trace.calls:
        if call.name in names and call.input_memory:
            maker = makers.get(call.input_memory[0])
            if maker is not None:
                following[maker] = call.name
        if not any(call.module.children()):
            makers |= dict.fromkeys(call.output_memory, call.name)
    return following


def _idle_findings(
    subject: AuditSubject,
    idle: dict[str, tuple[int, int]],
    here: Collection[str],
    norms: dict[str, str],
) -> Iterator[Finding]:
    """Tell biases that cancel, parameters that are not used, and those of this input."""
    called = {call.name for call in subject.trace.calls}
    active = {_owner(name) for name in subject.copy().parameters if name not in idle}
    biases: dict[str, str] = {}
    unused, some = [], []
    for name, (part, size) in idle.items():
        owner = _owner(name)
        share = "" if part == size else f" ({part} of {size})"
        if is_bias(name) and owner in called & active:
            biases[name] = f" (before {norms[owner]})" if owner in norms else share
        elif share or name in here:
            some.append(name + share)
        else:
            unused.append(name)
    # another input or method may need what nothing is computed with
    trace = subject.trace
    parameters = trace.module.named_parameters()
    used = {name for name, p in parameters if p.untyped_storage()._cdata in trace.used}
    groups = {
        FAULT: [n for n in unused if n in used],
        RISK: [n for n in unused if n not in used],
    }
    for severity, names in groups.items():
        has = "has" if len(names) == 1 else "have"
        message = f"{count(len(names), 'parameter')} {has} no effect at all on what is returned"
        if names:
            yield make_finding("parameter-unused", names, message, severity)
    if biases:
        numbers = count(sum(idle[name][0] for name in biases), "number")
        where = [name + remark for name, remark in biases.items()]
        has = "has" if numbers == "1 number" else "have"
        message = f"{numbers} of {count(len(biases), 'bias', 'biases')} {has} no effect"
        yield make_finding("bias-without-effect", where, message)
    if some:
        message = "these parameters, or some of their numbers, have no effect on this input"
        yield make_finding("parameter-partly-unused", some, message)


def _behind_zeros(subject: AuditSubject, waiting: Collection[str]) -> Iterator[Finding]:
    """The parameters that get no gradient yet, for what they feed is 0."""
    if waiting and zero_weights(subject.module):
        has = "has" if len(waiting) == 1 else "have"
        parameters = count(len(waiting), "parameter")
        message = f"all 0: {parameters} in front of these {has} no effect yet"
        yield make_finding("branch-of-zeros", zero_weights(subject.module), message)


# Cases of a batch that see each other in evaluation: an axis that was mistaken, most often.

CASES_TRIED = 0, 1
"""Two cases are tried, as one may have the largest value, which counts for all."""


def check_mixed_cases(subject: AuditSubject) -> list[Finding]:
    """Find cases whose output changes, module by module, when the others become like them.

    Evaluation is asked, where no statistics over cases are those of the batch.
    """
    if len(subject.x) < 2:
        raise CannotCheck("the input has one example.")
    calls = _last_calls(subject.trace_as("running"))
    # to other inputs, masks say, each case has its own
    alone = not any(n.startswith("_given_") for n, _ in subject.module.named_buffers())
    changes: dict[str, float] = {}
    places = 0.0
    for n in CASES_TRIED:
        others = _last_calls(subject.trace_as("running", case=n))
        for name in calls.keys() & others.keys():
            change = _change_of_case(calls[name], others[name], n, len(subject.x))
            if change is not None:
                changes[name] = max(change, changes.get(name, 0.0))
        if "" in changes and alone and not subject.is_random:
            # they are equal now, and so are to be their outputs
            outputs = [v for v in others[""].outputs if v.dim() and len(v) == len(subject.x)]
            places = max(places, *(relative_change(v, v[n].expand_as(v)) for v in outputs))
    if "" not in changes:
        raise CannotCheck(
            "no output has one entry for each example; examples are the first axis of inputs."
        )
    if not math.isfinite(changes[""]):
        raise CannotCheck("the outputs are not finite.")
    rows = [{"part": name, "moved": changes[name]} for name in calls if name in changes]
    subject.show(rows)
    if subject.has_moved(changes[""]):
        first = next(row["part"] for row in rows if subject.has_moved(row["moved"]))
        message = (
            f"in evaluation the output of a case moves by {changes['']:.2g} of its size when "
            "the others are replaced"
        )
        return [make_finding("cases-mix", [first], message)]
    if subject.has_moved(places):
        message = (
            f"in evaluation outputs of equal cases differ by {places:.2g}, by their places"
        )
        return [make_finding("cases-mix", [], message)]
    return []


def _last_calls(trace: CallTrace) -> dict[str, ModuleCall]:
    """Return the last call of each module, in the order of the computation, its own last."""
    return {call.name: call for call in trace.calls}


def _change_of_case(
    one: ModuleCall, other: ModuleCall, case: int, batch_size: int
) -> float | None:
    """Return the change of what a module made of one example; None if there is none."""
    changes = [
        relative_change(b[case], a[case])
        for a, b in zip(one.outputs, other.outputs, strict=False)
        if a.is_floating_point() and a.dim() and len(a) == batch_size and a.shape == b.shape
    ]
    return max(changes, default=None)


# Dead units: those that are shut in every case.

FEW_CASES = 16
"""Below so many cases a unit that is shut in all may open in the next, and a variance is off by
a third or more, one time in three."""


def check_dead_units(subject: AuditSubject) -> list[Finding]:
    """Find units in front of an f that is flat in all cases of the input."""
    activations = [a for a in subject.seen().activations if a.flat is not None]
    if not activations:
        raise CannotCheck("no nonlinearity of torch is called where it can be seen.")
    values = {a.name: _values_a_unit(a) for a in reversed(activations)}
    dead = dead_units(activations)
    subject.show(
        [
            {"where": name, "dead": n, "units": units, "cases": values[name]}
            for name, (n, units) in dead.items()
        ]
    )
    findings = []
    whole = [name for name, (n, units) in dead.items() if n == units]
    some = {name: value for name, value in dead.items() if name not in whole}
    if whole:
        findings.append(make_finding("layer-dead", whole, "every unit is shut in every case"))
    if some:
        n, units = (sum(column) for column in zip(*some.values(), strict=True))
        is_one_case = bool((subject.x == subject.x[:1]).all())
        least = 1 if is_one_case else min(map(_values_a_unit, activations))
        where = [f"{name} ({n} of {units})" for name, (n, units) in some.items()]
        message = (
            f"{n} of {units} units are shut in all cases ({least} values of each at least)"
        )
        rule = "units-dead-in-few" if least < FEW_CASES else "units-dead"
        severity = RISK if least >= FEW_CASES and n >= 0.25 * units else FACT
        findings.append(make_finding(rule, where, message, severity))
    return findings


def _values_a_unit(activation: Activation) -> int:
    """Return the number of values of one unit that were seen."""
    flat = activation.flat
    assert flat is not None
    units = flat.shape[1] if flat.dim() == 4 else flat.shape[-1]
    return flat.numel() // max(units, 1)


# Running statistics: whether evaluation is what was trained.

APART = 0.5
"""Running statistics no longer describe a batch whose typical unit is this far away (in their
sigmas), or whose variance is larger or smaller by this power of e."""


def check_running_statistics(subject: AuditSubject) -> list[Finding]:
    """Find how far running statistics are from those of this input, and what it costs."""
    if not batch_norms(subject.module):
        raise CannotCheck("no part remembers statistics over cases.")
    if subject.bn_stats != "batch":
        raise CannotCheck("the module cannot be evaluated as in training on this input.")
    rows = []
    wanted = {id(module) for module in batch_norms(subject.trace.module)}
    for call in subject.first_calls:
        if id(call.module) in wanted and hasattr(call.module, "running_var"):
            rows += _running_row(call)
    gap = relative_change(subject.seen("running").y, subject.seen("batch").y)
    subject.show(rows, f"evaluation differs by {gap:.2g}.")
    return list(_running_findings(rows, gap))


def _running_row(call: ModuleCall) -> Iterator[dict]:
    a, module = call.inputs[0], call.module
    mu, var, m = batch_moments(a, getattr(module, "unit_axis", 1))
    mean, spread = module.get_buffer("running_mean"), module.get_buffer("running_var")
    if mean.shape == mu.shape:
        shift = ((mu - mean).abs() / (spread + 1e-12).sqrt()).median()
        ratio = ((var + 1e-12) / (spread + 1e-12)).log().abs().median()
        yield {
            "where": call.name,
            "as at the start": not bool(mean.any()) and bool((spread == 1).all()),
            "values a unit": m,
            "mean off by (sigma)": float(shift),
            "variance off by a factor": float(ratio.exp()),
        }


def _running_findings(rows: list[dict], gap: float) -> Iterator[Finding]:
    few = [r["where"] for r in rows if r["values a unit"] < FEW_CASES]
    if few:
        least = min(r["values a unit"] for r in rows)
        yield make_finding("statistics-of-few", few, f"statistics of {least} values")
    fresh = [r["where"] for r in rows if r["as at the start"]]
    if fresh and math.isfinite(gap):
        message = "no batch has been seen yet"
        yield make_finding("running-statistics-fresh", fresh, message, gap=gap)
    stale = [r["where"] for r in rows if r["where"] not in fresh and _is_stale(r)]
    if stale:
        worst = max(r["variance off by a factor"] for r in rows)
        message = (
            "the remembered statistics are not those of this input (variance off by a factor "
            f"of up to {digits(worst)}); outputs in evaluation differ by {gap:.0%}"
        )
        yield make_finding("running-statistics-stale", stale, message)


def _is_stale(row: dict) -> bool:
    factor = math.log(max(row["variance off by a factor"], 1))
    return row["mean off by (sigma)"] > APART or factor > APART
