"""The rates at which a net still learns, and what of it scale invariance is the reason for.

What is called stable is a net that still learns at rates at which another does not: Ba et al.
(2016), 5.2, of the sigma of layer norm; Ziaee & Çano (2022), 2, of batch norm, whose sentence
rests on Gitman & Ginsburg (2017), who compare it with weight norm. Weight norm is what can
decide why: its output does not change with the scale of W either, and it reads no statistic
of the data.
"""

from dataclasses import replace

import pandas as pd

from lnlab.ledger.ba2016_convolution import TASK, WAITS, command
from lnlab.ledger.claim import PAPERS, Before, Claim
from lnlab.ledger.measurement import Measurement, Term, declare, each
from lnlab.ledger.paired import final

RATES = (3e-3, 1e-2, 3e-2, 1e-1)
"""The second largest of the rates among which arms choose in 6.7, and three above it: each is
about three times the last."""
LENET = replace(TASK, epochs=4)
"""The LeNet of Ba et al. (2016), 6.7, here: 312 updates of Adam at batch 128."""


def at_every_rate(*signed: tuple[int, str]) -> tuple[Term, ...]:
    """Terms of arms with their signs, each at all of :data:`RATES`."""
    return tuple((s, {"norm": norm, "learning_rate": g}) for s, norm in signed for g in RATES)


def share_of_error(frame: pd.DataFrame) -> float:
    """The validation error at the end, over the number of rates: a sum over them is a mean."""
    return final("valid_error")(frame) / len(RATES)


def stable(
    cited: str,
    id: str,
    section: str,
    statement: str,
    terms: tuple[Term, ...],
    measure: str,
    *,
    seeds: range,
    family: str,
    seen: str,
    note: str,
    history: tuple[Before, ...] = (),
) -> Claim:
    """The claim of a paper that a sum of mean errors over the rates is below 0."""
    test, declared = declare(
        Measurement(
            replace(LENET, seeds=tuple(seeds)), terms, each(share_of_error),
            failed=0.9 / len(RATES),
        ),
        measure=f"validation error, the mean over the rates {', '.join(map(str, RATES))}, "
        f"{measure}",
        window="the end of 4 epochs of 10,000 pictures", split="the first 2,000 pictures of "
        "validation", margin=0.02, date="2026-11-25",
        reason="two points: twice the standard deviation of an error on 2,000 pictures",
        family=family, open=("net", "data", "rates", "what stable means"), seen=seen,
        version=1 + len(history),
    )  # fmt: skip
    return Claim(
        f"{PAPERS[cited]}-{id}", f"{cited}, {section}", statement, test=test,
        declared=declared, command=command(test), waits=WAITS, note=note,
        history=history,
    )  # fmt: skip
