"""Intervals of the means of a few differences.

Student's t, for independent values and for splits of the same examples.
"""

from collections.abc import Sequence
from math import isinf

import numpy as np
from scipy import special

LEVEL = 0.05
"""One less the confidence of an interval."""

ROUNDING = 1e-12
"""Relative to the largest value: below it a spread is nothing but rounding in float64."""


def interval(values: Sequence[float], test_train_ratio: float = 0.0) -> tuple[float, float]:
    """Return Student's t interval of the mean of values (paired differences, here), 95 %.

    ``test_train_ratio`` is as for :func:`standard_error`; 0: the values are independent.
    """
    n = len(values)
    if n < 2:
        raise ValueError("an interval needs two seeds or more.")
    t = float(special.stdtrit(n - 1, 1 - LEVEL / 2))
    reach = t * standard_error(values, test_train_ratio)
    return float(np.mean(values)) - reach, float(np.mean(values)) + reach


def standard_error(values: Sequence[float], test_train_ratio: float = 0.0) -> float:
    """Return the standard error of the mean, sqrt(s^2 (1/n + test_train_ratio)).

    Splits of the same examples train on many examples in common, so their values vary less than
    those of new cases would; ``test_train_ratio``, test cases over training cases, makes up for
    it (Nadeau & Bengio, 2003, "Inference for the generalization error": their corrected
    resampled t test).
    """
    return float(np.std(values, ddof=1)) * (1 / len(values) + test_train_ratio) ** 0.5


def format_interval(interval: Sequence[float | None] | None) -> str:
    """Return an interval as text, "0.1 to 0.3", in two digits; "none" without one.

    An end that is None or infinite stands for no bound on that side.
    """
    if interval is None:
        return "none"
    return " to ".join(
        beyond if end is None or isinf(end) else f"{float(f'{end:.2g}'):g}"
        for end, beyond in zip(interval, ("-∞", "∞"), strict=True)
    )
