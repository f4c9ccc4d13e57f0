"""Ziaee & Çano (2022), section 2: batch norm is stable, and its scale invariance is why.

The sentence rests on Gitman & Ginsburg (2017), who compare batch norm with weight norm. Weight
norm is what can decide it: its output does not change with the scale of W either, and it reads
no statistic of the data. What is called stable is a net that still learns at rates at which
another does not.
"""

from dataclasses import replace

import pandas as pd

from lnlab.ledger.ba2016_convolution import TASK, command
from lnlab.ledger.claim import Claim
from lnlab.ledger.measurement import Measurement, Term, declare, each
from lnlab.ledger.paired import final
from lnlab.ledger.ziaee2022_pictures import PAPER, WAITS

RATES = (3e-3, 1e-2, 3e-2, 1e-1)
"""The second largest of the rates among which arms choose in 6.7, and three above it: each is
about three times the last."""
LENET = replace(TASK, epochs=4, seeds=tuple(range(115, 120)))
"""The LeNet of Ba et al. (2016), 6.7, here: 312 updates of Adam at batch 128."""


def at_every_rate(*signed: tuple[int, str]) -> tuple[Term, ...]:
    """Terms of arms with their signs, each at all of :data:`RATES`."""
    return tuple((s, {"norm": norm, "learning_rate": g}) for s, norm in signed for g in RATES)


def share_of_error(frame: pd.DataFrame) -> float:
    """The validation error at the end, over the number of rates: a sum over them is a mean."""
    return final("validation_error")(frame) / len(RATES)


def claim(id: str, statement: str, terms: tuple[Term, ...], measure: str, note: str) -> Claim:
    """One of the two halves of the sentence."""
    test, declared = declare(
        Measurement(LENET, terms, each(share_of_error), failed=0.9 / len(RATES)),
        measure=f"validation error, the mean over the rates {', '.join(map(str, RATES))}, "
        f"{measure}",
        window="the end of 4 epochs of 10,000 pictures", split="the first 2,000 pictures of "
        "validation", margin=0.02, date="2026-11-25",
        reason="two points: twice the standard deviation of an error on 2,000 pictures",
        family="stability of batch norm", open=("net", "data", "rates", "what stable means"),
        seen="at 3e-4 to 1e-2, one seed, none and batch norm",
    )  # fmt: skip
    return Claim(
        f"ziaee2022-{id}", f"{PAPER}, 2", statement, test=test, declared=declared,
        command=command(test), waits=WAITS, note=note,
    )  # fmt: skip


CLAIMS = [
    claim(
        "2-stable",
        "batch norm improves the stability of a training",
        at_every_rate((1, "batch"), (-1, "none")),
        "batch norm's less that of no normalization",
        "a training that ends in no number tells nine in ten wrong",
    ),
    claim(
        "2-scale",
        "batch norm's stability is mainly due to its scale invariance",
        at_every_rate((2, "weight"), (-1, "batch"), (-1, "none")),
        "twice that of weight norm less those of batch norm and of none",
        "weight norm is invariant to the scale of W as batch norm is, and has no statistics of "
        "the data: mainly is taken to be more than half of what batch norm saves over none, "
        "and says something where batch norm saves any",
    ),
]
