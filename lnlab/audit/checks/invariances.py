"""The certificate of invariances, weight by weight."""

from __future__ import annotations

import time

from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, listed
from lnlab.norms.invariances import TRANSFORMATIONS
from lnlab.probes.certify import certify
from lnlab.probes.certify.certificate import Certificate, Grade
from lnlab.probes.subject import weights_of

OF_WEIGHTS, OF_SCALE = (1, 2, 3, 7, 8, 10), (1, 3)
PATIENCE = 30.0
"""Seconds that the certificate may take: with more weights only their scales are tried."""
EACH = 20
"""Evaluations that all columns of one weight take, about; its scales take half."""


def check(audited: Audited) -> Result:
    """The changes of each weight that leave what comes out as it is."""
    certificate = certified(audited)
    formulas = {T.column: T.formula for T in TRANSFORMATIONS}
    rows: dict[str, dict] = {}
    for v in certificate.invariances:
        if v.mode == mode_of(certificate):
            said = v.grade.value + (
                f", exact without {v.exact_without}" if v.exact_without else ""
            )
            rows.setdefault(v.where, {"weight": v.where})[formulas[v.column]] = said
    exact = [v for v in certificate.invariances if holds(v) and v.mode == mode_of(certificate)]
    findings = _findings(exact, formulas, len(rows))
    note = f"As in {mode_of(certificate)}, {certificate.evaluations} evaluations in float64."
    return Result(tuple(findings), tuple(rows.values()), note)


def holds(v) -> bool:
    """True if an invariance holds, an eps aside."""
    return v.grade is Grade.EXACT or v.exact_without == "eps"


def mode_of(certificate: Certificate) -> str:
    """The mode that counts: that of training, where it differs from evaluation."""
    modes = {v.mode for v in certificate.invariances}
    return "train" if "train" in modes else "evaluation"


def certified(audited: Audited) -> Certificate:
    """The certificate of the weights; made once.

    Raises:
        CannotCheck: where there is no weight to try, or too many for the patience.
    """
    kept = audited.kept.get("certificate")
    if kept is None:
        try:
            kept = _certified(audited)
        except (ValueError, TypeError) as error:
            kept = CannotCheck(str(error))
        audited.kept["certificate"] = kept
    if isinstance(kept, CannotCheck):
        raise kept
    return kept


def _certified(audited: Audited) -> Certificate:
    if audited.wide is None:
        raise CannotCheck("the module cannot be evaluated in float64.")
    count, start = len(weights_of(audited.module)), time.perf_counter()
    audited.subject().see()
    each = time.perf_counter() - start
    columns = OF_WEIGHTS if count * EACH * each < PATIENCE else OF_SCALE
    if count * EACH * each / 2 > 10 * PATIENCE:
        raise CannotCheck(
            f"{count} weights at {each:.2g} s an evaluation would take minutes: give fewer "
            "cases, or certify(module, x, weights=[...]) for those that matter."
        )
    return certify(
        audited.module, audited.x, columns=columns, dtypes=(audited.wide,),
        modes=("train", "evaluation"), read=audited.read,
    )  # fmt: skip


def _findings(exact: list, formulas: dict[int, str], weights: int) -> list[Finding]:
    means = {
        1: ("the loss does not see how long they are, only where they point.",
            "see the effective learning rate below: weight decay acts on it alone."),
        2: ("whatever is added to all rows alike is taken away again by the mean.",
            "nothing: those directions get no gradient."),
        7: ("whatever is added to all units of a case alike is taken away by the mean.",
            "nothing."),
        8: ("a shift of each unit is taken away: a bias there has no effect.",
            "leave out the bias of these layers."),
    }  # fmt: skip
    found = []
    for column, (what, do) in means.items():
        names = [v.where for v in exact if v.column == column]
        if names:
            seen = f"{len(names)} of {weights} weights are invariant: {formulas[column]}"
            found.append(Finding(Severity.FACT, listed(names), seen, what, do))
    return found
