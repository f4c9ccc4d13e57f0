"""A verdict follows from the values by its rule, and from nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnlab.ledger import Claim, Verdict, interval
from lnlab.ledger.verdict import NOTHING, judge

SOME = st.lists(st.floats(-1e3, 1e3).map(lambda v: round(v, 3)), min_size=2, max_size=8)


def test_interval_is_students():
    # three values of mean 2 and standard deviation 1; t of 2 degrees at 97.5 % is 4.30265
    low, high = interval([1.0, 2.0, 3.0])
    reach = 4.302652729749464 / math.sqrt(3)
    assert (low, high) == pytest.approx((2 - reach, 2 + reach), rel=1e-12)  # t has 13 digits


def test_interval_holds_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(5, 3, (400, 4))
    held = [low <= 5 <= high for low, high in map(interval, draws)]
    assert 0.917 < np.mean(held) < 0.983  # three standard errors of 400 draws about 95 %


def test_a_higher_confidence_is_a_wider_interval():
    (low, high), (lowest, highest) = interval([1.0, 2.0]), interval([1.0, 2.0], 0.99)
    assert lowest < low < high < highest


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_seeds_have_no_interval(values):
    with pytest.raises(ValueError, match="two seeds or more"):
        interval(values)


@pytest.mark.parametrize(
    ("values", "own", "verdict"),
    [
        ([-1.0, -1.1, -0.9], True, Verdict.REPRODUCED),
        ([-1.0, -1.0], True, Verdict.REPRODUCED),
        ([-1.0, -1.1, -0.9], False, Verdict.SAME_DIRECTION),
        ([-9.0, 1.0, 1.0], True, Verdict.SAME_DIRECTION),
        ([9.0, -1.0, -1.0], True, Verdict.NOT_REPRODUCED),
        ([1.0, 1.1, 0.9], True, Verdict.NOT_REPRODUCED),
        ([0.0, 0.0], True, Verdict.NOT_REPRODUCED),
        ([-1.0, 1.0], True, Verdict.NOT_REPRODUCED),
        ([-1.0, math.nan], True, Verdict.NOT_COMPARABLE),
        ([-1.0, -math.inf], True, Verdict.NOT_COMPARABLE),
    ],
)
def test_the_rule(values, own, verdict):
    found, ends = judge(values, own)
    assert found is verdict
    finite = verdict is not Verdict.NOT_COMPARABLE
    assert ends == (interval(values) if finite else None)


@given(SOME)
def test_the_rule_is_what_the_docstring_says(values):
    verdict, ends = judge(values, own=True)
    assert ends is not None
    low, high = ends
    assert low <= np.mean(values) + 1e-9  # roundings of values up to 1e3
    if high < 0:
        assert verdict is Verdict.REPRODUCED
    else:
        below = np.mean(values) < 0
        assert verdict is (Verdict.SAME_DIRECTION if below else Verdict.NOT_REPRODUCED)
    elsewhere, same = judge(values, own=False)
    assert elsewhere is not Verdict.REPRODUCED
    assert same == ends


@given(SOME)
def test_a_claim_and_its_opposite_are_not_both_reproduced(values):
    opposite = [-value for value in values]
    assert {judge(v, own=True)[0] for v in (values, opposite)} != {Verdict.REPRODUCED}


def test_a_claim_without_a_test_is_not_yet_run():
    assert Claim("x-1", "X (2000), 1", "x").judge([]) is NOTHING
    assert NOTHING.verdict is Verdict.NOT_YET_RUN
    assert (NOTHING.interval, NOTHING.values, NOTHING.data) == (None, (), "")


def test_what_is_even_but_for_rounding_has_no_direction():
    values = (0.3 - 0.2 - 0.1, 0.1 + 0.2 - 0.3, -4 * 2.0**-54, 0.004, -0.004)
    assert np.mean(values) < 0
    assert judge(values, own=False)[0] is Verdict.NOT_REPRODUCED
