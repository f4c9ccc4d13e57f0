"""From measurements to a verdict: what is compared, over which seeds, with what interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import stats

from lnlab.runs import Run


class Verdict(Enum):
    """What became of a claim.

    A claim about training is tested by one number a seed, a difference that the claim says
    is negative, and its mean with an interval. The claim is

    - *reproduced* if the interval lies below 0 in the paper's own experiment;
    - *same direction* if the mean is below 0, but the interval reaches 0, or the data or
      the size are not the paper's;
    - *not reproduced* if the mean is not below 0;
    - *not comparable* if there is no mean, because a seed has no finite number, or if the
      claim is a number itself and ours was measured on other data;
    - *not yet run* if the runs that it needs are not there, of two seeds at least.

    A claim about an equation is *reproduced* if it holds for every seed, else *not
    reproduced*.
    """

    REPRODUCED = "reproduced"
    SAME_DIRECTION = "same direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARABLE = "not comparable"
    NOT_YET_RUN = "not yet run"


@dataclass(frozen=True)
class Evidence:
    """What was measured for a claim.

    Attributes:
        verdict: what follows from it.
        quantity: what the interval is of, in words and with its unit.
        interval: its two ends; None where there is none.
        values: the number of each seed; empty where one is not finite.
        data: begins with the data's kind: official, embedded or synthetic; empty where
            nothing was measured.
        hardware: where it was measured.
    """

    verdict: Verdict
    quantity: str = ""
    interval: tuple[float, float] | None = None
    values: tuple[float, ...] = ()
    data: str = ""
    hardware: str = ""


NOTHING = Evidence(Verdict.NOT_YET_RUN)

Test = Callable[[Sequence[Run]], Evidence]
"""What a claim is tested by: it is given all runs that are there."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper.

    Attributes:
        id: short and lasting; what stands before the first dash is the paper.
        source: "Ba et al. (2016), 6.6".
        statement: what is claimed, near the paper's words.
        test: measures it; None while nothing here does.
        command: what reproduces the measurement, in a shell.
        paper: the paper's number, where it gives one.
        note: a mistake of the paper, or why we think that it came out as it did.
    """

    id: str
    source: str
    statement: str
    test: Test | None = None
    command: str = ""
    paper: str = ""
    note: str = ""

    def judge(self, runs: Sequence[Run]) -> Evidence:
        """The evidence that ``runs`` hold."""
        return NOTHING if self.test is None else self.test(runs)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's t interval of the mean of independent values (paired differences, here).

    Raises:
        ValueError: if there are fewer than two values: one has no spread.
    """
    if len(values) < 2:
        raise ValueError("an interval needs two seeds or more.")
    mean, spread = float(np.mean(values)), float(stats.sem(values))
    reach = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * spread
    return mean - reach, mean + reach


def judge(values: Sequence[float], own: bool) -> tuple[Verdict, tuple[float, float] | None]:
    """The verdict on "this is negative", and the interval behind it.

    Args:
        values: one a seed, at least two.
        own: whether they come from the paper's own experiment.
    """
    if not np.isfinite(values).all():
        return Verdict.NOT_COMPARABLE, None
    low, high = interval(values)
    if high < 0 and own:
        return Verdict.REPRODUCED, (low, high)
    # a mean that is nothing but rounding is none
    if np.mean(values) < -1e-12 * np.abs(values).max():
        return Verdict.SAME_DIRECTION, (low, high)
    return Verdict.NOT_REPRODUCED, (low, high)
