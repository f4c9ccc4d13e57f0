"""The time in which a learning curve comes down to a level that both runs of a pair reach.

The first time near a run's own least value is no measure of it: the least of a noisy curve
falls with the number of looks, so that longer runs seem to converge later, and what gets worse
from the start seems to converge at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from lnlab.ledger.measurement import Number, Numbers


class Reached(NamedTuple):
    """The time at which a curve was at a level.

    Attributes:
        at: updates, or what was asked for; the end of the run where ``censored``.
        censored: whether the run ended above the level: all that is known is a lower bound.
    """

    at: float
    censored: bool


def falling(values: np.ndarray) -> np.ndarray:
    """The closest curve, by least squares, that never rises: the trend without the noise."""
    return isotonic_regression(values, increasing=False).x


def least(metric: str) -> Number:
    """The least of the trend of a metric: its last value, for a trend never rises."""
    return lambda metrics: float(falling(metrics[metric].to_numpy(float))[-1])


def time_to(metrics: pd.DataFrame, metric: str, level: float, of: str = "update") -> Reached:
    """The time at which the falling trend of a metric is first at ``level``.

    Between two looks the trend is a straight line.
    """
    at, trend = metrics[of].to_numpy(float), falling(metrics[metric].to_numpy(float))
    below = np.flatnonzero(trend <= level)
    if not len(below):
        return Reached(float(at[-1]), True)
    first = below[0]
    if first == 0:
        return Reached(float(at[0]), False)
    above, under = trend[first - 1], trend[first]
    part = (above - level) / (above - under)
    return Reached(float(at[first - 1] + part * (at[first] - at[first - 1])), False)


def common_level(frames: Sequence[pd.DataFrame], metric: str, share: float = 0.05) -> float:
    """A level that all of some runs reach: near the end of the one that ends highest.

    The end is the mean of the last quarter of a run; ``share`` of what that run fell, from
    where it began, stands above it.
    """
    ends = []
    for frame in frames:
        values = frame[metric].to_numpy(float)
        ends.append((values[-max(1, len(values) // 4) :].mean(), values[0]))
    end, start = max(ends)
    return float(end + share * max(start - end, 0.0))


LEVELS = 20
"""The number of levels at which trainings are compared where one is not enough."""
BEGUN = 0.1
"""The part of a training after which its level is one of those that are looked at."""


def common_levels(frames: Sequence[pd.DataFrame], metric: str) -> np.ndarray:
    """Levels (:data:`LEVELS`,) that all of some runs reach, at equal distances, falling.

    The first is where the highest trend is after a tenth of the updates, the last where the
    highest one ends. None of them is chosen by anybody.
    """
    begins, ends = [], []
    for frame in frames:
        at, trend = frame["update"].to_numpy(float), falling(frame[metric].to_numpy(float))
        begins.append(float(np.interp(BEGUN * at[-1], at, trend)))
        ends.append(float(trend[-1]))
    return np.linspace(max(begins), max(ends), LEVELS)


def over_levels(metric: str, of: str = "update") -> Numbers:
    """The mean over :func:`common_levels` of the logarithm of the time that each of some runs
    takes to a level.

    The difference of two is the logarithm of how many times as long the first takes, the
    geometric mean over levels.
    """

    return lambda frames: _to_levels(frames, metric, common_levels(frames, metric), of)


def over_levels_below(metric: str, start: float, of: str = "update") -> Numbers:
    """As :func:`over_levels`, for levels from ``start`` to where the lowest run ends.

    A run that ends above a level counts as if it were there at its end. Where no run reaches
    ``start`` there is no number.
    """

    def times(frames: Sequence[pd.DataFrame]) -> list[float]:
        end = min(float(falling(frame[metric].to_numpy(float))[-1]) for frame in frames)
        if end >= start:
            return [float("nan")] * len(frames)
        return _to_levels(frames, metric, np.linspace(start, end, LEVELS), of)

    return times


def _to_levels(
    frames: Sequence[pd.DataFrame], metric: str, levels: np.ndarray, of: str
) -> list[float]:
    """The mean over levels of the logarithm of the time that each run takes."""
    return [
        float(np.mean([np.log1p(time_to(frame, metric, level, of).at) for level in levels]))
        for frame in frames
    ]


def until(epochs: float, numbers: Numbers) -> Numbers:
    """The numbers of some runs as if each had ended after so many ``epochs``."""
    return lambda frames: numbers([frame.loc[frame.epoch <= epochs] for frame in frames])


def to_common_level(metric: str, of: str = "update"):
    """The logarithm of the time that each of some runs takes to the level that all reach.

    The difference of two is the logarithm of how many times as long the first takes.
    """

    def times(frames: Sequence[pd.DataFrame]) -> list[float]:
        level = common_level(frames, metric)
        return [float(np.log1p(time_to(frame, metric, level, of).at)) for frame in frames]

    return times


def to_own_level(metric: str) -> Numbers:
    """The logarithm of the time that each of some runs takes to the level of that run alone.

    It says when a curve comes to rest, not how soon it is at a loss; of runs that were looked
    at as often.
    """
    return lambda frames: [to_common_level(metric)([frame])[0] for frame in frames]
