"""A module of yours, looked at with every probe that applies; its normalizers exchanged."""

from lnlab.audit.call import Call
from lnlab.audit.checks import CHECKS
from lnlab.audit.finding import Finding, Severity
from lnlab.audit.inspection import audit
from lnlab.audit.paired import Paired, paired
from lnlab.audit.report import Audit
from lnlab.audit.swap import Swap, swap

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
