"""Ba et al. (2016), section 6.6: invariance to scale, wanted in hidden layers and not behind.

"Layer normalization is invariant to input re-scaling which is desirable for the internal hidden
layers. But this is unnecessary for the logit outputs where the prediction confidence is
determined by the scale of the logits."
"""

from math import log

from lnlab.ledger.ba2016_analysis import PAPER, untested
from lnlab.ledger.ba2016_mnist import (
    ERROR,
    MNIST,
    ONE_RATE,
    OPEN,
    SPEED,
    STATED,
    TENTH,
    WAITS,
    Read,
)
from lnlab.ledger.claim import Claim
from lnlab.ledger.measurement import Measurement, Term, declare, each
from lnlab.ledger.paired import logarithm
from lnlab.ledger.rule import Says

OFF: tuple[Term, ...] = (
    (1, {"norm": "layer"}),
    (-1, {"norm": "layer everywhere"}),
)
"""Layer norm of the hidden layers alone, less that of the logits as well."""


def unnecessary(name: str, read: Read) -> Claim:
    """The claim that a number is at most a tenth larger where the logits are not normalized."""
    test, declared = declare(
        Measurement(
            MNIST[128], OFF, each(logarithm(read.number)), STATED, failed=log(read.failed)
        ),
        measure=f"log of {read.words}, layer norm of the hidden layers over that of the logits "
        "as well",
        window=read.window, split=read.split, margin=TENTH, says=Says.AT_MOST,
        reason="a tenth is what matters in the other rows of 6.6", open=OPEN,
        family="layer norm of the logits", date="2026-11-25",
        seen="the runs whose logits are not normalized, of these very seeds; that batch norm "
        "of the logits raises the loss: they cannot be as sure",
    )  # fmt: skip
    return Claim(
        f"ba2016-6.6-logits-{name}", f"{PAPER}, 6.6",
        "layer norm is unnecessary for the logits, whose scale determines the confidence of "
        f"the prediction: without it {read.words} is no larger, at batch 128",
        test=test, declared=declared, waits=WAITS, note=ONE_RATE,
        command="lnlab data fetch mnist && " + test.command(),
    )  # fmt: skip


CLAIMS = [
    unnecessary("error", ERROR),
    unnecessary("nll", SPEED),
    untested(
        "6.6-desirable", "6.6",
        "invariance to input re-scaling is desirable for hidden layers",
        would="test error on cases scaled by 0.5 to 2, layer against none",
        waits="not declared yet",
    ),
]  # fmt: skip
