"""The judge: from one number per seed to a word. A pure function of the values.

The word follows from the sign of the paired 95 % interval, its size from ``matters``, the
smallest effect that matters. More data never turn the direction round: at a fixed estimate a
narrower interval can only decide what was open, or call an effect small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

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


CorrectWrongOrAmbiguous = str  # one of the three words


class FormulaVerdict(NamedTuple):
    """The outcome of checking a formula: correct, wrong as printed or ambiguous; and why."""

    verdict: CorrectWrongOrAmbiguous
    explanation: str


LogRatioOrDifference = float


@dataclass(frozen=True)
class Decision:
    """The outcome of a comparison.

    Attributes:
        verdict_without_size: one of :data:`WORDS`.
        effect_size_class: of an effect that is there: "small" (within what matters), "large"
            (beyond it) or "open".
        estimate, interval_low, interval_high: the mean and its 95 % interval, in the unit of
            the values; None where there is none.
        p_value: of the test of the claim, two-sided for a direction; None without one.
        num_pairs: the number of pairs.
        learned_counts: how many of the seeds of each arm learned, where not all did.
    """

    verdict_without_size: str
    effect_size_class: Literal["", "small", "large", "open"] = ""
    estimate: LogRatioOrDifference | None = None
    interval_low: LogRatioOrDifference | None = None
    interval_high: LogRatioOrDifference | None = None
    p_value: float | None = None
    num_pairs: int = 0
    learned_counts: tuple[int, int] | None = None

    @property
    def verdict_with_effect_size_caveat(self) -> str:
        """The word with its size, unless that is large."""
        return self.verdict_without_size + self.effect_size_caveat

    @property
    def effect_size_caveat(self) -> str:
        """A small or an uncertain size, in words that follow the word."""
        words = {"small": ", but small", "open": ", size uncertain"}
        return words.get(self.effect_size_class, "")


def judge_differences(
    differences: Sequence[float],
    smallest_relevant_effect: float,
    claimed_relation: str = "less",
    test_to_train_ratio: float = 0.0,
) -> Decision:
    """Judge paired differences.

    Args:
        differences: one per pair.
        smallest_relevant_effect: the smallest effect that matters, in the same unit.
        claimed_relation: what is claimed of the mean: "less" or "more" than 0, "equal" to it
            (two one-sided tests), or "not more" than the smallest relevant effect above it.
        test_to_train_ratio: of splits of the same examples, those of the test over those of the
            training (Nadeau and Bengio, 2003).

    Raises:
        ValueError: if a difference is not finite, or the smallest effect not positive.
    """
    if not np.isfinite(differences).all() or not smallest_relevant_effect > 0:
        raise ValueError(
            f"differences are {differences} and smallest_relevant_effect is "
            f"{smallest_relevant_effect}: finite, and above 0."
        )
    n, mean = len(differences), float(np.mean(differences))
    if n < 2 or np.ptp(differences) <= ROUNDING * np.abs(differences).max():
        return Decision(INCONCLUSIVE, estimate=mean, num_pairs=n)  # no spread to judge by
    low, high = interval(differences, test_to_train_ratio)
    error = standard_error(differences, test_to_train_ratio)
    inside = -smallest_relevant_effect < low and high < smallest_relevant_effect
    beyond = low > smallest_relevant_effect or high < -smallest_relevant_effect

    def p_value_above(
        bound: float,
    ) -> float:  # p of the one-sided test that the mean is above a bound
        return float(stats.t.sf((mean - bound) / error, n - 1))

    def p_value_below(bound: float) -> float:
        return float(stats.t.cdf((mean - bound) / error, n - 1))

    size = ""
    if claimed_relation == "equal":
        word = SUPPORTED if inside else CONTRADICTED if beyond else INCONCLUSIVE
        p = max(
            p_value_above(-smallest_relevant_effect), p_value_below(smallest_relevant_effect)
        )
    elif claimed_relation == "not more":
        word = (
            SUPPORTED
            if high < smallest_relevant_effect
            else CONTRADICTED
            if low > smallest_relevant_effect
            else INCONCLUSIVE
        )
        p = p_value_below(smallest_relevant_effect)
    else:
        claimed = high < 0 if claimed_relation == "less" else low > 0
        if low <= 0 <= high:
            word = NO_DIFFERENCE if inside else INCONCLUSIVE
        else:
            word = SUPPORTED if claimed else CONTRADICTED
            size = "small" if inside else "large" if beyond else "open"
        p = 2 * min(p_value_above(0), p_value_below(0))
    if n < PAIRS:
        word, size = INCONCLUSIVE, ""
    return Decision(word, size, mean, low, high, p, n)


def judge_which_arm_learns(
    first_arm_learned: Sequence[bool], second_arm_learned: Sequence[bool]
) -> Decision:
    """Judge which arm learns, where some seeds did and others did not: Fisher's exact test.

    The first arm is the one that is claimed to be the better. If no seed of either arm
    learned, nothing was tested.
    """
    n, learned = (
        min(len(first_arm_learned), len(second_arm_learned)),
        (sum(first_arm_learned), sum(second_arm_learned)),
    )
    if not any(learned):
        return Decision(NOT_TESTED, num_pairs=n, learned_counts=learned)
    table = [
        learned,
        (len(first_arm_learned) - learned[0], len(second_arm_learned) - learned[1]),
    ]
    p = float(stats.fisher_exact(table).pvalue)  # pyright: ignore
    apart = learned[0] / len(first_arm_learned) - learned[1] / len(second_arm_learned)
    word = SUPPORTED if apart > 0 else CONTRADICTED
    if p >= LEVEL or n < PAIRS:
        word = INCONCLUSIVE
    return Decision(word, estimate=apart, p_value=p, num_pairs=n, learned_counts=learned)


def clopper_pearson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval (Clopper and Pearson) of a share of seeds."""
    share = stats.binomtest(successes, n).proportion_ci(method="exact")
    return float(share.low), float(share.high)


def is_mixed(
    headline: Decision,
    same_question: Sequence[Decision],
    only_for_holm_correction: Sequence[Decision],
) -> bool:
    """Return True if another setting of the same question says the opposite.

    Args:
        same_question: settings of the same question, as near to the paper as the headline.
        only_for_holm_correction: the other settings of the claim: they only share its error
            rate.
    """
    adjusted = holm_adjusted_p_by_p_value([headline, *same_question, *only_for_holm_correction])
    opposite = OPPOSITE.get(headline.verdict_without_size)
    return any(
        one.verdict_without_size == opposite and adjusted[one.p_value] < LEVEL
        for one in same_question
    )


def holm_adjusted_p_by_p_value(decisions: Sequence[Decision]) -> dict[float | None, float]:
    """Return the p values of a claim's settings adjusted by Holm's method, by p; 1 for None."""
    every = [one.p_value for one in decisions if one.p_value is not None]
    return {None: 1.0, **dict(zip(every, adjust_holm(every), strict=True))}


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method (1979)."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
