"""A module of yours, looked at with every probe that applies; its normalizers exchanged."""

from lnlab.auditing.audit import CHECKS, audit
from lnlab.auditing.paired import Paired, paired
from lnlab.auditing.report import Audit
from lnlab.auditing.subject import Call, Finding, Severity
from lnlab.auditing.swap import Swap, swap

__all__ = [
    "CHECKS",
    "Audit",
    "Call",
    "Finding",
    "Paired",
    "Severity",
    "Swap",
    "audit",
    "paired",
    "swap",
]
