"""The curvature of the loss at the parameters as they are."""

from lnlab.analysis.hessian import ends
from lnlab.audit.audited import Audited
from lnlab.audit.finding import CannotCheck, Finding, Result, Severity, number

PRODUCTS = 30
"""Products with the Hessian at most, each some two gradients."""


def check(audited: Audited) -> Result:
    """The outermost eigenvalues of the Hessian, and the learning rate that they allow."""
    if not audited.own_loss:
        raise CannotCheck("no loss was given: curvature is that of a loss.")
    row = ends(audited.objective, steps=PRODUCTS, tolerance=1e-2).row()
    if not row["largest"] and not row["least"]:
        finding = Finding(
            Severity.FACT, audited.name, "the Hessian is 0 in the directions that were tried",
            "on this batch the loss is linear in the parameters, and bounds no learning rate.",
            "see that the loss is the one you train by.",
        )  # fmt: skip
        return Result((finding,), (row,))
    rate = row["largest_rate"]
    error = abs(row["error"] / row["largest"]) if row["largest"] else 0.0
    seen = (
        f"the largest eigenvalue of the Hessian is {number(row['largest'])} "
        f"(± {error:.0%}), the least {number(row['least'])}"
    )
    finding = Finding(
        Severity.FACT, audited.name, seen,
        f"on this batch plain gradient descent is stable below eta = 2/lambda = {number(rate)}"
        + ("; the loss bends down somewhere as well." if row["least"] < 0 else "."),
        "take it as an order of magnitude; of scale-invariant weights lambda ||w||² counts "
        f"({number(row['spherical'])} for all of them).",
    )  # fmt: skip
    return Result((finding,), (row,))
