"""From measurements to a verdict: what is compared, over which seeds, with what interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import stats

from lnlab.runs import Run


class Verdict(Enum):
    """What became of a claim.

    A comparison is of one number per seed: the quantity the claim says is negative. The
    claim is *reproduced* if its interval lies below 0 on the paper's own data; *same
    direction* if the mean is below 0, but the interval reaches 0 or the data are others;
    *not reproduced* otherwise. A claim about a paper's absolute numbers on other data than
    its own is *not comparable*.
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
        interval: its two ends; None where nothing was measured.
        values: the number of each seed.
        data: begins with the data's kind: official, embedded or synthetic.
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
        command: what reproduces the measurement.
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


def judge(values: Sequence[float], official: bool) -> tuple[Verdict, tuple[float, float]]:
    """The verdict on "this is negative", from one value a seed."""
    low, high = interval(values)
    if high < 0 and official:
        return Verdict.REPRODUCED, (low, high)
    if np.mean(values) < 0:
        return Verdict.SAME_DIRECTION, (low, high)
    return Verdict.NOT_REPRODUCED, (low, high)
