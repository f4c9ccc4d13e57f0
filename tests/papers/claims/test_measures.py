"""Convergence is found where simulated curves have it, however long and noisy they are."""

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.claims import measures

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
    found = [
        measures.time_to_level_or_end(curve(length, noise, seed=s), "nll", LEVEL)
        for s in range(40)
    ]
    # a slope of .0053 an update there: noise of .03 moves a single curve by 6 updates
    assert np.mean(found) == pytest.approx(KNOWN, abs=0.05 + 60 * noise)


def test_a_level_is_reached_on_a_line_between_evaluations_or_at_the_end():
    frame = pd.DataFrame({"update": [0, 10], "nll": [1.0, 0.0], "cpu": [0.0, 4.0]})
    assert measures.time_to_level_or_end(frame, "nll", 0.25) == 7.5
    assert measures.time_to_level_or_end(frame, "nll", 0.25, time_column="cpu") == 3
    assert measures.time_to_level_or_end(frame, "nll", 2.0) == 0
    assert measures.time_to_level_or_end(curve(200, end=0.3), "nll", LEVEL) == 200
    rising = pd.DataFrame({"update": [0, 5, 9], "nll": [1.0, 2.0, 3.0]})
    assert measures.time_to_level_or_end(rising, "nll", 0.9) == 9
    assert (
        measures.time_to_level_or_end(rising, "-nll", -2.0) == 5
    )  # of a metric that rises, its negative


@pytest.mark.parametrize("length", [100, 400])
def test_twice_the_speed_is_half_the_time(length):
    pairs = (
        [curve(length, 0.01, TIME, s), curve(length, 0.01, 2 * TIME, 99 + s)] for s in range(40)
    )
    ratios = [np.divide(*measures.times_to_common_level(pair, "nll")) for pair in pairs]
    # they are near 22.5 and 45, both counted from 0; and noise
    assert np.mean(np.log(ratios)) == pytest.approx(-np.log(2), abs=0.1)


def test_over_levels_is_the_ratio_of_times_at_each_of_them():
    """A curve and the same one, twice as slow: half the time to every level that both reach."""
    at = np.arange(0, 401, 10.0)
    slow, fast = (
        pd.DataFrame({"update": at, "bound": 80 + 60 * np.exp(-at / pace)})
        for pace in (200, 100)
    )
    levels = measures.levels_all_runs_reach([fast, slow], "bound")
    assert len(levels) == measures.LEVELS
    assert (np.diff(levels) < 0).all()
    assert levels[0] == slow.bound[4]  # after a tenth of the updates
    assert levels[-1] == slow.bound.iloc[-1]
    times = measures.geomean_times_to_common_levels([fast, slow], "bound")
    assert times[0] / times[1] == pytest.approx(0.5, abs=0.01)


def test_a_run_that_stays_on_a_plateau_is_not_the_faster_one():
    at = np.arange(0, 401, 10.0)
    stuck, leaves = (
        pd.DataFrame({"update": at, "bound": 206 - np.maximum(0.0, slope * (at - 200))})
        for slope in (0.0, 0.5)
    )
    times = measures.geomean_updates_to_levels_below([stuck, leaves], "bound", 201.0)
    assert times[0] == pytest.approx(401)  # at its end, at every level; counted from 1
    assert 211 < times[1] < 401  # from 201 nats to 106, in a line


def test_the_last_row_of_the_best_model_is_no_moment_of_the_training():
    metrics = pd.DataFrame({"update": [0, 1, 3, 1], "nll": [4.0, 2.0, 0.0, 9.0]})
    assert len(measures.drop_best_model_row(metrics)) == 3
    assert (
        measures.final_value(metrics, "nll"),
        measures.value_after_last_update(metrics, "nll"),
    ) == (
        9.0,
        0.0,
    )
    assert measures.trapezoid_mean_over_updates(metrics, "nll") == pytest.approx((3 + 2) / 3)


def test_a_sum_until_a_tenth_does_not_depend_on_what_comes_later():
    """Of a loss exp(-t) a tenth is at t = log 10; a metric of 1 sums to the updates there."""
    at = np.linspace(0, 5, 501)
    metrics = pd.DataFrame({"update": at, "train_nll": np.exp(-at), "moved": np.ones(501)})
    assert measures.area_until_tenth_of_initial_loss(
        metrics, "moved", "updates"
    ) == pytest.approx(np.log(10))
    assert measures.area_until_tenth_of_initial_loss(
        metrics[:300], "moved", "updates"
    ) == pytest.approx(np.log(10))
    assert measures.area_until_tenth_of_initial_loss(
        metrics, "moved", "progress"
    ) == pytest.approx(1)
