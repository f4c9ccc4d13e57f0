"""Ba, Kiros & Hinton (2016), abstract, sections 1 to 5 and 7: what holds of the equations."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.normalized_layer import NormalizedLayer, random_given, random_shift
from lnlab.analysis.random import normal
from lnlab.nn.normalizer import AffineNormalizer
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS
from lnlab.papers.claims.claim import Claim, equation
from lnlab.papers.claims.claim import restated as restated_of
from lnlab.papers.claims.claim import untested as untested_of
from lnlab.papers.claims.exact import Defect, changed, greatest, readings, unchanged
from lnlab.papers.claims.measurement import Measurement, Tuning, declare, each
from lnlab.papers.claims.paired import NumberOfRuns, along, logarithm
from lnlab.papers.claims.rule import Kind, Says
from lnlab.papers.mnist import PermutationInvariantMNIST

PAPER = "Ba et al. (2016)"
H, D, B = 12, 7, 8
DELTA = 3.7
AFFINE = "part that the best affine map of x leaves of the output, relative"
ALONE = "random W and x, float64, eps = 1e-5"
CONDITIONS = "with eps = 0, delta > 0, no bias inside a, batch statistics"
ALSO = {("layer", 6): "; said again in eq. 7, and as feature scaling in section 7"}
NAMES = {"batch": "batch norm", "weight": "weight norm", "layer": "layer norm"}


def layer(name: str, seed: int) -> NormalizedLayer:
    """A layer with random weights, inputs, gains and biases, and the normalizer ``name``."""
    return NormalizedLayer(ROWS[name], random_given(H, D, B, seed=seed), seed=seed)


def moved(name: str, *columns: int) -> Defect:
    """The defect of transformations, one after the other: the change of a layer's output."""

    def defect(seed: int) -> float:
        here = layer(name, seed)
        given, shift = here.given, random_shift(here.given, seed=seed)
        for column in columns:
            given = TRANSFORMATIONS[column - 1](given, DELTA, shift)
        return relative_change(here.output(given), here.y)

    return defect


def farthest(*defects: Defect) -> Defect:
    """The largest of several defects."""
    return lambda seed: greatest(defect(seed) for defect in defects)


def fewer_cases(name: str, cases: int) -> Defect:
    """The change of the outputs of a batch when it is cut into parts of ``cases``."""

    def defect(seed: int) -> float:
        here = layer(name, seed)
        parts = (here.output(replace(here.given, x=x)) for x in here.given.x.split(cases))
        return relative_change(torch.cat(list(parts)), here.y)

    return defect


def lone_case(seed: int) -> float:
    """The change of batch norm's output of a batch of one when the case is another."""
    given, other = (random_given(H, D, 1, seed=s) for s in (seed, seed + 100))
    here = NormalizedLayer(ROWS["batch"], given, eps=1e-5, seed=seed)
    return relative_change(here.output(replace(given, x=other.x)), here.y)


@torch.no_grad()
def scaled_sums(seed: int) -> float:
    """The change of layer norm's output when all summed inputs are multiplied by delta."""
    here = layer("layer", seed)
    a = here.given.summed_inputs(here.norm)
    return relative_change(here.norm(DELTA * a), here.norm(a))


def scaled_scalars(name: str) -> Defect:
    """The distance of mu and sigma from delta times what they were, when w_1 is so; those of
    the other units must stay."""

    @torch.no_grad()
    def defect(seed: int) -> float:
        here = layer(name, seed)
        W, x, norm = here.given.W, here.given.x, here.norm.train()
        assert isinstance(norm, AffineNormalizer)
        scale = torch.ones(len(W), 1).double()
        scale[0] = DELTA
        before, after = (norm.stats(x @ V.T, V) for V in (W, scale * W))
        return greatest(
            relative_change(a / scale.T, b.expand(len(W)))
            for a, b in zip(after, before, strict=True)
        )

    return defect


def not_affine(name: str) -> Defect:
    """The part that an affine map of x leaves of the outputs of 8 batches, relative.

    0 where the normalized layer is a re-parameterization of one without normalization.
    """

    def defect(seed: int) -> float:
        here, x = layer(name, seed), normal(seed, 4, 8 * B, D)
        batches = (replace(here.given, x=part) for part in x.split(B))
        y = torch.cat([here.output(batch) for batch in batches])
        design = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return relative_change(design @ torch.linalg.lstsq(design, y).solution, y)

    return defect


def before_the_weights(column: int) -> Defect:
    """The change of W LN(x) with one of W: normalization of the input alone."""

    def defect(seed: int) -> float:
        given, norm = random_given(H, D, B, seed=seed), ROWS["layer"].make(D).double()
        plain = NormalizedLayer(ROWS["none"], replace(given, x=norm(given.x).detach()))
        return plain.defect(TRANSFORMATIONS[column - 1], DELTA, random_shift(given, seed=seed))

    return defect


def outputs(name: str, seed: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The W of a layer, and its outputs (B H,) as a function of W."""
    here = layer(name, seed)
    norm, x = here.norm.train(), here.given.x
    return here.given.W, lambda W: norm(x @ W.T, W).flatten()


def not_half(name: str, read: Callable[[Tensor], Tensor]) -> Defect:
    """The distance of what is read of the Jacobian of W at 2 W from half of that at W."""

    def defect(seed: int) -> float:
        W, y = outputs(name, seed)
        J, J_2 = (jacobian(y, V, vectorize=True).flatten(1) for V in (W, 2 * W))
        return relative_change(read(J_2), read(J) / 2)

    return defect


def block(J: Tensor) -> Tensor:
    """The block of W in the Fisher matrix of outputs of unit variance."""
    return J.T @ J


def not_a_quarter(name: str) -> Defect:
    """The distance of the turn of W by a gradient step at 2 W from 1/4 of that at W."""

    def defect(seed: int) -> float:
        W, y = outputs(name, seed)
        toward = normal(seed, 5, B * H)
        step, step_2 = (jacobian(lambda V: toward @ y(V), V) for V in (W, 2 * W))
        return relative_change(4 * step_2 / 2, step)

    return defect


claim = partial(equation, PAPER)
"""A claim that the ledger itself judges."""
untested = partial(untested_of, PAPER)
restated = partial(restated_of, PAPER)
"""A claim that nothing tests yet."""


def table_1() -> list[Claim]:
    """The 18 entries of Table 1, each with its condition."""
    return [
        claim(
            f"table1-{name}-{transformation.column}",
            "5.1, Table 1",
            f"{NAMES[name]} is {'' if cell == 'Y' else 'not '}invariant to "
            f"{transformation.name}",
            (unchanged if cell == "Y" else changed)(moved(name, transformation.column)),
            paper="Invariant" if cell == "Y" else "No",
            note=CONDITIONS + ALSO.get((name, transformation.column), ""),
        )
        for name, cells in TABLE_1.items()
        for transformation, cell in zip(TRANSFORMATIONS, cells, strict=False)
    ]


CLAIMS = [
    claim(
        "abstract-batch-size", "abstract",
        "the effect of batch normalization is dependent on the mini-batch size",
        changed(fewer_cases("batch", B // 2)),
        note="tested by cutting a batch: what changes is which cases stand together; the same "
        "cases twice change nothing",
    ),
    claim(
        "abstract-train-test", "abstract",
        "layer normalization performs exactly the same computation at training and test times",
        unchanged(lambda seed: layer("layer", seed).gap()),
    ),
    claim(
        "abstract-train-test-bn", "abstract",
        "batch normalization does not perform the same computation at training and test times",
        changed(lambda seed: layer("batch", seed).gap()),
    ),
    claim(
        "1-independence", "1",
        "layer normalization does not introduce new dependencies between training cases",
        unchanged(lambda seed: layer("layer", seed).dependence()),
    ),
    claim(
        "1-online-bn", "1",
        "batch normalization cannot be applied to online learning: with one case in the batch "
        "its output says nothing of that case",
        unchanged(lone_case, data=ALONE),
    ),
    claim(
        "3-online", "3",
        "layer normalization puts no constraint on the size of a mini-batch and can be used in "
        "the pure online regime with batch size 1",
        unchanged(fewer_cases("layer", 1)),
    ),
    claim(
        "3.1-rescaling", "3.1, eq. 4",
        "a layer normalized recurrent layer is invariant to re-scaling all its summed inputs",
        unchanged(scaled_sums),
    ),
    claim(
        "4-reparameterization-wn", "4",
        "weight normalization is a different parameterization of the original network",
        unchanged(not_affine("weight"), AFFINE),
    ),
    claim(
        "4-reparameterization-bn", "4",
        "batch normalization using expected statistics is a different parameterization of the "
        "original network",
        unchanged(not_affine("batch, frozen"), AFFINE),
    ),
    claim(
        "4-reparameterization-ln", "4",
        "layer normalization is not a re-parameterization of the original network",
        changed(not_affine("layer"), AFFINE),
    ),
    *table_1(),
    claim(
        "5.1-scalars", "5.1",
        "if the weight vector is scaled by delta, so are mu and sigma under batch and weight "
        "normalization",
        unchanged(
            farthest(scaled_scalars("batch"), scaled_scalars("weight")),
            "change of mu/delta and sigma/delta, relative",
        ),
    ),
    claim(
        "eq6", "5.1, eq. 6",
        "under layer norm, W' = delta W + 1 gamma^T computes the same output",
        unchanged(moved("layer", 1, 2)),
    ),
    *(
        claim(
            f"5.1-input-only-{column}", "5.1",
            f"normalization applied only to the input before the weights is not invariant to "
            f"{TRANSFORMATIONS[column - 1].name}",
            changed(before_the_weights(column)),
            note="so of Table 1's weight columns none holds for the W behind a pre-LN",
        )
        for column in (1, 2)
    ),
    claim(
        "5.1-all-rescaling", "5.1",
        "all the normalization methods are invariant to re-scaling the dataset",
        unchanged(farthest(*(moved(name, 4) for name in TABLE_1))),
        note="contradicts the paper's own Table 1, which is right: weight norm is not",
    ),
    claim(
        "5.2-half", "5.2.2",
        "when the norm of w_i doubles, the curvature along w_i changes by a factor 1/2",
        readings({
            "of the block of w in the Fisher matrix": unchanged(
                farthest(*(not_half(name, block) for name in TABLE_1)),
                "distance of F_ww at 2 W from F_ww/2, relative",
            ),
            "of its root, which ds is linear in": unchanged(
                farthest(*(not_half(name, lambda J: J) for name in TABLE_1)),
                "distance of the Jacobian at 2 W from a half, relative",
            ),
        }),
        kind=Kind.READING,
        note="the block of w scales by 1/4 (by eq. 13, too); its square root, ds, halves. W as "
        "a whole: doubling one w_i alone leaves the output only under batch and weight norm",
    ),
    claim(
        "5.2-orientation", "5.2.2",
        "during learning, it is harder to change the orientation of a weight vector with large "
        "norm",
        unchanged(
            farthest(*map(not_a_quarter, TABLE_1)),
            "distance of the turn by a gradient step at 2 W from a quarter, relative",
        ),
        note="a quarter as far at twice the norm: half the gradient, twice the length; W as a "
        "whole: doubling one w_i alone leaves the output only under batch and weight norm",
    ),
    claim(
        "7-shifting", "7",
        "layer normalization is invariant to per training-case feature shifting",
        readings({
            "of the inputs, x_n + c 1": unchanged(moved("layer", 9)),
            "of the summed inputs, a_n + c 1": unchanged(moved("layer", 7)),
        }),
        kind=Kind.READING,
        note="W turns the shift of an input into another one for each unit; it holds for a "
        "layer norm in front of W. Scaling, in the same sentence, is ba2016-table1-layer-6",
    ),
]  # fmt: skip


# Claims of covariate shift and smoothness, judged by gradient descent of two perceptrons.
#
# Plain descent, so that a step is the gradient times the rate, whatever came before. The step
# that is measured has the training's rate; it is tried on 500 cases, always the same, where the
# training's own is of a batch of 128. Nets that learn at different speeds are compared over the
# same way, from the start to a tenth of the loss, and never by the step.


RATE = 0.1
DIGITS = PermutationInvariantMNIST.budget(
    "notebook", solver="sgd", learning_rate=RATE, step_effects=True, updates=200,
    seeds=tuple(range(115, 130)),
)  # fmt: skip
MNIST = PermutationInvariantMNIST.budget(
    "paper", solver="sgd", learning_rate=RATE, step_effects=True, updates=300, eval_every=10,
    seeds=tuple(range(105, 110)),
)  # fmt: skip
NETS = {"": DIGITS, "-mnist": MNIST}
"""Experiments by the end of the claim's id: digits 128-128, 15 seeds; MNIST 1000-1000, 5."""
FRESH_NETS = {
    "": replace(DIGITS, seeds=tuple(range(130, 145))),
    "-mnist": replace(MNIST, seeds=tuple(range(110, 115))),
}
"""The same, with seeds that nobody has seen."""
FETCH = {"": "", "-mnist": "lnlab data fetch mnist && "}
WAITS = "the declared seeds were not trained yet"
TENTH = 0.1
WINDOW = (
    "the way from the start until the training NLL is at a tenth of what it was, a moment "
    "between two looks, straight in the logarithm; a run that never comes there has no number"
)
SPLIT = "the first 500 training cases, always the same"
SEEN = (
    "sums over the way were looked at in the runs of the earlier version (seeds 100 to 114, "
    "on MNIST 100 to 104), the change of gradients in seeds 0 to 2 on the digits, and all of "
    "it in those of the version before; on MNIST four looks at seed 105 chose where to look, "
    "and runs on the digits had been begun and were thrown away unread"
)
LOOKED_AT = (
    "seeds 0 and 1 of 64-64 units, 6 epochs, were looked at when the measures were written, "
    "and earlier windows, which the history names"
)
ONE_RATE = (
    "both arms are trained at one rate, at which layer norm comes to a tenth in half as "
    "many updates, on MNIST in 0.3 of them. A sum over the way takes the number of steps "
    "out of it, not how far they overshoot: at half the rate the way is shorter in both arms "
    "(the drift on the digits by 0.33 without and 0.35 with layer norm, seeds 0 and 1: "
    "exploratory, of runs that are not kept), so that at rates which take as many steps layer "
    "norm might drift less; at the angle nobody looked. On MNIST the rate overshoots in both "
    "arms; with layer norm the loss first rises to two or three times its start"
)
AN_UPDATE = {
    "mean_shift": "means move by 0.030 to 0.044 deviations against 0.015 to 0.021 without, on "
    "MNIST "
    "by 0.064 to 0.076 against 0.019 to 0.023",
    "gradient_angle": "gradients turn by 0.33 to 0.56 radians against 0.19 to 0.27 without, on "
    "MNIST by "
    "0.54 to 0.68 against 0.26 to 0.30",
}
"""The words of one update: by the seed, means over the looks of the way to a tenth."""
MORE_EACH = (
    "exploratory: in a single update of layer norm {}; where its sum is smaller, it is for "
    "fewer updates"
)
SIXTH = "half of the sixth by which the angle of the exploratory runs differed"
CHOSEN = "the window was chosen after looking"


class Measure(NamedTuple):
    """A number of :func:`lnlab.papers.classification.moved`, read over the way to a tenth.

    Attributes:
        metric: its name.
        over: what is summed over.
        words: the sum.
    """

    metric: str
    over: Literal["updates", "progress"]
    words: str


DRIFT = Measure(
    "mean_shift", "updates",
    "drift of the means of units over their standard deviation, summed over updates",
)  # fmt: skip
ANGLE = Measure(
    "gradient_angle", "updates",
    "angle by which the steps of the layers below turn gradients, summed over updates",
)  # fmt: skip
BEND = Measure(
    "gradient_change", "progress",
    "change of the gradient, as a part of it, on a step along it that promises to lower the "
    "loss by a fiftieth, mean over the log of the least NLL so far",
)  # fmt: skip


def until_a_tenth(metric: str, over: Literal["updates", "progress"]) -> NumberOfRuns:
    """The logarithm of the area under a metric from the start until the NLL is at a tenth.

    The end lies between two looks, where metric and updates are straight in log NLL.

    Args:
        over: "updates": the sum of what each of them does, which does not depend on how many
            make the way; "progress": the sum over -log of the least NLL so far, of what is a
            rate by itself.

    Returns:
        NaN of a run that never comes there.
    """

    def number(metrics: pd.DataFrame) -> float:
        nll = metrics["train_nll"].to_numpy(float)
        progress = np.log(nll[0] / nll) / np.log(1 / TENTH)
        there = progress >= 1
        if not there.any():
            return float("nan")
        last = int(there.argmax())
        part = (1 - progress[last - 1]) / (progress[last] - progress[last - 1])
        updates, progress, y = (
            np.append(c[:last], c[last - 1] + part * (c[last] - c[last - 1]))
            for c in (metrics["update"].to_numpy(float), progress, metrics[metric].to_numpy())
        )
        gone = np.maximum.accumulate(progress)  # what is lost again is no way back
        x = {"updates": updates, "progress": gone}[over]
        return float(np.log(np.trapezoid(y, x)))

    return number


def against_none(
    id: str,
    source: str,
    statement: str,
    of: Measure,
    *,
    margin: float,
    reason: str,
    family: str,
    sign: int = 1,
    says: Says = Says.LESS,
    note: str = "",
    nets: Mapping[str, PermutationInvariantMNIST] = NETS,
    arm: str = "layer",
    seen: str = SEEN,
) -> Iterator[Claim]:
    """The claims, one a net, on a measure of an arm less that of none.

    Args:
        sign: -1 for none less the arm.
    """
    words = f"{arm} - none" if sign > 0 else f"none - {arm}"
    for end, task in nets.items():
        test, declared = declare(
            Measurement(
                task,
                ((sign, {"norm": arm}), (-sign, {"norm": "none"})),
                each(until_a_tenth(of.metric, of.over)),
            ),
            measure=f"log of the {of.words}, {words}", window=WINDOW, split=SPLIT,
            margin=margin, reason=reason, family=family, seen=seen, says=says,
        )  # fmt: skip
        said = f"{statement}, both arms at rate {task.learning_rate:g}"
        yield Claim(
            id + end, source, said, test=test, declared=declared, note=note,
            command=FETCH[end] + test.command(), waits=WAITS,
        )  # fmt: skip


OTHER_SIGN = (
    "The same numbers as of ba2016-3-covariate, with the other sign: one test of two "
    "sentences. It reduces nothing where none - layer stays below the margin. The author is "
    "careful: that less shift is the reason might not be correct, he writes"
)


def reduces(id: str, source: str, statement: str, of: Measure) -> Iterator[Claim]:
    """Claims that layer norm reduces the covariate shift."""
    return against_none(
        id, source, statement, of,
        margin=0.08, reason=SIXTH, family="covariate shift",
        note=f"{ONE_RATE}; {MORE_EACH.format(AN_UPDATE[of.metric])}. Those of "
        "benothman2018-4.3-ics are the same numbers, with the other sign: one test of two "
        "sentences",
    )  # fmt: skip


def does_not_reduce(id: str, source: str, statement: str, of: Measure) -> Iterator[Claim]:
    """Claims that layer norm does not reduce the covariate shift: by less than the margin."""
    return against_none(
        id, source, statement, of,
        sign=-1, says=Says.AT_MOST, margin=0.08, reason=SIXTH, family="covariate shift",
        note=f"{ONE_RATE}; {MORE_EACH.format(AN_UPDATE[of.metric])}. {OTHER_SIGN}",
    )  # fmt: skip


def batch_norm_reduces(id: str, source: str, statement: str) -> Iterator[Claim]:
    """Claims that batch norm reduces what it was made to reduce."""
    return against_none(
        id, source, statement, ANGLE, arm="batch hidden",
        margin=0.08, reason="that of the claims about layer norm",
        family="covariate shift, batch norm",
        seen="the runs without normalization, which those claims share; none of batch norm",
        note="statistics are those of the cases that are looked at, as in training, so that a "
        "mean behind the normalizer cannot drift at all: what can is the gradient. Both arms "
        "are trained at one rate, at which batch norm comes to a tenth in half as many "
        "updates, on MNIST in 0.3 of them, and each turns gradients less: by 0.05 to 0.06 "
        "radians, on MNIST by 0.11 (without: 0.19 to 0.27, and 0.26 to 0.30; by the seed, "
        "means over the looks of the way to a tenth). Santurkar et al. (2018), whose measure "
        "it is, found no such thing in VGG. The runs without normalization are those of "
        "ba2016-3-covariate-gradients",
    )  # fmt: skip


WHOLE = PermutationInvariantMNIST.budget(
    "notebook",
    solver="sgd",
    learning_rate=RATE,
    step_effects=True,
    seeds=tuple(range(100, 115)),
)
"""The digits to the end of a training."""


def effective_rate(id: str, source: str, statement: str) -> Claim:
    """The claim that the effective learning rate of layer norm's weights falls by itself."""

    def number(metrics: pd.DataFrame) -> float:
        length = metrics["weight_norm"].to_numpy(float)
        return float(-2 * np.log(length[-1] / length[0]))

    test, declared = declare(
        Measurement(WHOLE, ((1, {"norm": "layer"}),), each(number)),
        measure="log of eta/||W||^2 of the hidden layers, at the end over at the start, under "
        "layer norm", window="the end of the run", split=SPLIT, margin=TENTH,
        reason="a tenth: less would not be felt next to the choice of the rate",
        family="effective learning rate", seen=LOOKED_AT,
    )  # fmt: skip
    return Claim(
        id, source, statement, test=test, declared=declared, command=test.command(),
        waits=WAITS,
        note="the weights do grow, at every seed: by 0.07 to 0.10 % in 270 updates",
    )  # fmt: skip


RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
HELD_OUT = 200


def faster_by_descent(id: str, source: str, statement: str, arm: str, other: str) -> Claim:
    """The claim that ``arm`` learns faster than ``other`` by descent, each at its best rate."""
    five = PermutationInvariantMNIST.budget(
        "notebook", solver="sgd", learning_rate=RATE, seeds=tuple(range(105, 110))
    )
    tuning = Tuning(
        "learning_rate", RATES, along("valid_nll"), 99, {"valid_size": HELD_OUT},
        f"by the mean NLL of the last {HELD_OUT} training cases, held out, along one run of "
        "seed 99; then all training cases and the declared seeds",
    )  # fmt: skip
    test, declared = declare(
        Measurement(
            five, ((1, {"norm": arm}), (-1, {"norm": other})),
            each(logarithm(along("train_nll"))), failed=float(np.log(np.log(10))),
            tuning=tuning,
        ),
        measure=f"log of the mean training NLL along the run, {arm} over {other}",
        window="the whole run", split="the training cases", margin=TENTH,
        reason="no number in the paper; a tenth of the baseline's", family="plain descent",
    )  # fmt: skip
    return Claim(
        id, source, statement, test=test, declared=declared, command=test.command(),
        waits=WAITS,
    )  # fmt: skip
