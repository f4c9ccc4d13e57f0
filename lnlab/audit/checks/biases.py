"""Parameters on which nothing depends: a bias in front of a normalizer, most often."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from lnlab.analysis.arguments import normal
from lnlab.analysis.invariance import EXACT, relative_change
from lnlab.analysis.subject import Subject, Trial
from lnlab.audit.audited import Audited, undrawn
from lnlab.audit.finding import Finding, Result, Severity, counted, listed
from lnlab.audit.normalizers import normalizers

STILL = 1e-9
"""A gradient below this fraction of its parameter's largest, or of the largest of all, may
belong to what nothing depends on: it is then tried."""


def check(audited: Audited) -> Result:
    """The numbers of parameters that can be anything, as far as a training batch tells."""
    awake = audited.awake
    subject = awake.subject()
    exact = 1e3 * EXACT.get(audited.wide or audited.dtype, 1e-3)
    y = subject.see().y
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
    subject: Subject, name: str, suspects: Tensor, y: Tensor, exact: float
) -> bool:
    """True if the outputs stay what they are when the suspects are replaced, twice."""
    p = subject.parameters[name].data
    size = float(p.abs().mean()) or 1.0
    for draw in range(2):
        other = size * normal(9, draw, p.numel()).view_as(p).to(p)
        trial = Trial(subject.x, {name: torch.where(suspects, p + other, p)})
        moved = subject.see(trial).y
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
