"""Ba et al. (2016), section 6.5: what it claims of handwriting, declared.

For IAM-OnDB as the authors have it, whose licence forbids to give it on; and for lines of
UNIPEN, at a size for two cores, for 30 epochs and for 10.
"""

from dataclasses import replace
from math import log
from typing import Any

import pandas as pd

from lnlab.ledger.ba2016_analysis import PAPER, claim, untested
from lnlab.ledger.claim import Claim
from lnlab.ledger.convergence import to_common_level
from lnlab.ledger.exact import counted
from lnlab.ledger.measurement import Measurement, Numbers, Term, combined, declare
from lnlab.ledger.paired import final
from lnlab.tasks import Handwriting

SEEDS = tuple(range(100, 105))
IAM = Handwriting.budget("paper", seeds=SEEDS)
LINES = Handwriting.scaled(seeds=SEEDS)
"""3 x 128 units, 30 epochs of 160 updates on 16 lines each."""
SETTINGS = {
    "": (IAM, "iam=PATH", "IAM-OnDB", "needs IAM-OnDB, which cannot be given on"),
    "-unipen": (LINES, "unipen=PATH", "UNIPEN", "the declared runs are not all there"),
    "-unipen-10": (
        replace(LINES, epochs=10), "unipen=PATH", "UNIPEN, 10 epochs",
        "the declared runs are not all there",
    ),
}  # fmt: skip
STATED: dict[str, Any] = {
    name: value
    for name, value in IAM.config().items()
    if name in ("data", "units", "layers", "components", "kappas", "batch_size")
}
OPEN = (
    "seeds",
    "initialisation, learning rate, the length of the training and of lines, what is cut of "
    "gradients: Adam's own rate, 1e-3, and Graves (2013) where it says it",
)
LESS: tuple[Term, ...] = ((1, {"norm": "layer"}), (-1, {"norm": "none"}))
BESIDE: tuple[Term, ...] = ((1, {"norm": "layer"}), (0, {"norm": "none"}))
VALIDATION = "validation; of UNIPEN nine people whom nobody trained on"
MUCH = round(log(1.5), 2)
COMPARABLE = 0.05
"""Nats a point: 16 a line of 316 points, half of what Graves (2013) gains by regularizing such
a net."""


def apart(layer: pd.DataFrame, none: pd.DataFrame) -> float:
    """The size of the difference of log losses at the end, less what is comparable."""
    return abs(final("valid_nll")(layer) - final("valid_nll")(none)) - COMPARABLE


def claims(
    id: str, statement: str, terms: tuple[Term, ...], numbers: Numbers, **words: Any
) -> list[Claim]:
    """A claim on IAM-OnDB, and on UNIPEN's lines for 30 epochs and for 10."""
    made = []
    for end, (task, data, family, waits) in SETTINGS.items():
        more = {} if end else {"open": OPEN}
        test, declared = declare(
            Measurement(task, terms, numbers, STATED), split=VALIDATION,
            family=f"handwriting, {family}", **words, **more,
        )  # fmt: skip
        made.append(
            Claim(f"ba2016-6.5-{id}{end}", f"{PAPER}, 6.5, Fig. 5", statement, test=test,
                  declared=declared, command=test.command(data), waits=waits)
        )  # fmt: skip
    return made


def sooner(id: str, of: str, unit: str) -> list[Claim]:
    """The claim about time, in one of its units."""
    return claims(
        id, f"handwriting generation with LN converges much faster, in {unit}",
        LESS, to_common_level("valid_nll", of),
        measure=f"log of the ratio of {unit} until the trend of the log loss is at a level "
        "that both reach, layer over none",
        window="the whole run", margin=MUCH,
        reason="log 1.5: the paper has no number, and nobody calls less \"much faster\"",
    )  # fmt: skip


def handwriting_weights() -> float:
    """Millions of weights: three layers of 400 LSTM cells, each fed by all that is below.

    The pen (3) and the window (57) reach every layer, every layer the 121 outputs.
    """
    lstm = sum(4 * 400 * (below + 3 + 57 + 400 + 1) for below in (0, 400, 400))
    return (lstm + (400 * 30 + 30) + (3 * 400 * 121 + 121)) / 1e6


CLAIMS = [
    claim(
        "6.5-weights",
        "6.5",
        "the handwriting model has approximately 3.7M weights",
        counted(handwriting_weights, lambda n: abs(n - 3.7) <= 0.05, "millions of weights"),
        paper="3.7M",
        note="without peepholes and normalizers, which add 3,600 and some 5,000",
    ),
    *sooner("faster", "update", "updates"),
    *sooner("faster-seconds", "cpu_seconds", "seconds of the processor"),
    *claims(
        "comparable", "handwriting generation with LN converges to a comparable log likelihood",
        BESIDE, combined(apart),
        measure=f"|log loss a point, layer less none| − {COMPARABLE}, nats",
        window="the end of the run", margin=round(COMPARABLE / 3, 3),
        reason="a third of what is called comparable, 16 nats a line",
    ),
    untested(
        "6.5-stable",
        "6.5",
        "small mini-batches and very long sequences make stable hidden dynamics important",
        would="failures and times against length and batch size",
        waits="no runs over lengths and batch sizes are declared",
    ),
]  # fmt: skip
