"""The turn of weights in a step, by the law of Kosson et al. (2023), in transformers.

W_Q and W_K are followed by a norm under QK norm and not under sandwich norm, W_O and W_2 the
other way round: each net is the control of the other, from the same matrices and batches.
"""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.ledger.claim import AGAIN, Before, Claim
from lnlab.ledger.measurement import Number, each
from lnlab.ledger.rule import Says
from lnlab.ledger.transformer import CLOSE, CLOSELY, FRESH, SIZES, UNSEEN, measured
from lnlab.tasks import CharacterModel

EARLY = 400
"""Updates after which the balance should be there: those of the warm-up, 100, and six times
1 / (2 eta lambda) = 50, in which what is left of the start falls to a part 1/e."""
TASK = CharacterModel.budget(
    "paper", seeds=FRESH, updates=1000, learning_rate=1e-2, weight_decay=1.0
)
MOMENTS = f"measured at updates {EARLY}, 600, 800 and 1,000, each a running mean of about 50"
RISING = "the ratio was read at update 200, while it was still rising"
RATES = f"at weight decay {TASK.weight_decay:g} and rate {TASK.learning_rate:g}"
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
NOT_LOOKED = Before("not yet run", f"{SIZES}; changed before the runs were looked at")
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


def turn(matrix: str, arm: str, follows: str, *history: Before) -> list[Claim]:
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
            TASK, ((1, {"norm": arm}),), each(settled(matrix)),
            measure=f"log of the angle of {W} over the equilibrium, or twice its change from "
            "the first moment to the last: what is farthest from 0",
            margin=CLOSE, reason=CLOSELY, says=Says.SAME, history=history, date=AGAIN, **words,
            note="; ".join([
                RATES, f"{SIGNED}: of any seed the farthest is {FARTHEST[matrix]}",
                *[NO_EVIDENCE][: matrix == "2"], *[ON_AVERAGE][: matrix in "QK"],
            ]),
        ),
        measured(
            f"kosson2023-nearer-{matrix}", source,
            f"the law is one of scale-invariant weights: {W} is nearer to it where {follows} "
            f"follows than under {OTHER[arm]}, where nothing does",
            TASK, ((1, {"norm": arm}), (-1, {"norm": OTHER[arm]})), each(distance(matrix)),
            measure=f"size of the mean log of the angle of {W} over the equilibrium, {arm} "
            f"less {OTHER[arm]}",
            margin=0.1, reason=UNSEEN, date=AGAIN, **words,
            note="; ".join([RATES, *[AS_NEAR][: matrix == "2"]]),
        ),
    ]  # fmt: skip


CLAIMS = [
    *turn("Q", "qk", "the norm of queries",
          Before("also seen", RISING, "-0.21 to 0.0049"), NOT_LOOKED),
    *turn("K", "qk", "the norm of keys",
          Before("also seen", RISING, "-0.21 to -0.065"), NOT_LOOKED),
    *turn("O", "sandwich", "the norm behind attention",
          Before("inconclusive", RISING, "-0.31 to -0.19"),
          Before("inconclusive", SIZES, "-0.0807 to 0.132")),
    *turn("2", "sandwich", "the norm behind the feed-forward net",
          Before("also seen", RISING, "-0.14 to -0.075"),
          Before("also seen", SIZES, "-0.148 to -0.0865")),
]  # fmt: skip
