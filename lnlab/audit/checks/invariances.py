"""Changes of each weight that do not change what comes out."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from lnlab.analysis.certificate import Grade
from lnlab.analysis.certify import USUAL, Judge, certify, changes_of
from lnlab.analysis.invariance import EXACT
from lnlab.analysis.subject import weights_of
from lnlab.audit.asleep import asleep
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, counted, listed
from lnlab.nn.table1 import TRANSFORMATIONS

OF_WEIGHTS, OF_SCALE = (1, 2, 3, 7, 8, 10), (1, 3)
PATIENCE = 20.0
"""Seconds that a certificate of all columns may take; beyond, only scales are tried, once."""
EACH = 40
"""Evaluations that a certificate takes for each weight, about."""
TIMED = 3
"""Evaluations that are timed."""
FORMULAS = {T.column: T.formula for T in TRANSFORMATIONS}


@dataclass(frozen=True)
class Held:
    """The changes that were tried on the weights, and those that held.

    Attributes:
        said: for each weight, what became of every column that was tried.
        exact: (weight, column) of what holds, an eps aside.
        note: how it was tried.
        scales_alone: whether, for want of time, only scales were tried.
    """

    said: dict[str, dict[int, str]]
    exact: set[tuple[str, int]]
    note: str
    scales_alone: bool = False

    def without(self, names: Collection[str]) -> Held:
        """The same without some weights: those that are 0 have no length and no direction."""
        said = {name: columns for name, columns in self.said.items() if name not in names}
        exact = {pair for pair in self.exact if pair[0] in said}
        return replace(self, said=said, exact=exact)

    def weights(self, column: int) -> list[str]:
        """The weights of which a column holds."""
        return [name for name in self.said if (name, column) in self.exact]


def check(audited: Audited) -> Result:
    """A certificate of the weights, or in large nets whether their scales are seen."""
    tried = held(audited)
    rows = [
        {"weight": name} | {FORMULAS[column]: said for column, said in columns.items()}
        for name, columns in tried.said.items()
    ]
    return Result(tuple(_findings(tried)), tuple(rows), tried.note)


def held(audited: Audited) -> Held:
    """The invariances of the weights, found out once for an audit.

    Raises:
        CannotCheck: where there is no weight to try.
    """
    kept = audited.kept.get("invariances")
    if kept is None:
        try:
            kept = _held(audited.awake).without(asleep(audited.module))
        except (ValueError, TypeError) as error:
            kept = CannotCheck(str(error))
        audited.kept["invariances"] = kept
    if isinstance(kept, CannotCheck):
        raise kept
    return kept


def _held(audited: Audited) -> Held:
    audited.require_wide()
    if not weights_of(audited.module):
        raise CannotCheck("the module has no matrix or kernel.")
    large = len(weights_of(audited.module)) * EACH * _evaluation(audited) > PATIENCE
    return _scales(audited) if large else _certificate(audited)


def _evaluation(audited: Audited) -> float:
    """Seconds of an evaluation: the least of a few, as the first begins cold and any may wait
    for other work; what an audit tries must not depend on that."""
    subject = audited.subject()
    seconds = []
    for _ in range(TIMED):
        start = time.perf_counter()
        subject.see()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _certificate(audited: Audited) -> Held:
    """All columns, graded over many deltas."""
    found = certify(
        audited.module, audited.x, columns=OF_WEIGHTS, dtypes=(torch.float64,),
        modes=("train", "evaluation"), read=audited.read,
    )  # fmt: skip
    modes = {v.mode for v in found.invariances}
    mode = "train" if "train" in modes else "evaluation"
    said: dict[str, dict[int, str]] = {}
    exact = set()
    for v in (v for v in found.invariances if v.mode == mode):
        without = f", exact without {v.exact_without}" if v.exact_without else ""
        said.setdefault(v.where, {})[v.column] = v.grade.value + without
        if v.grade is Grade.EXACT or v.exact_without == "eps":
            exact.add((v.where, v.column))
    return Held(said, exact, f"As in {mode}, {found.evaluations} evaluations in float64.")


def _scales(audited: Audited) -> Held:
    """The scales of each weight and of a quarter of its rows at one delta, without eps."""
    subject = audited.subject()
    subject = subject.without(eps=True) or subject
    judge = Judge(subject, weights_of(subject.module))
    said: dict[str, dict[int, str]] = {}
    exact = set()
    changes = changes_of(judge.weights.values(), subject, judge.base.called, None)
    for change in (
        c for c in changes if c.transformation.column in OF_SCALE and c.where != "x"
    ):
        column, defect = change.transformation.column, judge.outputs(change, USUAL)
        holds = defect <= EXACT[judge.dtype]
        said.setdefault(change.where, {})[column] = (
            "exact" if holds else f"broken ({defect:.2g})"
        )
        if holds:
            exact.add((change.where, column))
    note = (
        f"The module is large: of {len(said)} weights only scales were tried, at delta = "
        f"{USUAL} and eps = 0; certify(module, x, weights=[...]) does more."
    )
    return Held(said, exact, note, scales_alone=True)


MEANS = {
    1: (
        "what comes out does not depend on their length, only on where they point.",
        "see the effective learning rate below: weight decay acts on it alone.",
    ),
    2: (
        "whatever is added to all rows alike is taken away again by the mean.",
        "nothing: those directions get no gradient.",
    ),
    7: ("whatever is added to all units of a case is taken away by the mean.", "nothing."),
    8: (
        "a shift of each unit is taken away: a bias there has no effect.",
        "leave out the bias of these layers.",
    ),
}
"""The meaning of the columns for a module, and what to do."""


def _findings(tried: Held) -> list[Finding]:
    found = []
    for column, (means, do) in MEANS.items():
        names = tried.weights(column)
        if names:
            seen = (
                f"invariant: {len(names)} of {counted(len(tried.said), 'weight')}, "
                f"{FORMULAS[column]}"
            )
            found.append(Finding(Severity.FACT, listed(names), seen, means, do))
    if tried.scales_alone:
        found.append(
            Finding(
                Severity.FACT, "",
                f"of {counted(len(tried.said), 'weight')} only scales were tried",
                "the module is large, or slow here: whether it sees their shifts is not known.",
                "try those that matter by certify(module, x, weights=[...]).",
            )
        )  # fmt: skip
    return found
