"""The rule: from one number a seed to an interval, an outcome, and the word for it.

A claim about training says that a difference is negative, by as much as matters: its *margin*;
or that there is none as large; or that it stays below the margin.
Which, and the seeds, are declared before anyone looks. A family of claims that one experiment
answers shares one error rate, 5 %, by the method of Holm (1979). His steps ask of each whether
it is 0, so "none as large" is said by intervals that hold all at once, Bonferroni's. An effect
that is not there is claimed in at most 5 % of families, one as large as the margin denied in
2.5 %; where a family has both, something is wrong in 7.5 % at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf, isfinite

import numpy as np

from lnlab.analysis.statistics import (
    LEVEL,
    ROUNDING,
    detectable,
    exact_interval,
    holm,
    interval,
    p_value,
    sign_flip_p,
)

SEEDS = 5
"""The number that makes "reproduced", or "not reproduced"."""


class Kind(Enum):
    """The kind of a statement, which says what decides it."""

    EQUATION = "equation"
    READING = "reading"
    MEASUREMENT = "measurement"


class Says(StrEnum):
    """The words of a claim about a mean difference, which say what its interval must do."""

    LESS = "less than 0"
    SAME = "nearer to 0 than the margin"
    AT_MOST = "less than the margin"


class Setting(Enum):
    """The place of a measurement, next to where the paper made its own.

    *Own* is the paper's data and everything else that it states, or its published code where
    that says another thing; *scaled down* its data, and something stated otherwise; *other
    data* is all else.
    """

    OWN = "the paper's own"
    SCALED = "scaled down"
    OTHER = "other data"


class Outcome(Enum):
    """The outcome of an interval next to its margin."""

    NO_EFFECT = "no effect as large"
    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"


class Verdict(Enum):
    """The verdict on a statement.

    An equation *holds* or *fails* as it is written; so does a reading, where the text allows
    several, if all of them do. Of a measurement "reproduced" and "not reproduced" are said in
    the paper's own setting, "also seen" and "not seen" in any other. A statement that seeds
    or readings leave open is *inconclusive*; without the declared runs it is *not yet run*.
    """

    HOLDS = "holds"
    FAILS = "fails"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    ALSO_SEEN = "also seen"
    NOT_SEEN = "not seen"
    INCONCLUSIVE = "inconclusive"
    NOT_YET_RUN = "not yet run"


def defect(worst: float) -> str:
    """A defect as it stands everywhere, in two digits; what is rounding has no digits.

    The digits of rounding are the machine's and say nothing of the equation.
    """
    return f"below {ROUNDING:.0e}" if abs(worst) < ROUNDING else f"{worst:.2g}"


def steady(value: float) -> float:
    """A value without the digits in which machines differ: six are kept, of rounding none."""
    return 0.0 if abs(value) < ROUNDING else float(f"{value:.6g}")


def outcome(ends: tuple[float, float], margin: float, values: Sequence[float] = ()) -> Outcome:
    """The outcome of an interval for the claim "this is negative", tried in this order.

    Inside the margins: no effect as large. Wholly below 0, the claimed side: supported.
    Wholly above: contradicted. Else inconclusive; so are ``values`` that are all the same,
    which have no spread to judge by.

    Raises:
        ValueError: if the margin is not positive.
    """
    _positive(margin)
    low, high = ends
    if _inside(ends, margin):
        return Outcome.NO_EFFECT
    if _alike(values):
        return Outcome.INCONCLUSIVE
    if high < 0:
        return Outcome.SUPPORTED
    return Outcome.CONTRADICTED if low > 0 else Outcome.INCONCLUSIVE


def size(found: str, says: str, ends: Sequence[float | None], margin: float) -> str:
    """The size of an effect that is claimed to be negative, next to its margin, in words.

    An outcome tells one side of it: "supported" asks for a sign, "no effect as large" for a
    bound, and where a loss is not excluded a gain may be.

    Args:
        found: the outcome, by its words.
        says: the words of the claim.
        ends: of the interval that decided; None stands for no bound.
    """
    low, high = (
        one if end is None else end for one, end in zip((-inf, inf), ends, strict=True)
    )
    if says != Says.LESS:
        return ""
    if found == Outcome.SUPPORTED.value:
        return "all of it beyond" if high <= -margin else "perhaps less than it"
    if found == Outcome.NO_EFFECT.value and high < 0:
        return "below 0, and less than it"
    if found == Outcome.INCONCLUSIVE.value and low > -margin:
        return "no gain as large"
    return ""


def sameness(ends: tuple[float, float], margin: float, values: Sequence[float]) -> Outcome:
    """The outcome of an interval for the claim "this is nearer to 0 than the margin".

    Inside the margins: supported, as by two one-sided tests (Schuirmann, 1987). Wholly beyond
    one of them: contradicted. Else inconclusive; so are ``values`` that are all the same.

    Raises:
        ValueError: if the margin is not positive.
    """
    low, high = ends
    beyond = high < -margin or low > margin
    return _compared(margin, values, _inside(ends, margin), beyond)


def boundedness(ends: tuple[float, float], margin: float, values: Sequence[float]) -> Outcome:
    """The outcome of an interval for the claim "this is less than the margin".

    Wholly below the margin: supported, wholly above it: contradicted. Else inconclusive; so are
    ``values`` that are all the same.

    Raises:
        ValueError: if the margin is not positive.
    """
    low, high = ends
    return _compared(margin, values, high < margin, low > margin)


def _compared(
    margin: float, values: Sequence[float], supported: bool, contradicted: bool
) -> Outcome:
    """The outcome of a comparison with a margin, which needs values that differ."""
    _positive(margin)
    if _alike(values):
        return Outcome.INCONCLUSIVE
    if supported:
        return Outcome.SUPPORTED
    return Outcome.CONTRADICTED if contradicted else Outcome.INCONCLUSIVE


OUTCOMES = {Says.LESS: outcome, Says.SAME: sameness, Says.AT_MOST: boundedness}
"""The outcome of an interval, by what is claimed."""


def verdict(setting: Setting, found: Outcome, seeds: int) -> Verdict:
    """The word for an outcome: strong ones for the paper's own setting and five seeds."""
    if found is Outcome.INCONCLUSIVE or (setting is Setting.OWN and seeds < SEEDS):
        return Verdict.INCONCLUSIVE
    seen = found is Outcome.SUPPORTED
    if setting is Setting.OWN:
        return Verdict.REPRODUCED if seen else Verdict.NOT_REPRODUCED
    return Verdict.ALSO_SEEN if seen else Verdict.NOT_SEEN


@dataclass(frozen=True)
class Judged:
    """The judgement of the rule on the differences of one claim.

    Attributes:
        interval: that which decides, at ``confidence``.
        p: of the paired t test.
        p_signs: of the permutation test beside it.
        detectable: the effect that these seeds find four times out of five.
    """

    outcome: Outcome
    interval: tuple[float, float]
    confidence: float
    p: float
    p_signs: float
    detectable: float


def judge(
    family: Sequence[Sequence[float]],
    margins: Sequence[float],
    exact: Sequence[bool] | None = None,
    size: int | None = None,
    says: Sequence[Says] | None = None,
    shared: Sequence[float] | None = None,
) -> list[Judged]:
    """The differences of a family of claims, judged together.

    Args:
        margins: the least effect of each that matters.
        exact: whether permutations decide, not t: declared where outcomes are bimodal.
        size: how many claims the family was declared with, if some were not run.
        says: what is claimed of each, by default that it is negative; where the margin is what
            it must not pass, p is that of a mean at the margin.
        shared: what the splits share of each whose values are those of splits of the same
            cases (:func:`standard_error`); t alone knows of it.

    Raises:
        ValueError: if a difference is not finite, or there are fewer than two; if permutations
            are to decide over splits.
    """
    if not all(isfinite(value) for values in family for value in values):
        raise ValueError("a difference is not finite: declare what a failed run counts as.")
    deciding = [False] * len(family) if exact is None else exact
    claimed = [Says.LESS] * len(family) if says is None else says
    splits = [0.0] * len(family) if shared is None else shared
    if any(signs and share for signs, share in zip(deciding, splits, strict=True)):
        raise ValueError("permutations ask for independent values: let t decide over splits.")
    tested = [
        _against(values, margin, what)
        for values, margin, what in zip(family, margins, claimed, strict=True)
    ]
    tests = [
        (p_value(values, share), sign_flip_p(values))
        for values, share in zip(tested, splits, strict=True)
    ]
    confidences = holm([p[signs] for p, signs in zip(tests, deciding, strict=True)], size)
    together = 1 - LEVEL / (len(family) if size is None else size)
    found = []
    for values, margin, signs, what, share, p, confidence in zip(
        family, margins, deciding, claimed, splits, tests, confidences, strict=True
    ):
        ends = _interval(values, confidence, signs, share)
        out = OUTCOMES[what](ends, margin, values)
        if out is Outcome.NO_EFFECT:
            confidence, ends = together, _interval(values, together, signs, share)
            out = OUTCOMES[what](ends, margin, values)
        least = detectable(values, confidence, shared=share)
        if out is Outcome.INCONCLUSIVE and _alike(values):
            ends, least = (-inf, inf), inf  # one reading, however often it is written down
        found.append(Judged(out, ends, confidence, p[0], p[1], least))
    return found


def _against(values: Sequence[float], margin: float, says: Says) -> list[float]:
    """Each less what the claim sets its mean against: 0, the margin, or the nearest of two."""
    _positive(margin)
    nearest = np.copysign(margin, np.mean(values))
    bound = {Says.LESS: 0.0, Says.SAME: nearest, Says.AT_MOST: margin}[says]
    return [float(value - bound) for value in values]


def _interval(
    values: Sequence[float], confidence: float, signs: bool, shared: float
) -> tuple[float, float]:
    """The interval of a mean: by permutations, or by t."""
    return exact_interval(values, confidence) if signs else interval(values, confidence, shared)


def _inside(ends: tuple[float, float], margin: float) -> bool:
    """True if an interval lies between the margins."""
    return -margin < ends[0] and ends[1] < margin


def _alike(values: Sequence[float]) -> bool:
    """True if values differ by rounding alone, so that nothing is known of chance."""
    return len(values) > 0 and float(np.ptp(values)) <= ROUNDING * np.abs(values).max()


def _positive(margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"a margin is {margin}: give the least effect that matters, above 0.")
