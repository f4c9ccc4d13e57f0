"""Cases of a batch that see each other in evaluation: an axis that was mistaken, most often."""

from __future__ import annotations

from torch import Tensor

from lnlab.analysis.invariance import EXACT, relative_change
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, listed
from lnlab.audit.watched import Visit
from lnlab.nn.table1 import Statistics

ALONE = 0, 1
"""The cases that are tried: two, as one may have the largest value, which counts for all."""


def check(audited: Audited) -> Result:
    """The change of what a case gets, part by part, when all others become as it is.

    Evaluation is asked, where no statistics over cases are those of the batch.
    """
    cases = len(audited.x)
    if cases < 2:
        raise CannotCheck("the input has one case.")
    exact = 1e3 * EXACT.get(audited.wide or audited.dtype, 1e-3)
    own = _calls(audited, audited.x)
    moved: dict[str, float] = {}
    for n in ALONE:
        other = _calls(audited, audited.x[n].expand_as(audited.x))
        for name in own.keys() & other.keys():
            by = _moved(own[name], other[name], n, cases)
            if by is not None:
                moved[name] = max(by, moved.get(name, 0.0))
    if "" not in moved:
        raise CannotCheck("no output has an entry a case.")
    rows = tuple({"part": n, "moved": moved[n]} for n in own if n in moved)
    if moved[""] <= exact:
        return Result(rows=rows)
    first = next(row["part"] for row in rows if not row["moved"] <= exact)
    finding = Finding(
        Severity.RISK, listed([first]),
        f"in evaluation the output of a case moves by {moved['']:.2g} of its size when the "
        "others are replaced",
        "what a case gets depends on its batch, if the first axis of the input is that of "
        "cases; here it is first seen.",
        "look for an axis that is mistaken (batch_first, dim=0, a transpose); nothing, where "
        "the first axis is another, of steps or nodes.",
    )  # fmt: skip
    return Result((finding,), rows)


def _calls(audited: Audited, x: Tensor) -> dict[str, Visit]:
    """The last call of each part, in the order of the computation, the module itself last."""
    return {visit.name: visit for visit in audited.watch(x, Statistics.FROZEN).visits}


def _moved(one: Visit, other: Visit, n: int, cases: int) -> float | None:
    """The change of what a part made of case n; None where nothing has an entry a case."""
    changes = [
        relative_change(b[n], a[n])
        for a, b in zip(one.made, other.made, strict=False)
        if a.is_floating_point() and a.dim() and len(a) == cases and a.shape == b.shape
    ]
    return max(changes, default=None)
