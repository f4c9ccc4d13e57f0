"""The numbers that pass: outlier channels, rank, saturation, growth with depth."""

from __future__ import annotations

import math

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from lnlab.analysis.magnitudes import root_mean_square
from lnlab.analysis.recorder import as_matrix, mean_cosine, stable_rank
from lnlab.analysis.subject import Site
from lnlab.audit.audited import Audited
from lnlab.audit.finding import (
    CannotCheck,
    Finding,
    Profile,
    Result,
    Severity,
    counted,
    listed,
    number,
)
from lnlab.audit.watched import Visit

OUTLIER = 6.0
"""A channel whose root mean square is so many times the median channel's is an outlier, the
bound of Dettmers et al. (2022, arXiv:2208.07339) for one number against the rest."""

ALIKE = 0.98
"""Cases whose mean cosine is above this can hardly be told apart. (Behind a ReLU all numbers
are positive, and two thirds is nothing special.)"""

FEW = 3
"""Among so few units cases point the same way by chance."""

FLAT = {"tanh": 2.0, "sigmoid": 4.0, "hardtanh": 1.0, "hardsigmoid": 3.0, "softsign": 3.0}
"""|a| beyond which the slope of f is below a fourteenth of its largest, tanh'(2) = 0.07; that
of softsign a sixteenth."""

SATURATED = 0.5
"""A nonlinearity of which more than this fraction is flat passes little gradient."""


def check(audited: Audited) -> Result:
    """Size, outlier channels, stable rank and mean cosine of what each part makes."""
    visits = [v for v in audited.course if _judged(v)]
    if not visits:
        raise CannotCheck("no part makes a matrix of numbers.")
    rows = [_row(v) for v in visits]
    flat = _saturation(audited.subject().see().inside)
    profile = Profile(
        "Sizes over depth", "root mean square", tuple(v.name or "output" for v in visits),
        {"root mean square": tuple(r["rms"] for r in rows)},
    )  # fmt: skip
    findings = [*_of_rows(rows), *_of_saturation(flat)]
    return Result(tuple(findings), tuple(rows), profile=profile if len(rows) > 2 else None)


def _judged(visit: Visit) -> bool:
    """True if a part without parts made a matrix of numbers that it had not been given."""
    if any(visit.part.children()) or isinstance(visit.part, _DropoutNd | nn.Identity):
        return False
    made = visit.made[0] if visit.made else None
    return made is not None and made.is_floating_point() and made.dim() > 1


def _row(visit: Visit) -> dict:
    A = as_matrix(visit.made[0])
    finite = bool(A.isfinite().all())
    channels = root_mean_square(A, 0)
    median = float(channels.median())
    top = float(channels.max())
    return {
        "where": visit.name,
        "rms": float(root_mean_square(A)),
        "outlier": top / median if median else math.nan,
        "outliers": int((channels > OUTLIER * median).sum()) if median else 0,
        "rank": stable_rank(A) if finite and top else math.nan,
        "of": min(A.shape),
        "units": A.shape[1],
        "cosine": mean_cosine(A),
        "finite": finite,
    }


def _saturation(sites: list[Site]) -> dict[str, float]:
    """The fraction of its inputs where it is flat, of each bounded f."""
    found = {}
    for site in sites:
        f = site.name.rpartition(": ")[2]
        if f in FLAT and site.h is not None:
            found[site.name] = float((site.a.abs() > FLAT[f]).double().mean())
    return found


def _of_rows(rows: list[dict]) -> list[Finding]:
    found = []
    broken = [r["where"] for r in rows if not r["finite"]]
    if broken:
        found.append(
            Finding(
                Severity.FAULT, listed(broken), "NaN or infinities come out",
                "everything behind them is lost.",
                "look at the first of these parts: its input, its eps, its weights.",
            )
        )  # fmt: skip
    out = [r for r in rows if r["outliers"] and r["of"] > 3]
    if out:
        worst = max(out, key=lambda r: r["outlier"])
        found.append(
            Finding(
                Severity.RISK if worst["outlier"] > 5 * OUTLIER else Severity.FACT,
                listed([f"{r['where']} ({counted(r['outliers'], 'channel')})" for r in out]),
                f"a channel of {worst['where']} is {number(worst['outlier'])} times the median",
                "a few channels carry most of the length: in low precision they take the range "
                "from the others, and sigma is theirs.",
                "keep them in mind before quantizing; look at the gain of the normalizer.",
            )
        )  # fmt: skip
    alike = [r["where"] for r in rows if r["cosine"] > ALIKE and r["units"] > FEW]
    if alike:
        found.append(
            Finding(
                Severity.RISK, listed(alike),
                f"all cases point the same way (mean cosine above {ALIKE:g})",
                "the cases can hardly be told apart there: what differs is a small part of it.",
                "subtract what is common: let a normalizer remove the mean.",
            )
        )  # fmt: skip
    return found


def _of_saturation(flat: dict[str, float]) -> list[Finding]:
    worst = {n: s for n, s in flat.items() if s > SATURATED}
    if not worst:
        return []
    return [
        Finding(
            Severity.RISK, listed([f"{n} ({s:.0%})" for n, s in worst.items()]),
            "more than half of the inputs of a bounded f are where it is flat",
            "its slope is below a fourteenth there: little gradient passes.",
            "smaller weights in front of it, or a normalizer.",
        )
    ]  # fmt: skip
