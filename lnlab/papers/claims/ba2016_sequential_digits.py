"""Claims of Ba et al. (2016) about recurrent nets that digits read as a sequence can test.

Their own experiments are others, so that no verdict here is stronger than "also seen".
"""

from dataclasses import replace
from math import log

import pandas as pd

from lnlab.papers.claims.ba2016_analysis import PAPER
from lnlab.papers.claims.ba2016_mnist import TENTH, WAITS, arms
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.measurement import Measurement, Term, declare, each
from lnlab.papers.claims.paired import NumberOfRuns, along, final, logarithm
from lnlab.papers.sequential_digits import SequentialDigits

DIGITS = SequentialDigits.budget("paper", seeds=tuple(range(100, 105)))
PIXELWISE = replace(DIGITS, pixels_per_step=1)
"""As in Cooijmans et al. (2016), of whose gains two of the claims are."""
TWO_PIXELS = "an LSTM that reads 8 x 8 digits in 32 steps of two pixels, not the paper's task"
ONE_PIXEL = "an LSTM that reads 8 x 8 digits pixel by pixel, T = 64, not the paper's task"
REASON = (
    "no number in the paper; a tenth of the other arm's, about what two seeds differ by along "
    "a run; at its end they differ by more"
)


def claim(
    id: str,
    source: str,
    statement: str,
    task: SequentialDigits,
    terms: tuple[Term, ...],
    number: NumberOfRuns,
    measure: str,
    split: str = "the training cases",
    window: str = "the end of the run, epoch 15",
    note: str = "",
) -> Claim:
    """A claim that is tested on digits, as a ratio."""
    test, declared = declare(
        Measurement(task, terms, each(logarithm(number)), failed=log(log(10))),
        measure=f"log of {measure}", window=window, split=split, margin=TENTH, reason=REASON,
        family="digits as sequences",
    )  # fmt: skip
    on = ONE_PIXEL if task.pixels_per_step == 1 else TWO_PIXELS
    return Claim(
        f"ba2016-{id}", f"{PAPER}, {source}", statement, test=test, declared=declared,
        command=test.command(), waits=WAITS, note="; ".join(filter(None, [on, note])),
    )  # fmt: skip


def gains(norm: str) -> tuple[Term, ...]:
    """The gain 0.1 less the gain 1 of one normalizer."""
    return (1, {"norm": norm, "gain": 0.1}), (-1, {"norm": norm, "gain": 1.0})


def turned(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple((-sign, fields) for sign, fields in terms)


ALONG, TEST = along("train_nll"), "the test cases"
ONE_OF_FIVE = (
    "one seed of five came out the other way: outcomes may be of two kinds, and five seeds do "
    "not tell how often each comes"
)
FEW = {"batch_size": 4, "epochs": 2}
MANY = {"batch_size": 32, "epochs": 16}

WATCHED = replace(DIGITS, gradient_factor=True)
"""With what becomes of gradients on their way back in time."""
T = 32
STABLE = {
    "rnn": (
        "3.1-stable", "3.1",
        "the invariance to re-scaling results in much more stable hidden-to-hidden dynamics",
    ),
    "lstm": (
        "abstract-stabilizes", "abstract",
        "layer norm is very effective at stabilizing the hidden state dynamics in recurrent "
        "networks, read at the end of their training",
    ),
}  # fmt: skip
"""Claims about the dynamics, by the cell that each is read of: id, place, words."""


BY_CELL = {
    "rnn": "a tanh RNN that reads 8 x 8 digits in 32 steps of two pixels; one rate for both "
    "arms, 0.003, which is ours. Exploratory: with weights as in the authors' code the "
    "factor is 1.18 to 1.21 before training with layer norm and 0.98 without, after it 1.02 to "
    "1.05 and 1.00 to 1.01",
    "lstm": "an LSTM that reads 8 x 8 digits in 32 steps of two pixels; one rate for both "
    "arms, 0.003, which is ours. Exploratory: after training gradients shrink in all nets, to "
    "0.93 to 0.98 a step with layer norm and to 0.96 to 0.99 without; whoever calls shrinking "
    "stable reads it the other way round. Before training layer norm is the nearer to 1: 1.03 "
    "to 1.25 a step, 0.69 to 0.73 without; from epoch 4 on no more",
}


def steadier(cell: str, start: str, drawn: str) -> Claim:
    """A claim that gradients on their way back keep their size better with layer norm."""
    id, source, statement = STABLE[cell]
    task = replace(WATCHED, cell=cell, initialisation=start)
    test, declared = declare(
        Measurement(task, arms("layer", "none"), each(unsteady), failed=log(10)),
        measure="distance from 0 of the log of the factor by which a gradient grows in a step "
        "back in time, layer less none",
        window="the end of the run, epoch 15", split="the first 100 test cases",
        margin=round(log(2) / (T - 1), 3),
        reason="a factor of two over the 31 steps; the paper has no number",
        family="digits as sequences, dynamics",
        seen="the factor in nets of random weights, 1.022 with layer norm (notebook 06), and "
        "after an epoch of two RNNs of 16 units with layer norm, 1.09 and 1.11",
    )  # fmt: skip
    return Claim(
        f"ba2016-{id}-{start}", f"{PAPER}, {source}", f"{statement}, weights drawn {drawn}",
        test=test, declared=declared, command=test.command(), waits=WAITS,
        note=BY_CELL[cell], paper="a sentence without one",
    )  # fmt: skip


def unsteady(metrics: pd.DataFrame) -> float:
    """The distance of the factor of a gradient in a step back from 1, in logarithms."""
    return abs(log(final("gradient_factor")(metrics)))


CLAIMS = [
    *(
        steadier(cell, start, drawn)
        for cell in STABLE
        for start, drawn in (("paper", "as in the authors' code"), ("modern", "N(0, 1/fan-in)"))
    ),
    *(
        claim(
            f"1-rnn-{name}", "1 and 6",
            "layer normalization improves the training time of recurrent nets: against no "
            f"normalization, per update, weights drawn as {words}",
            replace(DIGITS, initialisation=start), arms("layer", "none"), ALONG,
            "the mean training NLL along the run, layer over none", window="the whole run",
            note=note,
        )
        for name, words, start, note in (
            ("authors", "in the authors' code", "paper", ""),
            ("modern", "N(0, 1/fan-in)", "modern",
             "larger weights help the net without normalization alone"),
        )
    ),
    claim(
        "1-rnn-one-input", "1 and 6",
        "layer normalization improves the training time of recurrent nets: against no "
        "normalization, per update, with a single input a time step",
        PIXELWISE, arms("layer", "none"), ALONG,
        "the mean training NLL along the run, layer over none", window="the whole run",
        note="with D = 1 the layer norm of W_x x in eq. 20 keeps nothing of x but its sign",
    ),
    *(
        claim(
            f"1-rnn-test-{name}", "1 and 6",
            "layer normalization improves the generalization of recurrent nets, weights drawn "
            f"as {words}",
            replace(DIGITS, initialisation=start), arms("layer", "none"), final("test_nll"),
            "the test NLL, layer over none", TEST, note=note,
        )
        for name, words, start, note in (
            ("authors", "in the authors' code", "paper",
             "the initialisation that favours layer norm"),
            ("modern", "N(0, 1/fan-in)", "modern", ""),
        )
    ),
    claim(
        "4-recurrent-bn", "4",
        "recurrent batch norm is best with statistics of each time step: against one pair of "
        "running statistics for all of them",
        replace(PIXELWISE, gain=0.1), arms("batch", "batch pooled"), final("test_nll"),
        "the test NLL, statistics a step over pooled ones", TEST,
        note=f"said of Cooijmans et al. (2016); {ONE_OF_FIVE}",
    ),
    claim(
        "4-recurrent-gain", "4",
        "in recurrent batch norm a gain that starts at 0.1 makes a significant difference",
        PIXELWISE, gains("batch"), final("train_nll"),
        "the training NLL of batch norm, gain 0.1 over gain 1",
        note="said of Cooijmans et al. (2016)",
    ),
    claim(
        "6.2-scale", "6.2",
        "layer norm with gains that start at 1.0 performs significantly better than with 0.1",
        PIXELWISE, turned(gains("layer")), final("train_nll"),
        "the training NLL of layer norm, gain 1 over gain 0.1",
        note=f"said of the attentive reader; {ONE_OF_FIVE}",
    ),
    claim(
        "6.2-gain", "6.2",
        "layer norm is not sensitive to the initial scale in the way recurrent batch norm is: "
        "from gain 0.1 to 1.0 it loses less",
        PIXELWISE, (*turned(gains("layer")), *gains("batch")), final("train_nll"),
        "the training NLL, gain 1 over gain 0.1, layer over batch",
        note="seed by seed the sum of ba2016-6.2-scale and ba2016-4-recurrent-gain, no finding "
        f"apart; said of the attentive reader; {ONE_OF_FIVE}",
    ),
    claim(
        "7-small-batches", "7",
        "recurrent nets benefit most from layer norm in small mini-batches: from 32 cases to 4 "
        "its training NLL suffers less than that without normalization",
        DIGITS,
        ((1, {"norm": "layer", **FEW}), (-1, {"norm": "layer", **MANY}),
         (-1, {"norm": "none", **FEW}), (1, {"norm": "none", **MANY})),
        final("train_nll"), "the training NLL, batch 4 over batch 32, layer over none",
        window="after as many updates: 2 epochs of 4 cases, 16 of 32",
        note="neither net looks at other cases",
    ),
]  # fmt: skip
