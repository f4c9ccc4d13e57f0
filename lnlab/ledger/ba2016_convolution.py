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

from lnlab.ledger.ba2016_analysis import PAPER
from lnlab.ledger.claim import Claim
from lnlab.ledger.measurement import Measurement, Number, Term, Tuning, declare, each
from lnlab.ledger.paired import along, final, logarithm
from lnlab.tasks import Convolutions

SEEDS = tuple(range(100, 105))
TASK = Convolutions.budget("paper", pictures=10_000, epochs=2, tested=2_000, seeds=SEEDS)
NETS: Mapping[str, Convolutions] = {
    "LeNet at batch 128": TASK,
    "LeNet at batch 4": replace(TASK, pictures=5_000, epochs=1, batch_size=4),
    "ResNet-8 at batch 128": replace(TASK, net="resnet8", epochs=8),
}
SHORT = {
    "LeNet at batch 128": "lenet-128",
    "LeNet at batch 4": "lenet-4",
    "ResNet-8 at batch 128": "resnet8-128",
}
OPEN = ("nets", "data", "optimizer and rate", "batch", "padding", "epochs", "seeds")
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
SHARE = {name: {"epochs": 1, "pictures": 5_000} for name in NETS}
"""The training in which a rate is tried: one epoch of half the pictures, or of all 5,000."""
TRAINING, TEST = "the first 500 training pictures", "the first 250 test pictures"
TENTH = 0.1
REASON = "the section has no number; less than a tenth would not be called a speedup"
CHOSEN_BY_THE_END = (
    "rates were chosen by the NLL at the end of a run, and what is compared is the mean along "
    "it: an arm whose best rate along the run is another one is behind for it"
)
NO_LEAD = "the lag that this explains is itself seen in one of these settings only"
WAITS = "the declared seeds were not trained yet"
FOUND_LATE = (
    "rates were tried on half of the pictures, as declared; the ledger learned to find such a "
    "grid after these runs had been seen, and changed nothing that was declared"
)


def own_rate(name: str) -> tuple[Tuning, str]:
    """The choice of each arm's rate, in code and in words."""
    words = (
        f"learning_rate of each arm from {', '.join(map(str, RATES))}, by the NLL of the first "
        "2,000 validation pictures after one epoch of 5,000 pictures, seed 99"
    )
    return Tuning("learning_rate", RATES, final("validation_nll"), 99, SHARE[name]), words


def faster(id: str, statement: str, arm: str, other: str, note: str = "") -> list[Claim]:
    """The claim that ``arm`` learns faster than ``other``: with each net, at one rate and at
    their own."""
    terms: tuple[Term, ...] = ((1, {"norm": arm}), (-1, {"norm": other}))
    number = each(logarithm(along("train_nll")))
    made = []
    for name, task in NETS.items():
        tuning, words = own_rate(name)
        for tuned in (False, True):
            late = FOUND_LATE if tuned and task is TASK else ""
            test, declared = declare(
                Measurement(task, terms, number, failed=log(log(10)),
                            tuning=tuning if tuned else None),
                measure=f"log of the mean training NLL along the run, {arm} over {other}",
                window="the whole run", split=TRAINING, margin=TENTH, reason=REASON,
                family=f"convolutions, {name}" + (", own rates" if tuned else ""),
                open=OPEN, tuning=words if tuned else "",
            )  # fmt: skip
            made.append(
                Claim(f"ba2016-6.7-{id}-{SHORT[name]}" + ("-own-rates" if tuned else ""),
                      f"{PAPER}, 6.7", f"{statement}: {name}"
                      + (", each arm at its best rate" if tuned else ""),
                      test=test, declared=declared, command=command(test), waits=WAITS,
                      note="; ".join(filter(None, [note, late, CHOSEN_BY_THE_END * tuned])))
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
        command=command(test), waits=WAITS, note=note,
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
OURS = "the paper gives the explanation and does not test it; this test of it is ours"

CLAIMS: Sequence[Claim] = [
    *faster(
        "baseline", "in convolutional nets layer norm offers a speedup over no normalization",
        "layer", "none",
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
    *faster("explanation", EXPLAINS, "layer, per position", "layer", f"{OURS}; {NO_LEAD}"),
    placed(
        "similar",
        "with fully connected layers all units tend to make similar contributions to the "
        "prediction, which is no longer true of convolutional ones",
        "layer", ratio("unlike_dense", "unlike_map"),
        "log of the relative deviation of the units' shares in the loss, |h dL/dh|, dense over "
        "convolutional",
        log(2), "similar: at most half as unlike",
    ),
    *(
        placed(f"boundary-{arm}", f"{BOUNDARY}, norm {arm}", arm,
               ratio("border_on", "middle_on"),
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
