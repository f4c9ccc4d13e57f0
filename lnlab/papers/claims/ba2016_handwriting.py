"""Ba et al. (2016), section 6.5: what it claims of handwriting, declared.

For IAM-OnDB as the authors have it, whose licence forbids to give it on; and for lines of
UNIPEN, at a size for two cores, for 30 epochs and for 10. The order of batches depends on seed
and epoch alone, and no rate changes on the way: 10 epochs are the first third of 30. They tell
again what the longer runs tell of the start, and share their error rate.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any, NamedTuple

import pandas as pd

from lnlab.papers.claims.ba2016_analysis import PAPER, claim
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.exact import counted
from lnlab.papers.claims.measurement import (
    Measurement,
    Numbers,
    Term,
    declare,
    each,
    to_common_level,
)
from lnlab.papers.claims.paired import final
from lnlab.papers.claims.rule import Says
from lnlab.papers.handwriting.experiment import Handwriting

SEEDS = tuple(range(100, 105))
IAM = Handwriting.budget("paper", seeds=SEEDS)
LINES = Handwriting.scaled(seeds=SEEDS)
"""3 x 128 units, 30 epochs of 160 updates on 16 lines each."""


class Circumstances(NamedTuple):
    """A setting in which the claims are tested.

    Attributes:
        data: for the command.
        family: whose claims share an error rate.
        points: of a line, about.
        waits: why it is not run.
        note: of its claims.
    """

    task: Handwriting
    data: str
    family: str
    points: int
    waits: str
    note: str = ""


ABSENT = "the declared runs are not all there"
SETTINGS = {
    "": Circumstances(
        IAM, "iam=PATH", "IAM-OnDB", 700, "needs IAM-OnDB, which cannot be given on"
    ),
    "-unipen": Circumstances(LINES, "unipen=PATH", "UNIPEN", 320, ABSENT),
    "-unipen-10": Circumstances(
        replace(LINES, epochs=10), "unipen=PATH", "UNIPEN", 320, ABSENT,
        "the first third of the 30 epochs of the claim on UNIPEN, which is not another witness",
    ),
}  # fmt: skip
STATED: dict[str, Any] = {
    name: value
    for name, value in IAM.config().items()
    if name
    in (
        "data",
        "units",
        "layers",
        "components",
        "window_components",
        "batch_size",
        "max_points",
    )
}
OPEN = (
    "seeds",
    "which 500 points of a line: the first, in training and where it is judged",
    "initialisation, learning rate, the length of the training, what is cut of gradients: "
    "Adam's own rate, 1e-3, and Graves (2013) where it says it",
)
LESS: tuple[Term, ...] = ((1, {"norm": "layer"}), (-1, {"norm": "none"}))
VALIDATION = "validation; of UNIPEN nine people whom nobody trained on"
MUCH = round(log(1.5), 2)
EARLY = "after 10 epochs both still learn; it is layer norm that is ahead"
STABLE = Handwriting.scaled(
    seeds=tuple(range(105, 110)), units=(64,), layers=2, updates=800, eval_every=40
)
HARD, EASY = {"batch_size": 8, "max_points": 0}, {"batch_size": 64, "max_points": 80}
"""Few lines at once, whole; and many, their first points alone."""
COMPARABLE = 16
"""Nats a line, half of what Graves (2013) gains by regularizing such a net."""


def claim_of(
    id: str,
    end: str,
    statement: str,
    numbers: Numbers,
    margin: float,
    note: str = "",
    **words: Any,
) -> Claim:
    """A claim in one of the settings."""
    where = SETTINGS[end]
    note = "; ".join(filter(None, (where.note, note)))
    test, declared = declare(
        Measurement(where.task, LESS, numbers, STATED), split=VALIDATION, margin=margin,
        family=f"handwriting, {where.family}", open=() if end else OPEN, **words,
    )  # fmt: skip
    return Claim(
        f"ba2016-6.5-{id}{end}", f"{PAPER}, 6.5, Fig. 5", statement, test=test,
        declared=declared, command=test.command(where.data), waits=where.waits, note=note,
    )  # fmt: skip


def sooner(id: str, end: str, of: str, unit: str) -> Claim:
    """The claim about time, in one of its units."""
    return claim_of(
        id, end, f"handwriting generation with LN converges much faster, in {unit}",
        to_common_level("valid_nll", of), MUCH,
        measure=f"log of the ratio of {unit} until the trend of the log loss is at a level "
        "that both reach, layer over none",
        window="the whole run",
        reason="log 1.5, for the paper has no number: less than 1.5 for sure is not called "
        "much; above it, that LN is faster at all is what is tested, and the ratio stands "
        "beside",
    )  # fmt: skip


def comparable(end: str) -> Claim:
    """The claim that both arms end alike."""
    points = SETTINGS[end].points
    return claim_of(
        "comparable", end,
        "handwriting generation with LN converges to a comparable log likelihood",
        each(final("valid_nll")), round(COMPARABLE / points, 3),
        measure="log loss, layer less none, nats a point", window="the end of the run",
        reason=f"{COMPARABLE} nats a line of {points} points, half of what Graves (2013) gains "
        "by regularizing such a net",
        note=EARLY if end == "-unipen-10" else "", says=Says.SAME,
    )  # fmt: skip


def pair_by_pair(frames: Sequence[pd.DataFrame]) -> list[float]:
    """The logarithm of the updates of four runs; each two have a level of their own."""
    times = to_common_level("valid_nll")
    return [*times(frames[:2]), *times(frames[2:])]


def important() -> Claim:
    """The reason for the experiment, as what layer norm gains where it is said to matter."""
    terms: tuple[Term, ...] = tuple(
        (sign * of, {**arm, **where})
        for where, of in ((HARD, 1), (EASY, -1))
        for sign, arm in LESS
    )
    test, declared = declare(
        Measurement(STABLE, terms, pair_by_pair, STATED),
        measure="log of the ratio of updates until the trend of the log loss is at a level "
        "that both reach, layer over none: in batches of 8 whole lines, less the same in "
        "batches of 64 of whose lines the first 80 points are read",
        window="800 updates", split=VALIDATION, margin=round(log(1.25), 2),
        reason="log 1.25: what layer norm saves there and not here is a fifth of the updates",
        family="handwriting, UNIPEN, batches and lengths",
    )  # fmt: skip
    return Claim(
        "ba2016-6.5-stable", f"{PAPER}, 6.5",
        "small mini-batches and very long sequences make stable hidden dynamics important",
        test=test, declared=declared, command=test.command("unipen=PATH"), waits=ABSENT,
        note="the reason for the experiment and no result of it: it is taken to say that layer "
        "norm, which is to give them, gains more there; nets of 2 x 64, one rate, lines of "
        "some 320 points",
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
    *(sooner("faster", end, "update", "updates") for end in SETTINGS),
    *(
        sooner("faster-seconds", end, "cpu_seconds", "seconds of the processor")
        for end in SETTINGS
    ),
    *(comparable(end) for end in SETTINGS),
    important(),
]  # fmt: skip
