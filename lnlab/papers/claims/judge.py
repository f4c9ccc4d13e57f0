"""The judge: from one number per seed to a word. A pure function of the values.

The word follows from the sign of the paired 95 % interval, its size from ``matters``, the
smallest effect that matters. More data never turn the direction round: at a fixed estimate a
narrower interval can only decide what was open, or call an effect small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from lnlab.analysis.statistics import ROUNDING, interval, standard_error

SUPPORTED, CONTRADICTED, MIXED = "supported", "contradicted", "mixed"
NO_DIFFERENCE, INCONCLUSIVE = "no difference that matters", "inconclusive"
NOT_TESTED = "not tested"
CORRECT, WRONG, AMBIGUOUS = "correct", "wrong as printed", "ambiguous"
WORDS = (
    SUPPORTED, CONTRADICTED, MIXED, NO_DIFFERENCE, INCONCLUSIVE, CORRECT, WRONG, AMBIGUOUS,
    NOT_TESTED,
)  # fmt: skip
OPPOSITE = {SUPPORTED: CONTRADICTED, CONTRADICTED: SUPPORTED}
PAIRS = 5
"""Fewer pairs than these are always inconclusive."""
LEVEL = 0.05


class FormulaOutcome(NamedTuple):
    """The outcome of checking a formula: correct, wrong as printed or ambiguous; and why."""

    word: str
    effect: str


@dataclass(frozen=True)
class Decision:
    """The outcome of a comparison.

    Attributes:
        word: one of :data:`WORDS`.
        size: of an effect that is there: "small" (within what matters), "large" (beyond it) or
            "open".
        estimate, low, high: the mean and its 95 % interval, in the unit of the values; None
            where there is none.
        p: of the test of the claim, two-sided for a direction; None without one.
        n: the number of pairs.
        shares: how many of the seeds of each arm learned, where not all did.
    """

    word: str
    size: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    shares: tuple[int, int] | None = None

    @property
    def verdict(self) -> str:
        """The word with its size, unless that is large."""
        return self.word + self.size_in_words

    @property
    def size_in_words(self) -> str:
        """A small or an uncertain size, in words that follow the word."""
        return {"small": ", but small", "open": ", size uncertain"}.get(self.size, "")


def judge(
    values: Sequence[float], matters: float, claims: str = "less", shared: float = 0.0
) -> Decision:
    """Judge paired differences.

    Args:
        values: one per pair.
        matters: the smallest effect that matters, in the unit of the values.
        claims: what is claimed of the mean: "less" or "more" than 0, "equal" to it (two
            one-sided tests), or "not more" than ``matters`` above it.
        shared: of splits of the same examples, those of the test over those of the training
            (Nadeau and Bengio, 2003).

    Raises:
        ValueError: if a value is not finite, or ``matters`` is not positive.
    """
    if not np.isfinite(values).all() or not matters > 0:
        raise ValueError(f"values are {values} and matters is {matters}: finite, and above 0.")
    n, mean = len(values), float(np.mean(values))
    if n < 2 or np.ptp(values) <= ROUNDING * np.abs(values).max():
        return Decision(INCONCLUSIVE, estimate=mean, n=n)  # no spread to judge by
    low, high = interval(values, shared)
    error = standard_error(values, shared)
    inside = -matters < low and high < matters
    beyond = low > matters or high < -matters

    def above(bound: float) -> float:  # p of the one-sided test that the mean is above a bound
        return float(stats.t.sf((mean - bound) / error, n - 1))

    def below(bound: float) -> float:
        return float(stats.t.cdf((mean - bound) / error, n - 1))

    size = ""
    if claims == "equal":
        word = SUPPORTED if inside else CONTRADICTED if beyond else INCONCLUSIVE
        p = max(above(-matters), below(matters))
    elif claims == "not more":
        word = SUPPORTED if high < matters else CONTRADICTED if low > matters else INCONCLUSIVE
        p = below(matters)
    else:
        claimed = high < 0 if claims == "less" else low > 0
        if low <= 0 <= high:
            word = NO_DIFFERENCE if inside else INCONCLUSIVE
        else:
            word = SUPPORTED if claimed else CONTRADICTED
            size = "small" if inside else "large" if beyond else "open"
        p = 2 * min(above(0), below(0))
    if n < PAIRS:
        word, size = INCONCLUSIVE, ""
    return Decision(word, size, mean, low, high, p, n)


def judge_shares(first: Sequence[bool], second: Sequence[bool]) -> Decision:
    """Judge which arm learns, where some seeds did and others did not: Fisher's exact test.

    The first arm is the one that is claimed to be the better. If no seed of either arm
    learned, nothing was tested.
    """
    n, learned = min(len(first), len(second)), (sum(first), sum(second))
    if not any(learned):
        return Decision(NOT_TESTED, n=n, shares=learned)
    table = [learned, (len(first) - learned[0], len(second) - learned[1])]
    p = float(stats.fisher_exact(table).pvalue)  # pyright: ignore
    apart = learned[0] / len(first) - learned[1] / len(second)
    word = SUPPORTED if apart > 0 else CONTRADICTED
    if p >= LEVEL or n < PAIRS:
        word = INCONCLUSIVE
    return Decision(word, estimate=apart, p=p, n=n, shares=learned)


def share_interval(learned: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval (Clopper and Pearson) of a share of seeds."""
    share = stats.binomtest(learned, n).proportion_ci(method="exact")
    return float(share.low), float(share.high)


def is_mixed(headline: Decision, same: Sequence[Decision], rest: Sequence[Decision]) -> bool:
    """Return True if another setting of the same question says the opposite.

    Args:
        same: settings of the same question, as near to the paper as the headline.
        rest: the other settings of the claim: they only share its error rate (Holm).
    """
    adjusted = adjusted_p_by_p([headline, *same, *rest])
    opposite = OPPOSITE.get(headline.word)
    return any(one.word == opposite and adjusted[one.p] < LEVEL for one in same)


def adjusted_p_by_p(decisions: Sequence[Decision]) -> dict[float | None, float]:
    """Return the p values of a claim's settings adjusted by Holm's method, by p; 1 for None."""
    every = [one.p for one in decisions if one.p is not None]
    return {None: 1.0, **dict(zip(every, adjust_holm(every), strict=True))}


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method (1979)."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
