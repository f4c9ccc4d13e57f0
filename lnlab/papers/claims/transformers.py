"""Papers on the normalizers of transformers: what they claim, on characters at four layers.

None of it is their own setting, translation and large language models, so that nothing here
can be reproduced: it is also seen, or not. Fourteen measurements were declared before a run of
a seed from 99 up. Five that could not tell what they were asked were withdrawn later, and
declared for seeds that nobody had seen: the sensitivity, and the four turns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, log
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linprog
from torch import Tensor

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.random import normal
from lnlab.nn import LayerNorm
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.exact import Defect, unchanged
from lnlab.papers.claims.measurement import (
    Measurement,
    Number,
    Numbers,
    Term,
    Tuning,
    combined,
    declare,
    each,
)
from lnlab.papers.claims.paired import NumberOfRuns, final
from lnlab.papers.claims.rule import Kind, Says
from lnlab.papers.transformer.experiment import CharacterModel

SEEDS = (100, 101, 102)
FRESH = tuple(range(103, 108))
STARTS = tuple(range(100, 105))
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
WIDE = (*RATES, 1e-1, 3e-1)
SHALLOW, DEEP = 4, 16
CLOSE = log(1.25)
TASK = CharacterModel.budget("paper", seeds=SEEDS, updates=150)
AT_START = CharacterModel.budget("paper", seeds=STARTS, updates=1)
TUNED = Tuning(
    "learning_rate", RATES, final("valid_nll"), 99, {},
    "by the validation NLL at the end of one run of seed 99",
)  # fmt: skip
OPEN = ("everything: other data, and a net a thousand times smaller",)
WAITS = "the declared seeds were not trained yet"
TOLERANCE = 0.03
"""Nats a character."""
RETRAINED = "less than 2 % of such a net's loss, for which nobody would train another"
CLOSELY = "nearer than a quarter is what a figure with a line through it would be called"
UNSEEN = "a tenth would not be seen in a figure"


def measured(
    id: str,
    source: str,
    statement: str,
    task: CharacterModel,
    terms: tuple[Term, ...],
    numbers: Numbers,
    *,
    measure: str,
    window: str,
    split: str,
    margin: float,
    reason: str,
    family: str,
    says: Says = Says.LESS,
    tuning: Tuning | None = None,
    note: str = "",
) -> Claim:
    """A claim about the sum over ``terms`` of sign times ``numbers``."""
    test, declared = declare(
        Measurement(task, terms, numbers, tuning=tuning),
        measure=measure, window=window, split=split, margin=margin, reason=reason,
        family=family, open=OPEN, says=says,
    )  # fmt: skip
    return Claim(
        id, source, statement, test=test, declared=declared, waits=WAITS, note=note,
        command="lnlab data fetch shakespeare && " + test.command(),
    )  # fmt: skip


def slopes(metrics: pd.DataFrame) -> np.ndarray:
    """log ||dL/dW_2|| of each layer before the first update, bottom first."""
    first = metrics.loc[metrics["update"] == 0].iloc[0].dropna()
    layers = sum(str(name).startswith("gradient_norm_") for name in first.index)
    return np.log([first[f"gradient_norm_{layer}"] for layer in range(1, layers + 1)])


def from_law(exponent: float) -> Numbers:
    """log of the top layer's gradient, deep over shallow, less that of L ** exponent."""

    def apart(deep: pd.DataFrame, shallow: pd.DataFrame) -> float:
        seen = slopes(deep)[-1] - slopes(shallow)[-1]
        return seen - exponent * log(DEEP / SHALLOW)

    return combined(apart)


def depth_law(id: str, statement: str, arm: str, exponent: float) -> Claim:
    """The law by which the last layer's gradient goes with depth."""
    return measured(
        f"xiong2020-start-{id}", "Xiong et al. (2020), theorem 1", statement, AT_START,
        ((1, {"norm": arm, "layers": DEEP}), (0, {"norm": arm, "layers": SHALLOW})),
        from_law(exponent),
        measure=f"log of the last layer's gradient of W_2, {DEEP} over {SHALLOW} layers, less "
        f"that of L^{exponent:g}",
        window="before the first update", split=f"16 training cases of {TASK.context_length}",
        margin=CLOSE, reason=CLOSELY, family="transformer, at the start", says=Says.SAME,
    )  # fmt: skip


def profile(
    id: str, statement: str, arm: str, number: NumberOfRuns, measure: str,
    margin: float = 0.1, reason: str = UNSEEN, **more: Any,
) -> Claim:  # fmt: skip
    """The course of the gradient from the bottom to the top."""
    return measured(
        f"xiong2020-start-{id}", "Xiong et al. (2020), Fig. 3", statement, AT_START,
        ((1, {"norm": arm, "layers": DEEP}),), each(number),
        measure=f"{measure}, {DEEP} layers",
        window="before the first update", split=f"16 training cases of {TASK.context_length}",
        margin=margin, reason=reason, family="transformer, at the start", **more,
    )  # fmt: skip


def loss(
    id: str, source: str, statement: str, terms: tuple[Term, ...], number: NumberOfRuns,
    measure: str, **more: Any,
) -> Claim:  # fmt: skip
    """The test losses of arms, each at its own rate."""
    return measured(
        id, source, statement, TASK, terms, each(number),
        measure=f"{measure}, nats a character", window="the end of 150 updates",
        split="the first 512 test cases", margin=TOLERANCE / 3,
        reason="a third of the tolerance", family="transformer, each arm at its own rate",
        tuning=TUNED, **more,
    )  # fmt: skip


def as_good(
    id: str, source: str, statement: str, arm: Mapping[str, Any], other: Mapping[str, Any],
    measure: str, says: Says,
) -> Claim:  # fmt: skip
    """One arm is no worse than another, or as good, within the tolerance."""
    return measured(
        id, source, statement, TASK, ((1, arm), (-1, other)), each(final("test_nll")),
        measure=f"{measure}, nats a character", window="the end of 150 updates",
        split="the first 512 test cases", margin=TOLERANCE, reason=RETRAINED,
        family="transformer, each arm at its own rate", tuning=TUNED, says=says,
    )  # fmt: skip


def sensitivity(frames: Sequence[pd.DataFrame]) -> float:
    """The mean over the rates of min(loss, loss at the start) less the best rate's loss."""
    first = float(frames[0]["valid_nll"].iloc[0])
    ends = [float(frame["valid_nll"].iloc[-1]) for frame in frames]
    kept = [min(end, first) if isfinite(end) else first for end in ends]
    return float(np.mean(kept) - min(kept))


def band(*frames: pd.DataFrame) -> float:
    """The log of the sensitivity of the first half of the terms over that of the second."""
    half = len(frames) // 2
    return log(sensitivity(frames[:half]) / sensitivity(frames[half:]))


def projected(x: Tensor) -> Tensor:
    """x without its component along (1, ..., 1), at length sqrt(d)."""
    ones = torch.ones_like(x) / x.shape[-1] ** 0.5
    apart = x - (x * ones).sum(-1, keepdim=True) * ones
    return apart / apart.norm(dim=-1, keepdim=True) * x.shape[-1] ** 0.5


def as_projection(seed: int) -> float:
    x = normal(seed, 0, 16, 8)
    return relative_change(projected(x), LayerNorm(8, eps=0.0, affine=False)(x))


def unselectable(keys: np.ndarray) -> int:
    """The number of keys (n, d) that no query gives the highest score (Brody et al., 4)."""
    count = 0
    for i, key in enumerate(keys):
        above = np.delete(keys, i, 0) - key  # q (k_j - k_i) + t <= 0, t as large as can be
        rows = np.hstack([above, np.ones((len(above), 1))])
        limits = [(-100, 100)] * keys.shape[1] + [(None, 1)]
        found = linprog(
            [*np.zeros(keys.shape[1]), -1.0], rows, np.zeros(len(rows)), bounds=limits
        )
        count += found.x[-1] < 1e-7
    return count


def unselected(norm: Callable[[Tensor], Tensor]) -> Defect:
    """The part of 24 normal keys in 4 dimensions that cannot be selected."""
    return lambda seed: unselectable(norm(normal(seed, 0, 24, 4)).numpy()) / 24


NO_WARMUP = {"warmup": 0.0}
BANDS = tuple(
    (1, {"norm": arm, "learning_rate": rate}) for arm in ("qk", "pre") for rate in WIDE
)

CLAIMS = [
    depth_law(
        "post", "in a post-LN transformer of L layers the gradient of the last layer does not "
        "shrink with L at the start", "post", 0.0,
    ),
    depth_law(
        "pre", "in a pre-LN transformer of L layers the gradient of the last layer goes as "
        "1/sqrt(L) at the start", "pre", -0.5,
    ),
    profile(
        "top", "in a post-LN transformer the gradients are larger near the output", "post",
        lambda metrics: float(slopes(metrics)[0] - slopes(metrics)[-1]),
        "log of the gradient of W_2, first layer over last",
    ),
    profile(
        "even", "in a pre-LN transformer the gradients are much the same in all layers", "pre",
        lambda metrics: float(np.ptp(slopes(metrics))),
        "log of the gradient of W_2, greatest layer over least",
        log(2), "much the same: no layer has twice what another has", says=Says.AT_MOST,
    ),
    loss(
        "xiong2020-warmup", "Xiong et al. (2020), Fig. 2",
        "a post-LN transformer needs the warm-up: it gains by it more than a pre-LN one",
        ((1, {"norm": "post"}), (-1, {"norm": "post", **NO_WARMUP}),
         (-1, {"norm": "pre"}), (1, {"norm": "pre", **NO_WARMUP})),
        final("test_nll"), "test NLL with warm-up less without, post less pre",
    ),
    as_good(
        "xiong2020-without", "Xiong et al. (2020), abstract",
        "pre-LN transformers without the warm-up reach results comparable with post-LN ones "
        "with it", {"norm": "pre", **NO_WARMUP}, {"norm": "post"},
        "test NLL, pre without warm-up less post with it", Says.AT_MOST,
    ),
    as_good(
        "zhang2019-comparable", "Zhang & Sennrich (2019), abstract",
        "RMSNorm achieves a performance comparable with that of LayerNorm", {"norm": "rms"},
        {"norm": "pre"}, "test NLL, RMSNorm less LayerNorm", Says.SAME,
    ),
    as_good(
        "zhu2025-match", "Zhu et al. (2025), abstract",
        "transformers with DyT match or exceed those with a normalizer, mostly without tuning "
        "of hyper-parameters", {"norm": "dyt"}, {"norm": "pre"},
        "test NLL, DyT less LayerNorm", Says.AT_MOST,
    ),
    loss(
        "kim2025-lower", "Kim et al. (2025), abstract",
        "peri-LN (a layer norm before and behind each module) ends at a lower loss than pre-LN",
        ((1, {"norm": "sandwich"}), (-1, {"norm": "pre"})), final("test_nll"),
        "test NLL, sandwich less pre",
        note="theirs has a layer norm behind the embedding too",
    ),
    measured(
        "wortsman2023-sensitivity", "Wortsman et al. (2023), Fig. 1",
        "with a layer norm of queries and keys the loss depends less on the learning rate",
        replace(TASK, seeds=FRESH), BANDS, combined(band),
        measure="log of the mean over rates of the validation NLL above the best rate's, none "
        "counted above the start's: qk over pre",
        window="the end of 150 updates", split="the first 512 validation cases",
        margin=-log(3 / 4), reason="a quarter less is what a figure over rates would show",
        family="transformer, over rates",
        note="after 150 updates, over the rates of one grid; a NLL above the start's counts as "
        "the start's. Exploratory: over the four rates to 0.03 the interval would be -0.53 to "
        "-0.14 (95 %); the best loss itself is higher with QK norm at every seed, by 0.009 to "
        "0.033 nats",
    ),
    Claim(
        "sun2024-massive", "Sun et al. (2024), abstract",
        "large language models have massive activations: above 100 and above 1,000 times the "
        "median of their layer",
        would="streams of trained models of 1e9 parameters and more", waits="of nets of 2e5 "
        "parameters their absence says nothing; `largest` of kept runs has what there is",
    ),
    Claim(
        "brody2023-projection", "Brody et al. (2023), abstract",
        "layer norm without gain and bias projects onto the space orthogonal to (1, ..., 1) "
        "and scales to the length sqrt(d)", kind=Kind.EQUATION, judge=unchanged(as_projection),
        command="lnlab claims judge", waits="nothing",
    ),
    Claim(
        "brody2023-selectable", "Brody et al. (2023), abstract",
        "behind layer norm every key can be given the highest score by some query",
        kind=Kind.EQUATION,
        judge=unchanged(
            unselected(LayerNorm(4, eps=0.0, affine=False)),
            "part of the keys that cannot be selected",
            "24 normal keys in 4 dimensions, a linear program each",
        ),
        command="lnlab claims judge", waits="nothing",
        note="without it there are some, see notebook 19",
    ),
]  # fmt: skip


# The turn of weights in a step, by the law of Kosson et al. (2023), in transformers.
#
# W_Q and W_K are followed by a norm under QK norm and not under sandwich norm, W_O and W_2 the
# other way round: each net is the control of the other, from the same matrices and batches.


EARLY = 400
"""Updates after which the balance should be there: those of the warm-up, 100, and six times
1 / (2 eta lambda) = 50, in which what is left of the start falls to a part 1/e."""
TURNING_TASK = CharacterModel.budget(
    "paper", seeds=FRESH, updates=1000, learning_rate=1e-2, weight_decay=1.0
)
MOMENTS = f"measured at updates {EARLY}, 600, 800 and 1,000, each a running mean of about 50"
TURNING_RATES = (
    f"at weight decay {TURNING_TASK.weight_decay:g} and rate {TURNING_TASK.learning_rate:g}"
)
SIGNED = (
    "the farthest ratio of each seed keeps its sign, so that seeds on both sides of 0 cancel "
    "in the mean"
)
AS_NEAR = "under qk, where no norm follows, W_2 turns by the law as well"
ON_AVERAGE = (
    "under sandwich, where no norm follows, it is as near in the mean of the moments, and "
    "wanders"
)
NO_EVIDENCE = f"{AS_NEAR}: this is no evidence that the law needs scale invariance"
FARTHEST = {"Q": 0.11, "K": 0.12, "O": 0.33, "2": 0.11}
"""The size of the farthest ratio of any seed."""
OTHER = {"qk": "sandwich", "sandwich": "qk"}


def later(metrics: pd.DataFrame, matrix: str) -> np.ndarray:
    """log(angle of a step / equilibrium) of W_``matrix`` from update 400 on."""
    return metrics.loc[metrics["update"] >= EARLY, f"rotation_{matrix}"].to_numpy(float)


def settled(matrix: str) -> Number:
    """The ratios and twice their change: of all that the one farthest from 0, with its sign."""

    def number(metrics: pd.DataFrame) -> float:
        ratios = later(metrics, matrix)
        every = [*ratios, 2 * (ratios[-1] - ratios[0])]
        return float(every[np.argmax(np.abs(every))])

    return number


def distance(matrix: str) -> Number:
    """The size of the mean ratio."""
    return lambda metrics: float(abs(later(metrics, matrix).mean()))


def turn(matrix: str, arm: str, follows: str) -> list[Claim]:
    """The turn of a matrix that a norm follows, next to the law, and next to its control."""
    words: dict[str, Any] = {
        "window": MOMENTS, "split": "training batches", "family": "transformer, turning",
    }  # fmt: skip
    source, W = "Kosson et al. (2023), Table 1", f"W_{matrix}"
    return [
        measured(
            f"kosson2023-turn-{matrix}", source,
            "under AdamW a scale-invariant weight comes to turn by sqrt(2 eta lambda (1 - "
            f"beta_1) / (1 + beta_1)) in a step: {W}, which {follows} follows",
            TURNING_TASK, ((1, {"norm": arm}),), each(settled(matrix)),
            measure=f"log of the angle of {W} over the equilibrium, or twice its change from "
            "the first moment to the last: what is farthest from 0",
            margin=CLOSE, reason=CLOSELY, says=Says.SAME, **words,
            note="; ".join([
                TURNING_RATES, f"{SIGNED}: of any seed the farthest is {FARTHEST[matrix]}",
                *[NO_EVIDENCE][: matrix == "2"], *[ON_AVERAGE][: matrix in "QK"],
            ]),
        ),
        measured(
            f"kosson2023-nearer-{matrix}", source,
            f"the law is one of scale-invariant weights: {W} is nearer to it where {follows} "
            f"follows than under {OTHER[arm]}, where nothing does",
            TURNING_TASK, ((1, {"norm": arm}), (-1, {"norm": OTHER[arm]})),
            each(distance(matrix)),
            measure=f"size of the mean log of the angle of {W} over the equilibrium, {arm} "
            f"less {OTHER[arm]}",
            margin=0.1, reason=UNSEEN, **words,
            note="; ".join([TURNING_RATES, *[AS_NEAR][: matrix == "2"]]),
        ),
    ]  # fmt: skip


TURNING = [
    *turn("Q", "qk", "the norm of queries"),
    *turn("K", "qk", "the norm of keys"),
    *turn("O", "sandwich", "the norm behind attention"),
    *turn("2", "sandwich", "the norm behind the feed-forward net"),
]  # fmt: skip
