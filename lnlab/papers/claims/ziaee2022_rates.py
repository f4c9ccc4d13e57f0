"""Ziaee & Çano (2022), section 4.1, at each arm's own rate, and at batch 1 in one size.

The paper trains all arms at one rate, and its layer is smaller than the others by sqrt(d). What
is said of pictures is declared here once more: each arm at the rate that suits it, and layer
norm in the size of eq. 16.
"""

from typing import Any

import pandas as pd

from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.measurement import Tuning, each
from lnlab.papers.claims.paired import final
from lnlab.papers.claims.ziaee2022_pictures import (
    BLN,
    CHOSEN,
    FEWER,
    NEXT,
    ONE,
    OWN,
    POINT,
    PUBLISHED,
    SHORT,
    TEST,
    TRAINED,
    better_of_two,
    claim,
    less,
    trained,
    way_to_accuracy,
)

RATES = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
"""The published rate, two below it and three above."""
ALONE = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
"""The published rate, three below it and one above, for batches of one."""
TRIED = (97, 98, 99)
"""The seeds of every rate that is tried; the last one chooses."""
SEEDS = tuple(range(110, 115))
FAMILY = "BLN, CIFAR-10, own rates"
RATE = "2e-3 for all arms there; the row of each arm at its own rate is ours"
ALONE_FAMILY = f"{FAMILY}, batch 1"
GUESSES = (
    "without BN, whose output is its bias in batches of one, at any rate; at 2e-3 other seeds "
    "were seen"
)
AT_ONE: dict[str, tuple[str, dict[str, Any], str]] = {
    "ln": ("LN", {"norm": "layer"}, "0.61 against 0.34"),
    "ln-small": ("LN whose gain starts at 1/sqrt(d)", {"norm": "layer, small gain"}, ""),
}


def wrong(frame: pd.DataFrame) -> float:
    """The part of training pictures that are told wrong after the last epoch, in the batches of
    the training; a millionth of their NLL decides between rates that tell as many."""
    return (
        1
        - final("train_accuracy_own_batches")(way_to_accuracy(frame))
        + 1e-6 * final("train_nll_own_batches")(way_to_accuracy(frame))
    )


def least_loss(frame: pd.DataFrame) -> float:
    """The least validation loss after any epoch, whose weights are those that are tested."""
    losses = way_to_accuracy(frame)["valid_nll"].to_numpy(float)
    return float(losses.min())


def by_training(rates: tuple[float, ...]) -> Tuning:
    """The choice of a rate by :func:`wrong`, in a run of seed 99."""
    return Tuning(
        "learning_rate", rates, wrong, TRIED[-1], {}, "by the training errors after the last "
        "epoch, in the batches of the training (of as many: by their NLL), of seed "
        f"{TRIED[-1]}",
    )  # fmt: skip


def by_validation(rates: tuple[float, ...]) -> Tuning:
    """The choice of a rate by :func:`least_loss`, in a run of seed 99."""
    return Tuning(
        "learning_rate", rates, least_loss, TRIED[-1], {}, "by the least validation loss after "
        f"any epoch of seed {TRIED[-1]}",
    )  # fmt: skip


CLAIMS: list[Claim] = [
    *(
        claim(
            f"4-cifar-against-{SHORT[norm]}-25-own-rates", "4.1, Fig. 4",
            "on 20 % of CIFAR-10 BLN has a higher training accuracy than "
            f"{SHORT[norm].upper()} at batch 25, in the very batches of the training, each arm "
            "at its best rate",
            less({"norm": norm}, BLN), trained("train_accuracy_own_batches"), seeds=SEEDS,
            tuning=by_training(RATES), **{**TRAINED, "split": OWN},
            margin=PUBLISHED[norm, 25][2],
            reason="half of what the published logs have between the two", family=FAMILY,
            paper="{} against {}".format(*PUBLISHED[norm, 25]), note=RATE,
        )
        for norm in SHORT
    ),
    claim(
        "4-cifar-test-25-own-rates", "4.1, Fig. 4",
        "BLN obtains better test accuracy, at batch 25, each arm at its best rate",
        ((1, {"norm": "batch"}), (1, {"norm": "layer"}), (-1, BLN)), better_of_two, seeds=SEEDS,
        tuning=by_validation(RATES),
        measure="test accuracy, that of the better of BN and LN less that of BLN",
        window=CHOSEN, split=TEST, margin=0.001, family=FAMILY,
        reason="half of what the published logs have between BLN and BN",
        paper=".455 (best of 16 on the test) against .453 and .423", note=RATE,
    ),
    claim(
        "4-cifar-against-ln-small-1", "4.1, Fig. 4",
        "on 20 % of CIFAR-10 BLN has a higher training accuracy than LN whose gain starts at "
        "1/sqrt(d) at batch 1, a control of its own size",
        less({"norm": "layer, small gain", "batch_size": 1}, BLN | {"batch_size": 1}),
        trained("train_accuracy"), seeds=FEWER, **TRAINED, margin=PUBLISHED["layer", 1][2],
        reason="that of the claim about LN", family="BLN, CIFAR-10, controls, batch 1",
        note="not in the paper; but for the fifth digit BLN is layer norm over sqrt(d) here, "
        "and its gain, 1 at the start, is learned at another pace",
    ),
    *(
        claim(
            f"4-cifar-against-{id}-1-own-rates", "4.1, Fig. 4",
            f"on 20 % of CIFAR-10 BLN has a higher training accuracy than {words} at batch 1, "
            "each arm at its best rate",
            less(other | ONE, BLN | ONE), trained("train_accuracy_own_batches"), seeds=NEXT,
            tuning=by_training(ALONE), **{**TRAINED, "split": OWN},
            margin=PUBLISHED["layer", 1][2],
            reason="half of what the published logs have between BLN and LN",
            family=ALONE_FAMILY, paper=paper, note=f"{RATE}; {GUESSES}",
        )
        for id, (words, other, paper) in AT_ONE.items()
    ),
    claim(
        "4-cifar-test-1-own-rates", "4.1, Fig. 4",
        "BLN obtains better test accuracy than LN, at batch 1, each arm at its best rate",
        less({"norm": "layer"} | ONE, BLN | ONE), each(final("chosen_accuracy")), seeds=NEXT,
        tuning=by_validation(ALONE), measure="test accuracy, that of LN less that of BLN",
        window=CHOSEN, split=TEST, margin=0.01, reason=POINT, family=ALONE_FAMILY,
        note=f"{RATE}; {GUESSES}",
    ),
]  # fmt: skip
