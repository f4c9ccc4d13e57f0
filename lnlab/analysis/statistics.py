"""Means of a few differences: intervals, tests against chance, and many tests at once.

Student's t, for independent values and for splits of the same cases; permutations; the method
of Holm (1979) for a family of claims that share one error rate.
"""

from collections.abc import Sequence
from math import floor, inf, isinf

import numpy as np
from scipy import special

LEVEL = 0.05
"""The rate at which a family in which nothing is the case may say that something is."""

ROUNDING = 1e-12
"""Relative to the largest value: below it a spread is nothing but rounding in float64."""


def interval(
    values: Sequence[float], confidence: float = 1 - LEVEL, shared: float = 0.0
) -> tuple[float, float]:
    """Return Student's t interval of the mean of values (paired differences, here).

    Args:
        shared: of values of several splits of the same cases, the test cases of a split over
            its training cases (:func:`standard_error`); 0: the values are independent.

    Raises:
        ValueError: if there are fewer than two values: one has no spread.
    """
    n = len(values)
    if n < 2:
        raise ValueError("an interval needs two seeds or more.")
    t = float(special.stdtrit(n - 1, (1 + confidence) / 2))
    reach = t * standard_error(values, shared)
    return float(np.mean(values)) - reach, float(np.mean(values)) + reach


def standard_error(values: Sequence[float], shared: float = 0.0) -> float:
    """Return the standard error of the mean, sqrt(s^2 (1/n + shared)).

    Splits of the same cases train on many cases in common, so their values vary less than those
    of new cases would; ``shared``, test cases over training cases, makes up for it (Nadeau &
    Bengio, 2003, "Inference for the generalization error": their corrected resampled t test).
    """
    return float(np.std(values, ddof=1)) * (1 / len(values) + shared) ** 0.5


def exact_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the interval of the centre of symmetric differences of any distribution.

    Hartigan (1969): the means of all 2^n - 1 subsets of the values cut the line into 2^n
    parts, and the centre lies in each with the same probability. These are the centres that
    flipping the signs of the differences does not reject. Infinite where n is too small: five
    values allow no confidence above 15/16.
    """
    parts = 2 ** len(values)
    outside = floor((1 - confidence) / 2 * parts + 1e-9)  # 1 - 0.95 is not 0.05 to the bit
    if outside < 1:
        return -inf, inf
    counts, sums = _subsets(values)
    means = np.sort(sums[1:] / counts[1:])
    return float(means[outside - 1]), float(means[-outside])


def p_value(values: Sequence[float], shared: float = 0.0) -> float:
    """Return the two-sided p of the paired t test."""
    mean = float(np.mean(values))
    if np.std(values, ddof=1) <= ROUNDING * np.abs(values).max():
        return 1.0  # equal values tell nothing about chance
    return float(
        2 * special.stdtr(len(values) - 1, -abs(mean) / standard_error(values, shared))
    )


def sign_flip_p(values: Sequence[float]) -> float:
    """Return the two-sided p of the permutation test over the 2^n signs.

    Every pair is as likely to have come out the other way round, if the arms are alike.
    """
    sums = np.abs(2 * _subsets(values)[1] - np.sum(values))
    least = abs(float(np.sum(values))) - ROUNDING * float(np.abs(values).sum())
    return float(np.mean(sums >= least))


def _subsets(values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return size and sum of each of the 2^n subsets, the empty one first."""
    counts, sums = np.zeros(1), np.zeros(1)
    for value in values:
        counts = np.concatenate([counts, counts + 1])
        sums = np.concatenate([sums, sums + value])
    return counts, sums


def holm(p: Sequence[float], size: int | None = None) -> list[float]:
    """Return the confidence of each claim of a family, so that all hold together.

    The smallest p is compared with 5 %/size, the next with 5 %/(size - 1), and so on, until
    one is above; those that follow share its level. A claim whose test rejects is one whose
    interval at this confidence leaves 0 out.

    Args:
        p: one for each claim that was run.
        size: how many were declared; those that were not run count as if p were 1.
    """
    left = len(p) if size is None else size
    confidence = [0.0] * len(p)
    stopped = False
    for place in sorted(range(len(p)), key=lambda place: p[place]):
        confidence[place] = 1 - LEVEL / left
        stopped = stopped or p[place] > LEVEL / left
        left -= not stopped
    return confidence


def detectable(
    values: Sequence[float], confidence: float, power: float = 0.8, shared: float = 0.0
) -> float:
    """Return the effect that so many seeds, spread like these, detect with ``power``."""
    n = len(values)
    reach = special.stdtrit(n - 1, (1 + confidence) / 2) + special.stdtrit(n - 1, power)
    return float(reach * standard_error(values, shared))


def ends(interval: Sequence[float | None] | None) -> str:
    """Return both ends of an interval in words, in two digits; "none" without one.

    An end that is None or infinite stands for no bound on that side.
    """
    if interval is None:
        return "none"
    return " to ".join(
        beyond if end is None or isinf(end) else f"{float(f'{end:.2g}'):g}"
        for end, beyond in zip(interval, ("-∞", "∞"), strict=True)
    )
