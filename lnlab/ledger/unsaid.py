"""Changes of judged claims that their history does not tell."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lnlab.analysis.statistics import ends
from lnlab.ledger.rule import Verdict

DECIDING = ("seeds", "margin", "family", "exact", "says", "failed", "shared")
"""The parts of a declaration that decide by themselves; of words only a reader can say."""

ENOUGH = 1e-3
"""The part of the largest of a claim's values by which another machine does not move one."""

Entry = dict[str, Any]
"""A claim as verdicts.json keeps it."""


def unsaid(before: Sequence[Entry], now: Sequence[Entry]) -> Iterator[str]:
    """The changes of measurements that had a verdict ``before``, where ``now`` does not say so.

    A declaration that changed, or values that did, need a higher version, and the verdict and
    interval that were there need a place in the history. No claim goes away unnamed: the
    family it was judged in would be smaller for it.
    """
    there = {entry["id"]: entry for entry in now}
    for old in before:
        if not old["declared"] or old["verdict"] == Verdict.NOT_YET_RUN.value:
            continue
        new = there.get(old["id"])
        if new is None or not new["declared"]:
            yield f"{old['id']} was {old['verdict']} and is gone: name it with --withdraw"
        elif new["declared"]["version"] == old["declared"]["version"]:
            if what := ", ".join(_changed(old, new)):
                yield f"{old['id']}: {what} changed: raise its version, add a Before"
        elif not _told(old, new):
            was = f"{old['verdict']}, {ends(old['interval'])}"
            yield f"{old['id']}: no Before has what was there ({was})"


def _changed(old: Entry, new: Entry) -> Iterator[str]:
    for name in DECIDING:
        if _plain(old["declared"][name]) != _plain(new["declared"][name]):
            yield name
    if not _alike(old["values"], new["values"]):
        yield "values"
    elif old["verdict"] != new["verdict"] and not _told(old, new):
        yield "verdict"  # with the rest of its family


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _alike(old: Sequence[float | None], new: Sequence[float | None]) -> bool:
    """True if values are the same but for what tells machines apart."""
    if len(old) != len(new):
        return False
    first, second = np.array(old, float), np.array(new, float)
    known = np.abs(first[np.isfinite(first)])
    enough = ENOUGH * known.max() if len(known) else 0.0
    return np.allclose(first, second, rtol=0, atol=enough, equal_nan=True)


def _told(old: Entry, new: Entry) -> bool:
    """True if the history has what was there."""
    interval = ends(old["interval"]) if old["interval"] else ""
    return any(
        before["verdict"] == old["verdict"] and interval in (before["interval"], "")
        for before in new["history"]
    )
