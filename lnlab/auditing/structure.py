"""The normalizers that there are, and whether each is what its name says."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from lnlab.analysis.activations import NORMALIZERS, Site, dead_units
from lnlab.analysis.conformance import NOTHING, Report
from lnlab.analysis.magnitudes import EXACT, relative_change
from lnlab.analysis.module_copy import ModuleCopy, Replacement, batch_norms, copy_module
from lnlab.analysis.random import normal
from lnlab.auditing.subject import (
    Audited,
    CannotCheck,
    Finding,
    Found,
    Result,
    Severity,
    Visit,
    counted,
    eps_of,
    first_calls,
    listed,
    normalizers,
    number,
    undrawn,
)
from lnlab.nn.batch import batch_moments

PROMISES = ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm", "InstanceNorm")
"""The operators of torch.nn that a class name may promise, the longest match first."""

STEEP = 1e-6
"""An eps below this lets a constant case multiply gradients by more than 1000."""

ALONG_CASES = re.compile(r"statistics over ax[ei]s 0\b")
"""The words of conformance for statistics that run over the cases of a batch."""

SILENT = 1e-3
"""A gain that is this fraction of the largest one switches its unit off."""


def check_normalizers(audited: Audited) -> Result:
    """The normalizers, and what of each differs from the operator that its name promises."""
    found = normalizers(audited)
    findings = [finding for each in found for finding in _normalizers_findings(each)]
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


def _normalizers_findings(found: Found) -> Iterator[Finding]:
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
    copy = copy_module(part).to(x.dtype).train()
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


# Parameters on which nothing depends: a bias in front of a normalizer, most often.


STILL = 1e-9
"""A gradient below this fraction of its parameter's largest, or of the largest of all, may
belong to what nothing depends on: it is then tried."""


def check_biases(audited: Audited) -> Result:
    """The numbers of parameters that can be anything, as far as a training batch tells."""
    awake = audited.awake
    subject = awake.subject()
    exact = 1e3 * EXACT.get(audited.wide or audited.dtype, 1e-3)
    y = subject.run().y
    idle: dict[str, tuple[int, int]] = {}
    for name, suspects in _suspects(awake).items():
        count = int(suspects.sum())
        # of a matrix single numbers are those of words that did not occur, and of dead units
        if (count if suspects.dim() < 2 else bool(suspects.all())) and _stands_still(
            subject, name, suspects, y, exact
        ):
            idle[name] = count, suspects.numel()
    ahead = _in_front(audited)
    findings = [*_of_biases(idle, ahead), *_of_others(idle, ahead)]
    if awake is not audited:
        findings += _behind_zeros(audited, awake, idle)
    rows = tuple(
        {"parameter": n, "without effect": c, "of": of, "in front of": ahead.get(_owner(n), "")}
        for n, (c, of) in idle.items()
    )
    return Result(tuple(findings), rows)


def _behind_zeros(audited: Audited, awake: Audited, idle: Collection[str]) -> Iterator[Finding]:
    """The parameters that get no gradient yet, for what they feed is 0."""
    waiting = [n for n, still in _suspects(audited).items() if still.all() and n not in idle]
    waiting = [n for n in waiting if not _suspects(awake)[n].all()]
    if waiting:
        yield Finding(
            Severity.FACT, listed(awake.kept["asleep"]),
            f"all 0: {counted(len(waiting), 'parameter')} in front of these "
            f"{'has' if len(waiting) == 1 else 'have'} no effect yet",
            "a branch that starts at 0 is the identity; in the first step these move alone.",
            "nothing, if it is meant; effects and invariances are told as if they had been "
            "drawn.",
        )  # fmt: skip


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _suspects(audited: Audited) -> dict[str, Tensor]:
    """The places in each parameter by which a random function of outputs has no gradient."""
    subject = audited.subject()
    with torch.enable_grad(), undrawn():
        for p in subject.parameters.values():
            p.requires_grad_()
        y = audited.read(subject.module(subject.x))
        (y * normal(8, 0, y.numel()).view_as(y).to(y)).sum().backward()
    slopes = {
        n: torch.zeros_like(p) if p.grad is None else p.grad
        for n, p in subject.parameters.items()
        if p.is_floating_point()
    }
    largest = max((float(g.abs().max()) for g in slopes.values() if g.numel()), default=0.0)
    return {
        n: g.abs() <= STILL * max(float(g.abs().max()), 1e-6 * largest)
        for n, g in slopes.items()
        if g.numel()
    }


def _stands_still(
    subject: ModuleCopy, name: str, suspects: Tensor, y: Tensor, exact: float
) -> bool:
    """True if the outputs stay what they are when the suspects are replaced, twice."""
    p = subject.parameters[name].data
    size = float(p.abs().mean()) or 1.0
    for draw in range(2):
        other = size * normal(9, draw, p.numel()).view_as(p).to(p)
        trial = Replacement(subject.x, {name: torch.where(suspects, p + other, p)})
        moved = subject.run(trial).y
        if not relative_change(moved, y) <= exact:
            return False
    return True


def _in_front(audited: Audited) -> dict[str, str]:
    """The normalizer that is handed what a part has just made, by the part's name."""
    parts = {name for found in normalizers(audited) for name in found.names}
    makers: dict[int, str] = {}
    ahead: dict[str, str] = {}
    for visit in audited.course:
        if visit.name in parts and visit.taken:
            maker = makers.get(visit.taken[0])
            if maker is not None:
                ahead[maker] = visit.name
        if not any(visit.part.children()):
            makers |= dict.fromkeys(visit.left, visit.name)
    return ahead


def _of_biases(idle: dict[str, tuple[int, int]], ahead: dict[str, str]) -> list[Finding]:
    names = [n for n, (c, of) in idle.items() if c == of and _owner(n) in ahead]
    if not names:
        return []
    count = sum(idle[n][0] for n in names)
    pairs = [f"{n} (before {ahead[_owner(n)]})" for n in names]
    return [
        Finding(
            Severity.RISK, listed(pairs),
            f"{counted(count, 'number')} of {counted(len(names), 'bias', 'biases')} in front "
            "of a normalizer have no effect",
            "the normalizer subtracts them again with its mean: they get no gradient, and "
            "weight decay alone moves them.",
            "make these layers without a bias (bias=False).",
        )
    ]  # fmt: skip


def _of_others(idle: dict[str, tuple[int, int]], ahead: dict[str, str]) -> list[Finding]:
    whole = [n for n, (c, of) in idle.items() if c == of and _owner(n) not in ahead]
    some = [n for n, (c, of) in idle.items() if c < of]
    found = []
    if whole:
        found.append(
            Finding(
                Severity.FAULT, listed(whole),
                f"{counted(len(whole), 'parameter')} {'has' if len(whole) == 1 else 'have'} "
                "no effect at all on what is returned",
                "nothing that the module returned depends on them: they are never trained.",
                "look whether they are called, detached, or cancelled (a key's bias under "
                "softmax); delete them if that is meant.",
            )
        )  # fmt: skip
    if some:
        numbers = [f"{n} ({idle[n][0]} of {idle[n][1]})" for n in some]
        found.append(
            Finding(
                Severity.FACT, listed(numbers),
                "some numbers of these parameters have no effect",
                "they belong to dead units, or cancel, as the bias of keys does under "
                "softmax.",
                "nothing; expect no gradient there.",
            )
        )  # fmt: skip
    return found


# Cases of a batch that see each other in evaluation: an axis that was mistaken, most often.


ALONE = 0, 1
"""The cases that are tried: two, as one may have the largest value, which counts for all."""


def check_cases(audited: Audited) -> Result:
    """The change of what a case gets, part by part, when all others become as it is.

    Evaluation is asked, where no statistics over cases are those of the batch.
    """
    cases = len(audited.x)
    if cases < 2:
        raise CannotCheck("the input has one case.")
    exact = 1e3 * EXACT.get(audited.wide or audited.dtype, 1e-3)
    own = _calls(audited, audited.x)
    moved: dict[str, float] = {}
    for n in ALONE:
        other = _calls(audited, audited.x[n].expand_as(audited.x))
        for name in own.keys() & other.keys():
            by = _moved(own[name], other[name], n, cases)
            if by is not None:
                moved[name] = max(by, moved.get(name, 0.0))
    if "" not in moved:
        raise CannotCheck("no output has an entry a case.")
    rows = tuple({"part": n, "moved": moved[n]} for n in own if n in moved)
    if moved[""] <= exact:
        return Result(rows=rows)
    first = next(row["part"] for row in rows if not row["moved"] <= exact)
    finding = Finding(
        Severity.RISK, listed([first]),
        f"in evaluation the output of a case moves by {moved['']:.2g} of its size when the "
        "others are replaced",
        "what a case gets depends on its batch, if the first axis of the input is that of "
        "cases; here it is first seen.",
        "look for an axis that is mistaken (batch_first, dim=0, a transpose); nothing, where "
        "the first axis is another, of steps or nodes.",
    )  # fmt: skip
    return Result((finding,), rows)


def _calls(audited: Audited, x: Tensor) -> dict[str, Visit]:
    """The last call of each part, in the order of the computation, the module itself last."""
    return {visit.name: visit for visit in audited.watch(x, "running").visits}


def _moved(one: Visit, other: Visit, n: int, cases: int) -> float | None:
    """The change of what a part made of case n; None where nothing has an entry a case."""
    changes = [
        relative_change(b[n], a[n])
        for a, b in zip(one.made, other.made, strict=False)
        if a.is_floating_point() and a.dim() and len(a) == cases and a.shape == b.shape
    ]
    return max(changes, default=None)


# Dead units: those that are shut in every case.


FEW_EXAMPLES = 16
"""The cases below which a unit that is shut in all of them may open in the next."""


def check_units(audited: Audited) -> Result:
    """Units in front of an f that answers nothing, in all cases of the input."""
    sites = [s for s in audited.subject().run(find_shut=True).sites if s.shut is not None]
    if not sites:
        raise CannotCheck("no nonlinearity of torch is called where it can be seen.")
    dead = dead_units(sites)
    rows = tuple(
        {"where": name, "dead": n, "units": of, "cases": _cases(_site(sites, name))}
        for name, (n, of) in dead.items()
    )
    return Result(tuple(_units_findings(dead, min(map(_cases, sites)))), rows)


def _site(sites: list[Site], name: str) -> Site:
    return next(s for s in sites if s.name == name)


def _cases(site: Site) -> int:
    """The number of values of one unit that were seen."""
    shut = site.shut
    assert shut is not None
    units = shut.shape[1] if shut.dim() == 4 else shut.shape[-1]
    return shut.numel() // max(units, 1)


def _units_findings(dead: dict[str, tuple[int, int]], cases: int) -> list[Finding]:
    whole = [name for name, (n, of) in dead.items() if n == of]
    found = []
    if whole:
        found.append(
            Finding(
                Severity.FAULT, listed(whole), "every unit is shut in every case",
                "no gradient passes: what is below learns nothing.",
                "look at the scale and the bias of what goes in; put a normalizer in front.",
            )
        )  # fmt: skip
    some = {name: value for name, value in dead.items() if name not in whole}
    if some:
        n, of = (sum(column) for column in zip(*some.values(), strict=True))
        few = cases < FEW_EXAMPLES
        found.append(
            Finding(
                Severity.FACT if few or n < 0.1 * of else Severity.RISK,
                listed([f"{name} ({n} of {of})" for name, (n, of) in some.items()]),
                f"{n} of {of} units are shut in all cases ({cases} values of each at least)",
                "they answer nothing and get no gradient"
                + (", but so few cases prove little." if few else "."),
                "give more cases."
                if few
                else "a smaller learning rate, a leaky f, or a normalizer in front keeps units "
                "alive.",
            )
        )  # fmt: skip
    return found


# Statistics over cases that are remembered: whether evaluation is what was trained.


FEW = 16
"""The variance of fewer values is off by a third or more, one time in three."""

APART = 0.5
"""The limits of how far (in remembered sigmas) or larger (in powers of e) a batch's statistics
are of a typical unit when the remembered ones no longer describe it."""


def check_population(audited: Audited) -> Result:
    """The distance of remembered statistics from those of this input, and what it costs."""
    if not batch_norms(audited.module):
        raise CannotCheck("no part remembers statistics over cases.")
    if audited.bn_stats != "batch":
        raise CannotCheck("the module cannot be evaluated as in training on this input.")
    rows = []
    wanted = {id(part) for part in batch_norms(audited.watched.module)}
    for visit in first_calls(audited):
        if id(visit.part) in wanted and hasattr(visit.part, "running_var"):
            a = visit.given[0]
            mu, var, m = batch_moments(a, getattr(visit.part, "unit_axis", 1))
            mean, spread = (
                visit.part.get_buffer("running_mean"),
                visit.part.get_buffer("running_var"),
            )
            if mean.shape == mu.shape:
                shift = ((mu - mean).abs() / (spread + 1e-12).sqrt()).median()
                ratio = ((var + 1e-12) / (spread + 1e-12)).log().abs().median()
                rows.append(
                    {"where": visit.name, "as at the start": fresh(mean, spread),
                     "values a unit": m, "mean off by (sigma)": float(shift),
                     "variance off by a factor": float(ratio.exp())}
                )  # fmt: skip
    gap = _gap(audited)
    return Result(
        tuple(_population_findings(rows, gap)), tuple(rows), f"evaluation differs by {gap:.2g}."
    )


def fresh(mean: Tensor, spread: Tensor) -> bool:
    """True of remembered statistics that are those a batch norm starts with."""
    return not bool(mean.any()) and bool((spread == 1).all())


def _gap(audited: Audited) -> float:
    """The distance of the outputs of evaluation from those of training, of the largest."""
    training = audited.subject("batch").run().y
    return relative_change(audited.subject("running").run().y, training)


def _off(row: dict) -> bool:
    factor = math.log(max(row["variance off by a factor"], 1))
    return row["mean off by (sigma)"] > APART or factor > APART


def _population_findings(rows: list[dict], gap: float) -> list[Finding]:
    found = []
    few = [r["where"] for r in rows if r["values a unit"] < FEW]
    if few:
        least = min(r["values a unit"] for r in rows)
        found.append(
            Finding(
                Severity.RISK, listed(few), f"statistics of {least} values",
                "in training the noise of so small a sample is part of the function.",
                "give larger batches, or a normalizer that looks at one case.",
            )
        )  # fmt: skip
    new = [r["where"] for r in rows if r["as at the start"]]
    if new:
        found.append(
            Finding(
                Severity.FACT, listed(new), "no batch has been seen yet",
                f"evaluation normalizes by mean 0 and variance 1, and differs by {gap:.0%}.",
                "train before you evaluate.",
            )
        )  # fmt: skip
    off = [
        r["where"] for r in rows if r["where"] not in new and _off(r)
    ]  # fmt: skip
    if off:
        worst = max(r["variance off by a factor"] for r in rows)
        found.append(
            Finding(
                Severity.RISK, listed(off),
                f"the remembered statistics are not those of this input (variance off by a "
                f"factor of up to {number(worst)}); outputs in evaluation differ by {gap:.0%}",
                "evaluation is another function than training: the net is untrained, its "
                "weights moved since, or the input is of another kind.",
                "let it see training batches in training mode, or lnlab.nn.recompute(...), "
                "before evaluating.",
            )
        )  # fmt: skip
    return found
