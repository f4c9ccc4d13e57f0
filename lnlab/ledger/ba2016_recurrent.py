"""What Ba et al. (2016) claim of recurrent nets, where digits read as a sequence can test it.

Their own experiments are others, so that no verdict here is better than "same direction".
"""

import shlex

from lnlab.ledger.ba2016_analysis import PAPER
from lnlab.ledger.paired import along, better, final, smaller, sturdier
from lnlab.ledger.verdict import Claim, Test
from lnlab.tasks import SequentialDigits

HIGH, LOW = (SequentialDigits.budget("paper", gain=gain) for gain in (1.0, 0.1))
FEW = SequentialDigits.budget("paper", batch_size=4)
MODERN = SequentialDigits.budget("paper", initialisation="modern")
ONE_INPUT = SequentialDigits.budget("paper", pixels=1)
ON_DIGITS = "an LSTM that reads 8 x 8 digits in 32 steps of two pixels, not the paper's task"
TRAIN, TEST = "training NLL (nats)", "test NLL (nats)"


def train(*tasks: SequentialDigits) -> str:
    """The commands that train some arms."""
    plain = SequentialDigits.budget("paper").config()
    return " && ".join(
        " ".join(
            ["lnlab train sequences --budget paper"]
            + [
                f"--set {shlex.quote(f'{field}={value}')}"
                for field, value in task.config().items()
                if value != plain[field] or field == "norm"
            ]
        )
        for task in tasks
    )


def arms(task: SequentialDigits, *norms: str) -> list[SequentialDigits]:
    """A task with each of some normalizers."""
    config = task.config()
    return [SequentialDigits(**{**config, "norm": norm}) for norm in norms]


def claim(
    id: str,
    source: str,
    statement: str,
    test: Test,
    tasks: list[SequentialDigits],
    note: str = "",
    on: str = ON_DIGITS,
) -> Claim:
    """A claim that is tested on digits."""
    note = "; ".join(filter(None, [on, note]))
    return Claim(
        f"ba2016-{id}", f"{PAPER}, {source}", statement, test, train(*tasks), note=note
    )


RECURRENT = [
    *(
        claim(
            f"1-rnn-{name}", "1 and 6",
            "layer normalization improves the training time of recurrent nets: against no "
            f"normalization, per update, weights drawn as {words}",
            better(task, "layer", "none", along("train_nll"), f"mean {TRAIN} along the run"),
            arms(task, "layer", "none"),
            note,
        )
        for name, words, task, note in (
            ("authors", "in the authors' code", HIGH, ""),
            (
                "modern", "N(0, 1/fan-in)", MODERN,
                "larger weights help the net without normalization alone: what layer norm won "
                "from the authors' it won against a badly drawn start",
            ),
        )
    ),
    claim(
        "1-rnn-one-input", "1 and 6",
        "layer normalization improves the training time of recurrent nets: against no "
        "normalization, per update, with a single input a time step",
        better(ONE_INPUT, "layer", "none", along("train_nll"), f"mean {TRAIN} along the run"),
        arms(ONE_INPUT, "layer", "none"),
        "with D = 1 the layer norm of W_x x in eq. 20 keeps nothing of x but its sign; with 2, "
        "4 and 8 pixels a step the verdict is the other one",
        "an LSTM that reads 8 x 8 digits pixel by pixel, T = 64, not the paper's task",
    ),
    claim(
        "1-rnn-test", "1 and 6",
        "layer normalization improves the generalization of recurrent nets",
        better(HIGH, "layer", "none", final("test_nll"), TEST),
        arms(HIGH, "layer", "none"),
    ),
    claim(
        "4-recurrent-bn", "4",
        "recurrent batch norm is best with statistics of each time step: against one pair of "
        "running statistics for all of them",
        better(LOW, "batch", "batch pooled", final("test_nll"), TEST),
        arms(LOW, "batch", "batch pooled"),
        "said of Cooijmans et al. (2016)",
    ),
    claim(
        "4-recurrent-gain", "4",
        "in recurrent batch norm a gain that starts at 0.1 makes a significant difference",
        smaller(HIGH, LOW, "batch", "train_nll", TRAIN, "gain"),
        [*arms(HIGH, "batch"), *arms(LOW, "batch")],
        "said of Cooijmans et al. (2016)",
    ),
    claim(
        "6.2-scale", "6.2",
        "layer norm with gains that start at 1.0 performs significantly better than with 0.1",
        smaller(LOW, HIGH, "layer", "train_nll", TRAIN, "gain"),
        [*arms(HIGH, "layer"), *arms(LOW, "layer")],
        "said of the attentive reader",
    ),
    claim(
        "6.2-gain", "6.2",
        "layer norm is not sensitive to the initial scale in the way recurrent batch norm is: "
        "from gain 0.1 to 1.0 it loses less",
        sturdier(LOW, HIGH, "layer", "batch", "train_nll", TRAIN, "gain"),
        [*arms(HIGH, "layer", "batch"), *arms(LOW, "layer", "batch")],
        "said of the attentive reader",
    ),
    claim(
        "7-recurrent-batch", "7",
        "recurrent nets benefit most from layer norm in small mini-batches: from 32 cases to 4 "
        "its training NLL suffers less than that without normalization",
        sturdier(HIGH, FEW, "layer", "none", "train_nll", TRAIN),
        [*arms(HIGH, "layer", "none"), *arms(FEW, "layer", "none")],
        "neither net looks at other cases; with 4 cases there are eight times as many updates, "
        "of which the slower net makes more",
    ),
]  # fmt: skip
