"""A module of yours, looked at with every probe that applies; its normalizers exchanged."""

from .call import Call
from .checks import CHECKS
from .finding import Finding, Severity
from .inspection import audit
from .paired import Paired, paired
from .report import Audit
from .swap import Swap, swap

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
