"""The normalizers that there are, and whether each is what its name says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from lnlab.analysis.conformance import NOTHING, Report
from lnlab.analysis.module_copy import untouched
from lnlab.analysis.subject import NORMALIZERS
from lnlab.audit.audited import Audited, undrawn
from lnlab.audit.finding import Finding, Result, Severity, listed, number
from lnlab.audit.normalizers import Found, eps_of, normalizers
from lnlab.audit.watched import Visit

PROMISES = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm", "InstanceNorm")
"""The operators of torch.nn that a class name may promise, the longest match first."""

STEEP = 1e-6
"""An eps below this lets a constant case multiply gradients by more than 1000."""

ALONG_CASES = re.compile(r"statistics over ax[ei]s 0\b")
"""The words of conformance for statistics that run over the cases of a batch."""

SILENT = 1e-3
"""A gain that is this fraction of the largest one switches its unit off."""


def check(audited: Audited) -> Result:
    """The normalizers, and what of each differs from the operator that its name promises."""
    found = normalizers(audited)
    findings = [finding for each in found for finding in _findings(each)]
    findings += _merged(finding for each in found for finding in _differences(each))
    findings += _functional(audited)
    if not found and not findings:
        findings.append(
            Finding(
                Severity.FACT, "", f"no part of {audited.name} is a normalizer",
                "its signals keep whatever scale the weights give them.",
                "watch the scale over depth below; a start that keeps it matters more here.",
            )
        )  # fmt: skip
    return Result(tuple(findings), tuple(map(_row, found)))


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for those that mean the same, of normalizers of several sizes."""
    alike: dict[tuple, list[Finding]] = {}
    for f in findings:
        alike.setdefault((f.severity, f.means, f.do), []).append(f)
    return [
        replace(
            same[0],
            where="; ".join(dict.fromkeys(f.where for f in same)),
            seen="; ".join(dict.fromkeys(f.seen for f in same)),
        )
        for same in alike.values()
    ]


def _row(found: Found) -> dict:
    report = found.report
    said = {f.what: f.found for f in report.findings} if report else {}
    return {
        "where": listed(found.names, 2),
        "how many": len(found.visits),
        "class": found.kind,
        "is": report.kind if report else f"not found out: {found.why}",
        "statistics over": said.get("statistics over", said.get("statistics", "")),
        "variance": said.get("variance", said.get("mean square", "")),
        "eps": said.get("eps", ""),
    }


def _findings(found: Found) -> Iterator[Finding]:
    where, report, part = listed(found.names), found.report, found.visits[0].part
    if report is None:
        return
    if report.kind == NOTHING:
        if not isinstance(part, NORMALIZERS):
            yield _in_name_alone(found, where, report)
        return
    yield from _name(found, where, report)
    yield from _eps(found, where, report)
    yield from _beside_the_data(found)
    yield from _gains(found)


def _in_name_alone(found: Found, where: str, report: Report) -> Finding:
    """A class that is called a normalizer and computes no (x - mu) / sigma."""
    said = "; ".join(f"{f.what} {f.found}" for f in report.findings)
    if said.startswith("statistics none"):
        return Finding(
            Severity.FACT, where, f"{found.kind} takes no statistics of its input",
            "it is called a normalizer and is none in the sense of eq. 5: no invariance "
            "follows from it.",
            "expect the scale of its input to matter.",
        )  # fmt: skip
    mixes = "batch" not in found.kind.lower() and bool(ALONG_CASES.match(said))
    return Finding(
        Severity.FAULT if mixes else Severity.RISK, where,
        f"{found.kind} is no normalizer of torch.nn: {said}",
        "what comes out of a case depends on the others of its batch."
        if mixes
        else "it is called a normalizer and is none in the sense of eq. 5.",
        "take mean and variance over the same axes, and divide by the root of variance + eps.",
    )  # fmt: skip


def _name(found: Found, where: str, report: Report) -> Iterator[Finding]:
    """A class that promises one operator and is another."""
    name = found.kind.replace("_", "").lower()
    promise = next((p for p in PROMISES if p.lower() in name), None)
    own = isinstance(found.visits[0].part, NORMALIZERS)  # a GroupNorm of one group, say
    if promise and not own and promise not in report.kind:
        one = promise == "LayerNorm" and report.kind == "GroupNorm(1)"
        if not one:
            yield Finding(
                Severity.RISK, where, f"{found.kind} computes {report.kind}",
                f"it is called {promise} and has other invariances.",
                f"rename it, or write nn.{promise} if that was meant.",
            )  # fmt: skip


ADVICE = {
    "statistics over": (
        Severity.FAULT,
        "the statistics mix what should be kept apart: another axis is normalized than the "
        "one that gains stand along.",
        "take mean and variance over the axes that torch's operator takes.",
    ),
    "statistics": (
        Severity.FAULT,
        "places of one axis are normalized differently.",
        "normalize all of them alike.",
    ),
    "evaluation": (
        Severity.FAULT,
        "evaluation is not the function that was trained.",
        "keep running statistics, or let both modes compute the same.",
    ),
    "float32 at mean 1e4": (
        Severity.RISK,
        "the variance is a difference of two large numbers, of which float32 keeps nothing "
        "where the mean is large.",
        "subtract the mean first, or use torch.var(correction=0).",
    ),
    "variance": (
        Severity.RISK,
        "its outputs are smaller than torch's by sqrt((N-1)/N), and weights trained with one "
        "do not fit the other.",
        "use var(correction=0).",
    ),
    "eps": (
        Severity.RISK,
        "eps acts on sigma and not on the variance: where the spread is small the outputs "
        "differ from torch's.",
        "put eps inside the root: (var + eps).sqrt().",
    ),
}
"""The meaning of a defect of conformance, and what to do."""


FLOOR = (
    Severity.FACT,
    "there is no eps, but sigma is never below this floor, as F.normalize has it: it acts on "
    "cases of zeros alone.",
    "nothing; mind that torch's operator has another result where its input is small.",
)
"""The same of a floor under sigma."""


def _differences(found: Found) -> Iterator[Finding]:
    """The findings of conformance that are otherwise than in torch, each by itself."""
    report, where = found.report, listed(found.names)
    if report is None or report.kind == NOTHING:
        return
    usual = (
        Severity.RISK,
        f"that is not what torch's {report.kind} does.",
        "ask whether it is meant; weights of one will not fit the other.",
    )
    for f in report.findings:
        if f.wrong and not f.what.startswith("differs"):
            floor = f.what == "eps" and "at least" in f.found
            severity, means, do = FLOOR if floor else ADVICE.get(f.what, usual)
            seen = f"{found.kind}: {f.what} {f.found}, not {f.torch}"
            yield Finding(severity, where, seen, means, do)


def _eps(found: Found, where: str, report: Report) -> Iterator[Finding]:
    """No eps at all, or one so small that a constant case has a steep slope."""
    part, x = found.visits[0].part, found.visits[0].given[0]
    said = next((f.found for f in report.findings if f.what == "eps"), "")
    if said == "none":
        nan = _at_a_constant(part, x)
        yield Finding(
            Severity.FAULT if nan else Severity.RISK, where, f"{found.kind} has no eps",
            "a case whose units are all equal is divided by 0"
            + (": the output is NaN." if nan else "."),
            "add eps to the variance, 1e-5 as torch has it.",
        )  # fmt: skip
    else:
        eps = float(said.split()[0]) if said[:1].isdigit() else 1.0
        if eps < STEEP:
            slope = 1 / eps if "sigma" in said else eps**-0.5
            yield Finding(
                Severity.FACT, where, f"eps is {number(eps)}, torch's own 1e-5",
                f"where a case is constant (padding, say) the gradient is multiplied by up to "
                f"{number(slope)}, and in half precision such an eps is "
                f"{'0' if eps < 3e-8 else 'hardly there'}.",
                "keep it to load these weights; take 1e-5 or 1e-6 for a training of your own.",
            )  # fmt: skip


def _at_a_constant(part: nn.Module, x: Tensor) -> bool:
    """True if a constant input comes out as NaN or infinite."""
    copy = untouched(part).to(x.dtype).train()
    with torch.no_grad(), undrawn():
        try:
            return not bool(copy(torch.ones_like(x)).isfinite().all())
        except Exception:  # whatever a part of the user's may raise
            return False


def _beside_the_data(found: Found) -> Iterator[Finding]:
    """An eps that is not small beside what the normalizer is given."""
    decided = {}
    for visit in found.visits:
        eps = eps_of(visit.part)
        if eps > 0:
            share = _share_below(found, visit, 10 * eps)
            if share > 0:
                decided[visit.name] = share
    if decided:
        worst = max(decided.values())
        yield Finding(
            Severity.RISK if worst > 0.01 else Severity.FACT, listed(list(decided)),
            f"up to {worst:.0%} of the statistics have a variance below 10 eps",
            "there eps decides and not the data: what is normalized comes out smaller, and a "
            "re-scaling is not undone.",
            "look at these cases or channels (padding, dead units, the state of 0 at a first "
            "step); make eps smaller if they are meant.",
        )  # fmt: skip


def _share_below(found: Found, visit: Visit, least: float) -> float:
    """The fraction of the statistics of a call whose variance is below ``least``."""
    report = found.report
    assert report is not None
    if report.over is None:
        return 0.0
    a, axes = report.over.grouped(visit.given[0]), report.over.grouped_axes
    square = a.square().mean(axes) if report.kind == "RMSNorm" else a.var(axes, correction=0)
    return float((square < least).double().mean())


def _gains(found: Found) -> Iterator[Finding]:
    """Units that learned gains have switched off, and gains that turn a sign."""
    silent: dict[str, tuple[int, int]] = {}
    for visit in found.visits:
        g = next((getattr(visit.part, n, None) for n in ("weight", "g", "gamma")), None)
        if isinstance(g, Tensor) and g.dim() == 1 and float(g.detach().abs().max()) > 0:
            size = g.detach().double().abs()
            off = int((size < SILENT * size.max()).sum())
            if off:
                silent[visit.name] = (off, len(g))
    if silent:
        off, units = (sum(column) for column in zip(*silent.values(), strict=True))
        yield Finding(
            Severity.FACT, listed(list(silent)),
            f"{off} of {units} gains are below {SILENT:g} of the largest",
            "the normalizer has switched these units off: what computes them is wasted.",
            "prune them, or exempt gains from weight decay if that drove them there.",
        )  # fmt: skip


FUNCTIONS = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm")


def _functional(audited: Audited) -> Iterator[Finding]:
    """Normalizers that are called as functions, outside of every part that is one."""
    seen = functional_calls(audited)
    for function, where in seen.items():
        yield Finding(
            Severity.FACT, listed(where), f"calls F.{function} itself",
            "it normalizes without being a part: swap and the table below pass it by.",
            f"make it a part (nn.{function.title().replace('_', '')}) to see and exchange it.",
        )  # fmt: skip


def functional_calls(audited: Audited) -> dict[str, list[str]]:
    """The parts inside which each function of torch that normalizes is called by hand."""
    parts = dict(audited.module.named_modules())
    calls: dict[str, list[str]] = {}
    for function, name in audited.watched.functions:
        if function in FUNCTIONS and not isinstance(parts[name], NORMALIZERS):
            calls.setdefault(function, []).append(name)
    return calls
