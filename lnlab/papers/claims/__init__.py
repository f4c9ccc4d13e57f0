"""The ledger: every statement of the three papers, what tests it, and its verdict.

What stands here reads verdicts that are kept, without torch; :mod:`lnlab.papers.claims.judging`
makes them.
"""

from lnlab.analysis.statistics import ends, interval
from lnlab.papers.claims.kept import (
    ROOTS,
    current,
    entries,
    faults,
    frame,
    judge,
    markdown,
    table,
)
from lnlab.papers.claims.rule import Verdict

__all__ = [
    "ROOTS",
    "Verdict",
    "current",
    "ends",
    "entries",
    "faults",
    "frame",
    "interval",
    "judge",
    "markdown",
    "table",
]
