"""Ba et al. (2016), section 6.7: convolutional networks, declared.

The section states neither net nor data nor number. Its comparison is made with a LeNet at two
sizes of the batch and with a ResNet-8, at one rate for all arms and at each arm's own; its
explanation, units near the boundary, is measured in the trained LeNets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np
import pandas as pd

from lnlab.papers.claims.ba2016_analysis import PAPER
from lnlab.papers.claims.claim import PAPERS, Claim
from lnlab.papers.claims.measurement import (
    Measurement,
    Number,
    Term,
    Tuning,
    declare,
    each,
    over_levels,
)
from lnlab.papers.claims.paired import along, final, logarithm
from lnlab.papers.convolutions import Convolutions

SEEDS = tuple(range(100, 105))
TASK = Convolutions.budget("paper", train_size=10_000, epochs=2, test_size=2_000, seeds=SEEDS)
NETS: Mapping[str, Convolutions] = {
    "LeNet at batch 128": TASK,
    "LeNet at batch 4": replace(TASK, train_size=5_000, epochs=1, batch_size=4),
    "ResNet-8 at batch 128": replace(TASK, architecture="resnet8", epochs=8),
}
SHORT = {
    "LeNet at batch 128": "lenet-128",
    "LeNet at batch 4": "lenet-4",
    "ResNet-8 at batch 128": "resnet8-128",
}
A_TENTH = (
    "on the LeNets' curves without normalization a tenth of the NLL is about twice the "
    "updates, or more: a smaller lead is not told"
)
OPEN = ("nets", "data", "optimizer and rate", "batch", "padding", "epochs", "seeds")
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
TRAINING, TEST = "the first 500 training pictures", "the first 250 test pictures"
TENTH = 0.1
REASON = "the section has no number; less than a tenth is not called better here"
NO_LEAD = (
    "the lag that this explains is seen at batch 128, in the LeNet and in the ResNet-8, at the "
    "shared rate and at own rates; at batch 4 there is none, and its rows stay because they "
    "had been judged"
)
LENGTH = {
    "LeNet at batch 128": "156 updates",
    "LeNet at batch 4": "1,250 updates; batch norm's NLL is that of its running statistics, of "
    "batches of 4",
}
"""The length of the trainings, and what they are read by."""
FASTER, FIFTH = log(1.25), "log 1.25: a fifth fewer updates would be called a speedup"
LEVELS = (
    "log of the ratio of updates until the trend of the training NLL is at a level that both "
    "reach, the mean over 20 levels"
)
WAITS = "the declared seeds were not trained yet"
FRESH, NEWEST = tuple(range(105, 110)), tuple(range(110, 115))
"""Seeds of the LeNets at each arm's own rate: at 100 to 104 they were judged at other rates, at
105 to 109 a speedup by the NLL along the run."""
OWN_RATE = Tuning(
    "learning_rate", RATES, along("valid_nll"), 99, {},
    "by the mean NLL of the first 500 validation pictures (at the end 2,000) along a whole run "
    "of seed 99",
)  # fmt: skip
READ = (
    "these very runs had been judged by the NLL along the run, and somebody who read that had "
    "counted them in updates, which decides none of them"
)
KNOWN = (
    "other seeds had been read so: in the LeNet at batch 128 layer norm took 0.72 to 0.92 of "
    "the updates of none"
)


def faster(
    id: str,
    statement: str,
    arm: str,
    other: str,
    note: str = "",
    *,
    speedup: bool = False,
) -> list[Claim]:
    """The claim that ``arm`` learns faster than ``other``: with each net, at one rate and at
    their own.

    Args:
        speedup: whether they are compared in updates to a level, not by the NLL.
    """
    terms: tuple[Term, ...] = ((1, {"norm": arm}), (-1, {"norm": other}))
    words = {
        "measure": f"{LEVELS}, {arm} over {other}", "margin": FASTER, "reason": FIFTH,
    } if speedup else {
        "measure": f"log of the mean training NLL along the run, {arm} over {other}",
        "margin": TENTH, "reason": REASON,
    }  # fmt: skip
    made = []
    for name, task in NETS.items():
        key = f"{id}-{SHORT[name]}"
        one = Measurement(task, terms, each(logarithm(along("train_nll"))), failed=log(log(10)))
        if speedup:
            one = replace(one, numbers=over_levels("train_nll"), failed=None)
        if lenet := SHORT[name].startswith("lenet"):
            task = replace(task, seeds=NEWEST if speedup else FRESH)
        own = replace(one, task=task, tuning=OWN_RATE)
        for test, known in ((one, READ), (own, KNOWN)):
            tuned = test.tuning is not None
            notes = [note, LENGTH.get(name), "" if speedup else A_TENTH]
            test, declared = declare(
                test, **words, window="the whole run", split=TRAINING,
                seen=known if lenet and speedup else "",
                family=f"convolutions, {name}" + (", own rates" if tuned else ""),
                open=OPEN,
            )  # fmt: skip
            made.append(
                Claim(f"ba2016-6.7-{key}" + ("-own-rates" if tuned else ""),
                      f"{PAPER}, 6.7", f"{statement}: {name}"
                      + (", each arm at its best rate" if tuned else ""),
                      test=test, declared=declared, command=command(test), waits=WAITS,
                      note="; ".join(filter(None, notes)))
            )  # fmt: skip
    return made


def placed(
    id: str, statement: str, arm: str, number: Number, measure: str, margin: float, reason: str,
    note: str = "",
) -> Claim:  # fmt: skip
    """The claim about units by their place, in the LeNets of one arm at batch 128."""
    test, declared = declare(
        Measurement(TASK, ((1, {"norm": arm}),), each(number)),
        measure=f"{measure}, mean over the layers of the LeNet with norm {arm}, zeros around",
        window="the end of the run", split=TEST, margin=margin, reason=reason,
        family="convolutions, places", open=OPEN,
    )  # fmt: skip
    return Claim(
        f"ba2016-6.7-{id}", f"{PAPER}, 6.7", statement, test=test, declared=declared,
        command=command(test), waits=WAITS, note=note or NO_FRAME,
    )  # fmt: skip


def command(test: Measurement) -> str:
    """The runs of a claim on CIFAR-10, which is fetched first."""
    return "lnlab data fetch cifar10 && " + test.command()


def ratio(metric: str, other: str) -> Number:
    """The logarithm of one metric over another at the end of a run."""

    def number(metrics: pd.DataFrame) -> float:
        return float(np.log(final(metric)(metrics) / final(other)(metrics)))

    return number


def shift(metrics: pd.DataFrame) -> float:
    """The distance of border and middle at the end of a run; negative."""
    return -final("border_shift")(metrics)


BOUNDARY = (
    "units whose receptive fields lie near the boundary of the image are rarely turned on"
)
RARELY = "rarely: at most half as often as in the middle"
EXPLAINS = (
    "their other statistics are why layer norm lags: over the units of each position alone it "
    "learns faster than over all positions"
)
NO_FRAME = "pictures of CIFAR-10 have no dark border, as those of handwritten digits have"
OURS = "the paper gives the explanation and does not test it; this test of it is ours"

CLAIMS: Sequence[Claim] = [
    *faster(
        "baseline", "in convolutional nets layer norm offers a speedup over no normalization",
        "layer", "none", speedup=True,
    ),
    *faster(
        "batch", "in convolutional nets batch norm outperforms the other methods, layer norm",
        "batch", "layer",
    ),
    *faster(
        "batch-none",
        "in convolutional nets batch norm outperforms the other methods, no normalization",
        "batch", "none",
    ),
    *faster(
        "explanation", EXPLAINS, "layer, per position", "layer", f"{OURS}; {NO_LEAD}",
        speedup=True,
    ),
    placed(
        "similar",
        "with fully connected layers all units tend to make similar contributions to the "
        "prediction, which is no longer true of convolutional ones",
        "layer", ratio("dense_deviation", "map_deviation"),
        "log of the relative deviation of the units' shares in the loss, |h dL/dh|, dense over "
        "convolutional",
        log(2), "similar: at most half as unlike",
        note="by the share of a unit in the loss, |h dL/dh|, one measure of several; it comes "
        "out the other way: dense units are 1.64 to 1.85 times as unlike as convolutional "
        "ones, less than the factor 2 that was declared",
    ),
    *(
        placed(f"boundary-{arm}", f"{BOUNDARY}, norm {arm}", arm,
               ratio("border_active", "center_active"),
               "log of the part of cases in which a unit is on, the outermost ring of a map "
               "over its middle half", log(2), RARELY)
        for arm in ("none", "layer")
    ),
    *(
        placed(f"statistics-{arm}",
               "units near the boundary have very different statistics from the rest of their "
               f"layer, norm {arm}", arm, shift,
               "less the distance of the means of the summed inputs, ring and middle half, in "
               "pooled deviations (Cohen's d), mean over units", 0.8,
               "what Cohen (1988) calls large")
        for arm in ("none", "layer")
    ),
]  # fmt: skip


# The rates at which a net still learns, and what of it scale invariance is the reason for.
#
# What is called stable is a net that still learns at rates at which another does not: Ba et al.
# (2016), 5.2, of the sigma of layer norm; Ziaee & Çano (2022), 2, of batch norm, whose sentence
# rests on Gitman & Ginsburg (2017), who compare it with weight norm. Weight norm is what can
# decide why: its output does not change with the scale of W either, and it reads no statistic
# of the data.


STABILITY_RATES = (3e-3, 1e-2, 3e-2, 1e-1)
"""The second largest of the rates among which arms choose in 6.7, and three above it: each is
about three times the last."""
LENET = replace(TASK, epochs=4)
"""The LeNet of Ba et al. (2016), 6.7, here: 312 updates of Adam at batch 128."""


def at_every_rate(*signed: tuple[int, str]) -> tuple[Term, ...]:
    """Terms of arms with their signs, each at all of :data:`RATES`."""
    return tuple(
        (s, {"norm": norm, "learning_rate": g}) for s, norm in signed for g in STABILITY_RATES
    )


def share_of_error(frame: pd.DataFrame) -> float:
    """The validation error at the end, over the number of rates: a sum over them is a mean."""
    return final("valid_error")(frame) / len(STABILITY_RATES)


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
) -> Claim:
    """The claim of a paper that a sum of mean errors over the rates is below 0."""
    test, declared = declare(
        Measurement(
            replace(LENET, seeds=tuple(seeds)), terms, each(share_of_error),
            failed=0.9 / len(STABILITY_RATES),
        ),
        measure="validation error, the mean over the rates "
        f"{', '.join(map(str, STABILITY_RATES))}, {measure}",
        window="the end of 4 epochs of 10,000 pictures", split="the first 2,000 pictures of "
        "validation", margin=0.02,
        reason="two points: twice the standard deviation of an error on 2,000 pictures",
        family=family, open=("net", "data", "rates", "what stable means"), seen=seen,
    )  # fmt: skip
    return Claim(
        f"{PAPERS[cited]}-{id}", f"{cited}, {section}", statement, test=test,
        declared=declared, command=command(test), waits=WAITS, note=note,
    )  # fmt: skip
