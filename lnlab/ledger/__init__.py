"""The ledger: every statement of the three papers, what tests it, and its verdict."""

from collections.abc import Iterable, Sequence

import pandas as pd

from lnlab.checkout import place
from lnlab.ledger import ba2016, benothman2018, ziaee2022
from lnlab.ledger.verdict import Claim, Evidence, Verdict, interval
from lnlab.runs import Run, read

CLAIMS: tuple[Claim, ...] = (*ba2016.CLAIMS, *benothman2018.CLAIMS, *ziaee2022.CLAIMS)

ROOTS = (place("results"), place("runs"))
"""Where runs are looked for: those that are committed, then one's own."""

__all__ = [
    "CLAIMS",
    "ROOTS",
    "Claim",
    "Evidence",
    "Verdict",
    "ends",
    "entries",
    "frame",
    "interval",
    "markdown",
]


def entries(runs: Iterable[Run] | None = None) -> list[dict]:
    """Every claim judged by ``runs`` (those under :data:`ROOTS`), as JSON can hold it."""
    runs = read(ROOTS) if runs is None else list(runs)
    return [_entry(claim, claim.judge(runs)) for claim in CLAIMS]


def _entry(claim: Claim, evidence: Evidence) -> dict:
    return {
        "id": claim.id,
        "source": claim.source,
        "statement": claim.statement,
        "verdict": evidence.verdict.value,
        "quantity": evidence.quantity,
        "interval": None if evidence.interval is None else list(evidence.interval),
        "values": list(evidence.values),
        "data": evidence.data,
        "hardware": evidence.hardware,
        "paper": claim.paper,
        "note": claim.note,
        "command": claim.command,
    }


def frame(runs: Iterable[Run] | None = None) -> pd.DataFrame:
    """:func:`entries` as a table, one row a claim."""
    return pd.DataFrame(entries(runs)).set_index("id")


def ends(interval: Sequence[float] | None) -> str:
    """Both ends of an interval, in two digits, or "none"."""
    return "none" if interval is None else "{:.2g} to {:.2g}".format(*interval)


def markdown(runs: Iterable[Run] | None = None) -> str:
    """The table of the README: claims that were measured, then a count of the others."""
    judged = [e for e in entries(runs) if e["verdict"] != Verdict.NOT_YET_RUN.value]
    lines = ["| source | claim | verdict | interval | data |", "|---|---|---|---|---|"]
    for e in judged:
        measured = f"**{e['verdict']}** | {ends(e['interval'])}"
        lines.append(f"| {e['source']} | {e['statement']} | {measured} | {e['data']} |")
    later = len(CLAIMS) - len(judged)
    lines.append(f"\n{later} further claims are not yet run: `lnlab claims` lists them.")
    return "\n".join(lines)
