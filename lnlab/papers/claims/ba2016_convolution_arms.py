"""Ba et al. (2016), section 6.7, with all arms, each at its own rate: declared.

The section names three methods and says "the other methods". Here they are seven: with the two
layer norms and none, what else normalizes convolutions without a batch. The LeNet learns the
whole of CIFAR-10; the ResNet-8 a fifth of it, in batches of 4 as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan, log, nan
from typing import Any

import pandas as pd

from lnlab.papers.claims.ba2016_analysis import PAPER
from lnlab.papers.claims.ba2016_convolutions import (
    EXPLAINS,
    FASTER,
    FIFTH,
    LEVELS,
    NETS,
    OPEN,
    OURS,
    OWN_RATE,
    REASON,
    TASK,
    TENTH,
    TRAINING,
    WAITS,
    command,
)
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.measurement import (
    Measurement,
    Numbers,
    Term,
    declare,
    each,
    over_levels,
)
from lnlab.papers.claims.paired import along, logarithm
from lnlab.papers.convolutions import Convolutions

SEEDS = tuple(range(120, 123))
RESNET = NETS["ResNet-8 at batch 128"]
FOUR = ("none", "layer", "layer, per position", "group")
"""The others in the ResNet-8."""
SEVEN = (*FOUR, "instance", "weight", "weight standardization")
SETTINGS: dict[str, tuple[str, Convolutions, tuple[str, ...]]] = {
    "lenet-128-whole": (
        "LeNet at batch 128, 45,000 pictures ten times",
        replace(TASK, train_size=0, epochs=10, seeds=SEEDS),
        SEVEN,
    ),
    "lenet-4-whole": (
        "LeNet at batch 4, 45,000 pictures once",
        replace(TASK, train_size=0, epochs=1, batch_size=4, seeds=SEEDS),
        SEVEN,
    ),
    "resnet8-4": (
        "ResNet-8 at batch 4, 10,000 pictures twice",
        replace(RESNET, epochs=2, batch_size=4, seeds=SEEDS),
        FOUR,
    ),
}
"""Words, the experiment and the other methods, by the end of the names of claims."""
BEHIND = "; weight standardization has group norm behind it, as its paper has"
AT_4 = "batch norm's NLL is that of its running statistics, of batches of 4"
ENDS = {
    "lenet-128-whole": "batch and instance norm and weight standardization chose the last rate "
    "of the grid, 0.01: one run of each at 0.03, tried afterwards, is worse",
    "lenet-4-whole": AT_4,
    "resnet8-4": f"{AT_4}; both layer norms and group norm chose the first rate of the grid, "
    "3e-4: one run of each at 1e-4, tried afterwards, is worse",
}
"""Conditions of a row, by its setting."""
SEEN = "other seeds on fewer pictures, but for arms that the paper does not name"
NLL_ALONG = along("train_nll")
NLL = each(logarithm(NLL_ALONG))


def ahead_of_the_best(frames: Sequence[pd.DataFrame]) -> Sequence[float]:
    """The number of the first arm less the least of the others, and 0 in their places.

    One whose training failed has no number and is not the least.
    """
    first, *others = NLL(frames)
    best = min((number for number in others if not isnan(number)), default=nan)
    return [first - best, *(0.0 for _ in others)]


def claim(
    id: str,
    statement: str,
    task: Convolutions,
    arms: tuple[str, ...],
    numbers: Numbers,
    *,
    family: str,
    note: str = "",
    sign: int = -1,
    failed: float | None = None,
    **words: Any,
) -> Claim:
    """The claim that the number of the first arm is less than that of the others.

    Args:
        sign: of the others' numbers; 0 where that of the first has them in it.
    """
    terms: tuple[Term, ...] = (
        (1, {"norm": arms[0]}), *((sign, {"norm": other}) for other in arms[1:]),
    )  # fmt: skip
    test, declared = declare(
        Measurement(task, terms, numbers, failed=failed, tuning=OWN_RATE),
        window="the whole run", split=TRAINING, open=OPEN,
        family=f"convolutions, {family}, own rates", **words,
    )  # fmt: skip
    return Claim(
        f"ba2016-6.7-{id}-own-rates", f"{PAPER}, 6.7",
        f"{statement}: {family}, each arm at its best rate", test=test, declared=declared,
        command=command(test), waits=WAITS, note=note,
    )  # fmt: skip


def faster(id: str, statement: str, arms: tuple[str, str], end: str, note: str = "") -> Claim:
    """The claim that one arm takes fewer updates than another to a level that both reach."""
    name, task, _ = SETTINGS[end]
    return claim(
        f"{id}-{end}", statement, task, arms, over_levels("train_nll"), family=name,
        note="; ".join(filter(None, [note, ENDS[end]])),
        measure=f"{LEVELS}, {arms[0]} over {arms[1]}", margin=FASTER, reason=FIFTH, seen=SEEN,
    )  # fmt: skip


def best(end: str) -> Claim:
    """The claim that batch norm learns faster than each of the others."""
    name, task, others = SETTINGS[end]
    return claim(
        f"batch-all-{end}",
        f"in convolutional nets batch norm outperforms the other methods, all {len(others)}",
        task, ("batch", *others), ahead_of_the_best, family=name, sign=0,
        failed=log(log(10)), seen=SEEN,
        measure="log of the mean training NLL along the run, batch over the least of "
        + ", ".join(others), margin=TENTH, reason=REASON,
        note="the paper compares three methods; which is the least is another one from seed to "
        "seed, perhaps, to the disadvantage of batch norm"
        + BEHIND * ("weight standardization" in others) + f"; {ENDS[end]}",
    )  # fmt: skip


CLAIMS: Sequence[Claim] = [
    *(
        one
        for end in SETTINGS
        for one in (
            faster(
                "baseline",
                "in convolutional nets layer norm offers a speedup over no normalization",
                ("layer", "none"), end,
            ),
            best(end),
            faster("explanation", EXPLAINS, ("layer, per position", "layer"), end, OURS),
        )
    ),
    claim(
        "batch-group-resnet8-128",
        "in convolutional nets batch norm outperforms the other methods, group norm",
        RESNET, ("batch", "group"), NLL, family="ResNet-8 at batch 128, group norm",
        failed=log(log(10)), margin=TENTH, reason=REASON,
        measure="log of the mean training NLL along the run, batch over group",
        seen="batch norm's runs, of these very seeds",
    ),
]  # fmt: skip
