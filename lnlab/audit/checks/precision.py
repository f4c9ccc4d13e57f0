"""The digits that are lost in the module's own precision, and in half of it."""

from __future__ import annotations

import torch

from lnlab.analysis.invariance import relative_change
from lnlab.analysis.subject import Subject
from lnlab.audit.audited import Audited
from lnlab.audit.finding import Finding, Result, Severity
from lnlab.nn.table1 import Statistics

HALVES = (torch.float16, torch.bfloat16)

LOST = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""A relative error above this is more than the rounding of a few layers."""


def check(audited: Audited) -> Result:
    """The outputs in lower precisions beside those in float64, in evaluation."""
    audited.require_wide()
    y = audited.subject(Statistics.FROZEN).see().y
    rows = []
    for dtype in dict.fromkeys((audited.dtype, torch.float32, *HALVES)):
        if dtype is not torch.float64:
            rows.append({"precision": _name(dtype)} | _error(audited, dtype, y))
    findings = [f for row in rows for f in _findings(row, _name(audited.dtype))]
    return Result(tuple(findings), tuple(rows))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _error(audited: Audited, dtype: torch.dtype, y: torch.Tensor) -> dict:
    try:
        low = Subject(audited.module, audited.x, dtype=dtype, read=audited.read).see().y
    except (ValueError, TypeError) as error:
        return {"error": float("nan"), "remark": str(error).splitlines()[0][:120]}
    if not bool(low.isfinite().all()):
        return {"error": float("inf"), "remark": "not finite"}
    return {"error": relative_change(low.double(), y), "remark": ""}


def _findings(row: dict, own: str) -> list[Finding]:
    severity = Severity.FAULT if row["precision"] == own else Severity.RISK
    if row["remark"] == "not finite":
        seen = f"in {row['precision']} the outputs are not finite"
        means = (
            "a number leaves the range: a square before its mean, or an eps that is 0 there."
        )
        return [
            Finding(severity, "", seen, means, "take statistics in float32, as torch's do.")
        ]
    if row["error"] > LOST[getattr(torch, row["precision"])]:
        seen = f"in {row['precision']} the outputs are off by {row['error']:.2g}"
        means = "more than the rounding of a few layers: something cancels."
        do = "keep that part in float32; look for differences of large numbers."
        return [Finding(Severity.RISK, "", seen, means, do)]
    return []
