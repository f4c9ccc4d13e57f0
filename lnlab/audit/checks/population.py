"""Statistics over cases that are remembered: whether evaluation is what was trained."""

from __future__ import annotations

import math

from torch import Tensor

from lnlab.analysis.invariance import relative_change
from lnlab.analysis.module_copy import over_cases
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, listed, number
from lnlab.audit.normalizers import first_calls
from lnlab.nn.batch import batch_moments
from lnlab.nn.table1 import Statistics

FEW = 16
"""The variance of fewer values is off by a third or more, one time in three."""

APART = 0.5
"""The limits of how far (in remembered sigmas) or larger (in powers of e) a batch's statistics
are of a typical unit when the remembered ones no longer describe it."""


def check(audited: Audited) -> Result:
    """The distance of remembered statistics from those of this input, and what it costs."""
    if not over_cases(audited.module):
        raise CannotCheck("no part remembers statistics over cases.")
    if audited.statistics is not Statistics.BATCH:
        raise CannotCheck("the module cannot be evaluated as in training on this input.")
    rows = []
    wanted = {id(part) for part in over_cases(audited.watched.module)}
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
    return Result(tuple(_findings(rows, gap)), tuple(rows), f"evaluation differs by {gap:.2g}.")


def fresh(mean: Tensor, spread: Tensor) -> bool:
    """True of remembered statistics that are those a batch norm starts with."""
    return not bool(mean.any()) and bool((spread == 1).all())


def _gap(audited: Audited) -> float:
    """The distance of the outputs of evaluation from those of training, of the largest."""
    training = audited.subject(Statistics.BATCH).see().y
    return relative_change(audited.subject(Statistics.FROZEN).see().y, training)


def _off(row: dict) -> bool:
    factor = math.log(max(row["variance off by a factor"], 1))
    return row["mean off by (sigma)"] > APART or factor > APART


def _findings(rows: list[dict], gap: float) -> list[Finding]:
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
