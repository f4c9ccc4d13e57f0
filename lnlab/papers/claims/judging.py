"""All claims judged: equations by computing, measurements by the runs that are there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

from lnlab.papers.claims import ba2016, benothman2018, transformers, ziaee2022
from lnlab.papers.claims.claim import Claim, Declared, Differences, Evidence
from lnlab.papers.claims.rule import Outcome, Verdict, judge, steady, verdict
from lnlab.training.runs import Run

CLAIMS: tuple[Claim, ...] = (
    *ba2016.CLAIMS,
    *benothman2018.CLAIMS,
    *ziaee2022.CLAIMS,
    *transformers.CLAIMS,
    *transformers.TURNING,
)


def evidence(runs: Iterable[Run], claims: Sequence[Claim] = CLAIMS) -> dict[str, Evidence]:
    """The findings for each claim, by id; the measurements of a family are judged together."""
    runs = list(runs)
    found = {claim.id: claim.judge() if claim.judge else Evidence() for claim in claims}
    families: dict[str, list[tuple[Claim, Declared, Differences]]] = defaultdict(list)
    sizes = Counter(claim.declared.family for claim in claims if claim.declared)
    for claim in claims:
        if claim.test is None or claim.declared is None:
            continue
        there = claim.test.differences(runs)
        if there is None:
            found[claim.id] = Evidence(exploratory=claim.test.exploratory(runs))
        elif all(map(isfinite, there.values)) and len(there.values) > 1:
            families[claim.declared.family].append((claim, claim.declared, there))
        else:
            found[claim.id] = _found(claim, there, verdict=Verdict.INCONCLUSIVE)
    for family, members in families.items():
        judged = judge(
            [there.values for _, _, there in members],
            [declared.margin for _, declared, _ in members],
            [declared.exact for _, declared, _ in members],
            sizes[family],
            [declared.says for _, declared, _ in members],
            [declared.shared for _, declared, _ in members],
        )
        for (claim, _, there), one in zip(members, judged, strict=True):
            # where a block is the unit, seeds are beneath it
            word = verdict(there.setting, one.outcome, len(there.values))
            found[claim.id] = _found(claim, there, verdict=word, **vars(one))
    for claim in claims:
        if claim.test is not None:
            found[claim.id] = replace(found[claim.id], then=claim.test.then(runs))
    found |= {claim.id: found[claim.same] for claim in claims if claim.same}
    return found | {
        claim.id: together([found[id] for id in claim.parts]) for claim in claims if claim.parts
    }


LEAST_FIRST = (
    *(Verdict.FAILS, Verdict.NOT_REPRODUCED, Verdict.NOT_SEEN),
    *(Verdict.NOT_YET_RUN, Verdict.INCONCLUSIVE),
    *(Verdict.ALSO_SEEN, Verdict.REPRODUCED, Verdict.HOLDS),
)
"""The verdicts in order: of several parts the first one that is there decides."""


def together(parts: Sequence[Evidence]) -> Evidence:
    """The findings of a statement that says all of several claims.

    One that is denied denies it, and nothing supports it but all of them: an intersection-union
    test, which needs no correction of its own (Berger, 1982).
    """
    counts = Counter(part.verdict for part in parts)
    said = ", ".join(f"{counts[one]} {one.value}" for one in LEAST_FIRST if counts[one])
    return Evidence(
        min(counts, key=LEAST_FIRST.index),
        f"of {len(parts)} claims {said}",
        data="; ".join(dict.fromkeys(part.data for part in parts if part.data)),
    )


def _found(claim: Claim, there: Differences, **more: Any) -> Evidence:
    declared = claim.declared
    assert declared is not None
    return Evidence(
        quantity=declared.measure,
        setting=there.setting,
        values=there.values,
        seeds=declared.seeds,
        data=there.data,
        hardware=there.hardware,
        failures=there.failures,
        **{"outcome": Outcome.INCONCLUSIVE, **more},
    )


def entries(runs: Iterable[Run], claims: Sequence[Claim] = CLAIMS) -> list[dict[str, Any]]:
    """Every claim judged by ``runs``, as JSON can hold it."""
    found = evidence(runs, claims)
    named = {claim.id: claim for claim in claims}
    return [_entry(claim, found[claim.id], named.get(claim.same, claim)) for claim in claims]


def _entry(claim: Claim, found: Evidence, tested: Claim) -> dict[str, Any]:
    # ``tested`` is the claim itself, or that which says the same
    declared = tested.declared
    return {
        "id": claim.id,
        "source": claim.source,
        "statement": claim.statement,
        "kind": tested.kind.value,
        "verdict": found.verdict.value,
        "setting": found.setting and found.setting.value,
        "outcome": found.outcome and found.outcome.value,
        "interval": found.interval and [_finite(end) for end in found.interval],
        "margin": declared and declared.margin,
        "quantity": found.quantity or (declared.measure if declared else ""),
        "confidence": found.confidence,
        "p": found.p and float(f"{found.p:.6g}"),
        "p_signs": found.p_signs and float(f"{found.p_signs:.6g}"),
        "detectable": _finite(found.detectable),
        "worst": _finite(found.worst),
        "values": [_finite(value) for value in found.values],
        "seeds": list(found.seeds),
        "failures": found.failures,
        "exploratory": found.exploratory,
        "data": found.data,
        "hardware": found.hardware,
        "declared": declared and asdict(declared),
        "paper": claim.paper,
        "command": " && ".join(filter(None, [tested.command, found.then])),
        "would": _judged_as(claim) or claim.would,
        "waits": tested.waits if found.verdict is Verdict.NOT_YET_RUN else "",
        "note": tested.note,
    }


def _judged_as(claim: Claim) -> str:
    others = f"all of {', '.join(claim.parts)}" if claim.parts else claim.same
    return f"judged as {others}" if others else ""


def _finite(value: float | None) -> float | None:
    """A number as it is kept, without the last digits, which differ between machines."""
    return None if value is None or not isfinite(value) else steady(value)
