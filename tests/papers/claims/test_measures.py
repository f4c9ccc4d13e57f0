"""Convergence is found where simulated curves have it, however long and noisy they are."""

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.claims.measures import (
    LEVELS,
    common_level,
    common_levels,
    final,
    mean_along,
    on_the_way,
    time_to,
    time_to_level,
    time_to_levels,
    time_to_levels_below,
    trained,
    until_a_tenth,
)

TIME = 7.5
KNOWN = 3.0 * TIME
"""Of 0.1 + 0.8 exp(-t/7.5), the time to 0.1 + 0.8 exp(-3): 22.5."""
LEVEL = 0.1 + 0.8 * np.exp(-3.0)


def curve(length, noise=0.0, time=TIME, seed=0, end=0.1):
    at = np.arange(length + 1.0)
    loud = np.random.default_rng(seed).normal(0, noise, length + 1) if noise else 0.0
    return pd.DataFrame({"update": at, "nll": end + 0.8 * np.exp(-at / time) + loud})


@pytest.mark.parametrize("length", [50, 200, 800])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_the_time_to_a_level_does_not_grow_with_noise_or_length(length, noise):
    found = [time_to(curve(length, noise, seed=s), "nll", LEVEL) for s in range(40)]
    # a slope of .0053 an update there: noise of .03 is worth 6 updates in a single curve
    assert np.mean(found) == pytest.approx(KNOWN, abs=0.05 + 60 * noise)


def test_what_never_gets_there_counts_as_there_at_its_end():
    assert time_to(curve(200, end=0.3), "nll", LEVEL) == 200
    rising = pd.DataFrame({"update": [0, 5, 9], "nll": [1.0, 2.0, 3.0]})
    assert time_to(rising, "nll", 0.9) == 9
    assert time_to(rising, "-nll", -2.0) == 5  # of a metric that rises, its negative


def test_between_two_looks_a_line_is_drawn():
    frame = pd.DataFrame({"update": [0, 10], "nll": [1.0, 0.0], "cpu": [0.0, 4.0]})
    assert time_to(frame, "nll", 0.25) == 7.5
    assert time_to(frame, "nll", 0.25, of="cpu") == 3
    assert time_to(frame, "nll", 2.0) == 0


def test_a_level_is_one_that_both_reach():
    good, bad = curve(400), curve(400, end=0.3)
    level = common_level([good, bad], "nll")
    assert level == pytest.approx(0.3 + 0.05 * 0.8, abs=1e-3)  # its tail is exp(-40) high
    assert time_to(good, "nll", level) < 400
    assert time_to(bad, "nll", level) < 400


@pytest.mark.parametrize("length", [100, 400])
def test_twice_as_fast_is_found_as_twice_as_fast(length):
    pairs = (
        [curve(length, 0.01, TIME, s), curve(length, 0.01, 2 * TIME, 99 + s)] for s in range(40)
    )
    ratios = [np.divide(*time_to_level(pair, "nll")) for pair in pairs]
    # they are near 22.5 and 45, both counted from 0; and noise
    assert np.mean(np.log(ratios)) == pytest.approx(-np.log(2), abs=0.1)


def test_over_levels_is_the_ratio_of_times_at_each_of_them():
    """A curve and the same one, twice as slow: half the time to every level that both reach."""
    at = np.arange(0, 401, 10.0)
    slow, fast = (
        pd.DataFrame({"update": at, "bound": 80 + 60 * np.exp(-at / pace)})
        for pace in (200, 100)
    )
    levels = common_levels([fast, slow], "bound")
    assert len(levels) == LEVELS
    assert (np.diff(levels) < 0).all()
    assert levels[0] == slow.bound[4]  # after a tenth of the updates
    assert levels[-1] == slow.bound.iloc[-1]
    times = time_to_levels([fast, slow], "bound")
    assert times[0] / times[1] == pytest.approx(0.5, abs=0.01)


def test_who_never_leaves_a_shelf_is_not_the_faster_one():
    at = np.arange(0, 401, 10.0)
    stuck, leaves = (
        pd.DataFrame({"update": at, "bound": 206 - np.maximum(0.0, slope * (at - 200))})
        for slope in (0.0, 0.5)
    )
    times = time_to_levels_below([stuck, leaves], "bound", 201.0)
    assert times[0] == pytest.approx(401)  # at its end, at every level; counted from 1
    assert 211 < times[1] < 401  # from 201 nats to 106, in a line


def test_levels_of_curves_that_stand_still_are_one_level():
    still = pd.DataFrame({"update": [0.0, 50, 100], "bound": [90.0, 80, 80]})
    levels = common_levels([still, still], "bound")
    assert np.ptp(levels) <= 8
    assert time_to_levels([still, still], "bound")[0] == time_to_levels([still], "bound")[0]


def test_the_last_row_of_the_best_model_is_no_moment_of_the_training():
    metrics = pd.DataFrame({"update": [0, 1, 3, 1], "nll": [4.0, 2.0, 0.0, 9.0]})
    assert len(on_the_way(metrics)) == 3
    assert (final(metrics, "nll"), trained(metrics, "nll")) == (9.0, 0.0)
    assert mean_along(metrics, "nll") == pytest.approx((3 + 2) / 3)


def test_a_sum_until_a_tenth_does_not_depend_on_what_comes_later():
    """Of a loss exp(-t) a tenth is at t = log 10; a metric of 1 sums to the updates there."""
    at = np.linspace(0, 5, 501)
    metrics = pd.DataFrame({"update": at, "train_nll": np.exp(-at), "moved": np.ones(501)})
    assert until_a_tenth(metrics, "moved", "updates") == pytest.approx(np.log(10))
    assert until_a_tenth(metrics[:300], "moved", "updates") == pytest.approx(np.log(10))
    assert until_a_tenth(metrics, "moved", "progress") == pytest.approx(1)
