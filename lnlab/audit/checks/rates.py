r"""The learning rate that a weight really has.

A weight whose scale the loss does not see turns under a step of size eta as one of length 1
would under :math:`\eta/\lVert w\rVert^2` (van Laarhoven 2017).
"""

from __future__ import annotations

from lnlab.analysis.effective_learning_rate import ROWS, WHOLE
from lnlab.analysis.magnitudes import root_mean_square, vector_norm
from lnlab.audit.audited import Audited
from lnlab.audit.checks.invariances import Held, held
from lnlab.audit.finding import (
    CannotCheck,
    Finding,
    Profile,
    Result,
    Severity,
    counted,
    listed,
    number,
    span,
)

APART = 30.0
"""Effective rates further apart than this have no learning rate that suits both."""


def invariant_ways(tried: Held) -> dict[str, str]:
    """Every weight whose scale is not seen: "whole" or "rows"."""
    rows = tried.weights(3)
    return {name: ROWS if name in rows else WHOLE for name in tried.weights(1)}


def check(audited: Audited) -> Result:
    """Length, effective rate and turning of every scale-invariant weight."""
    invariant = invariant_ways(held(audited))
    if not invariant:
        raise CannotCheck("the loss sees the scale of every weight: rates are what they say.")
    weights = dict(audited.module.named_parameters())
    rows = []
    for name, kind in invariant.items():
        W = weights[name].detach()
        length = float(
            root_mean_square(vector_norm(W.flatten(1), 1)) if kind == ROWS else vector_norm(W)
        )
        inverse = 1 / length if length else float("inf")
        rows.append(
            {"weight": name, "invariant": kind, "length": length,
             "effective rate / rate": inverse * inverse}
        )  # fmt: skip
    rates = [r["effective rate / rate"] for r in rows]
    note = "Of weights whose rows are invariant, length is the root mean square of a row's."
    profile = Profile(
        "Effective learning rates", "1 / ||w||²", tuple(invariant), {"1/||w||²": tuple(rates)}
    )
    return Result(tuple(_findings(rows)), tuple(rows), note, profile if len(rows) > 2 else None)


def _findings(rows: list[dict]) -> list[Finding]:
    rate = "effective rate / rate"
    least, most = min(rows, key=lambda r: r[rate]), max(rows, key=lambda r: r[rate])
    names = [r["weight"] for r in rows]
    found = [
        Finding(
            Severity.FACT, listed(names),
            f"a step turns {counted(len(rows), 'weight')} as if the learning rate were eta "
            f"times {span(number(least[rate]), number(most[rate]))}",
            "weight decay does not make them simpler: it keeps them short, and so the "
            "effective rate up.",
            "tune rate and decay by their product (an angle of sqrt(2 eta lambda) a step), "
            "and change neither alone.",
        )
    ]  # fmt: skip
    for kind in (ROWS, WHOLE):
        own = sorted((r for r in rows if r["invariant"] == kind), key=lambda r: r[rate])
        if own and own[-1][rate] > APART * own[0][rate]:
            found.append(
                Finding(
                    Severity.RISK, f"{own[-1]['weight']} and {own[0]['weight']}",
                    "effective rates are apart by a factor of "
                    f"{number(own[-1][rate] / own[0][rate])}",
                    "under plain gradient descent one turns fast while the other hardly moves.",
                    "start them at one length of row, or use an optimizer with a scale of its "
                    "own for each (Adam, LAMB).",
                )
            )  # fmt: skip
    return found
