"""A module of yours, looked at with every analysis that applies; its normalizers swapped."""

from lnlab.analysis.inputs import Call
from lnlab.auditing.audit import CHECKS, Audit, audit
from lnlab.auditing.finding import RULES, Finding, Severity, explain
from lnlab.auditing.swap import SwapPlan, swap

__all__ = [
    "CHECKS",
    "RULES",
    "Audit",
    "Call",
    "Finding",
    "Severity",
    "SwapPlan",
    "audit",
    "explain",
    "swap",
]
