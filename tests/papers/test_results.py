"""Runs are selected and compared seed by seed, and differ in their normalizer alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lnlab.analysis.statistics import interval
from lnlab.papers import las
from lnlab.papers.mnist import Experiment
from lnlab.papers.results import (
    curves_by_arm,
    curves_by_panel,
    describe_data_seeds_hardware,
    differences_and_interval,
    differences_by_panel_and_other,
    differences_by_seed,
    final_value,
    select_runs,
    select_runs_with_its_seeds,
    trapezoid_mean_over_updates,
    values_by_seed,
)

LARGE = Experiment(preset="paper", batch_size=128)
LOW = {0: 1.0, 1: 1.1, 2: 1.2}
HIGH = {0: 2.0, 1: 2.2, 2: 2.3}
LAST = final_value("train_nll")


def pair(made, first=LOW, second=HIGH, **settings):
    return [made("layer", first, **settings), made("batch", second, **settings)]


def seeds(arms):
    return {arm: set(by_seed) for arm, by_seed in arms.items()}


def test_mean_along_is_the_area_under_the_curve():
    metrics = pd.DataFrame({"update": [0, 1, 3, 7], "nll": [4.0, 2.0, 0.0, 1.0]})
    assert trapezoid_mean_over_updates("nll")(metrics) == pytest.approx(
        (3 + 2 + 2) / 7, rel=1e-15
    )
    assert trapezoid_mean_over_updates("nll")(metrics.assign(nll=5.0)) == 5.0
    assert final_value("nll")(metrics) == 1


def test_differences_are_of_the_seeds_that_both_arms_have(made):
    runs = [made("layer", LOW), made("batch", {2: 2.2, 0: 2.0, 7: 9.0})]
    paired = differences_by_seed(select_runs(runs, LARGE), "layer", "batch", LAST)
    assert paired == {0: -1.0, 2: pytest.approx(-1.0, abs=1e-15)}  # a rounding of 2.2 - 1.2
    assert list(paired) == [0, 2]


def test_of_a_seed_trained_twice_the_larger_run_counts(made):
    alone, together = made("layer", {1: 7.0}), made("layer", LOW)
    for runs in ([alone, together], [together, alone]):
        assert values_by_seed(select_runs(runs, LARGE)["layer"], LAST) == LOW


def test_runs_that_differ_in_anything_else_are_left_out(made):
    others = [
        made("batch", HIGH, learning_rate=0.1),
        made("rms", HIGH, units=(10,)),
        made("weight", HIGH, epochs=3),
        made("none", HIGH, done=False),
        made("batch hidden", HIGH, batch_size=4),
    ]
    assert set(select_runs([made("layer", LOW), *others], LARGE)) == {"layer"}
    assert select_runs([], LARGE) == {}


def test_seeds_are_those_of_the_task(made):
    runs = [*pair(made), *pair(made, {3: 1.3, 4: 1.4}, {3: 2.3}), made("rms", {5: 1.0})]
    selected = select_runs_with_its_seeds(runs, replace(LARGE, seeds=(3, 4)))
    assert seeds(selected) == {"layer": {3, 4}, "batch": {3}}
    assert set(select_runs(runs, LARGE)["layer"]) == {0, 1, 2, 3, 4}
    single = select_runs_with_its_seeds(runs, replace(LARGE, seeds=(1,)))
    assert differences_and_interval(single, "layer", "batch", LAST) == (
        (1.1 - 2.2,),
        (-np.inf, np.inf),
    )


def test_devices_are_not_mixed(made):
    cpu, cuda = pair(made), pair(made, {0: 5.0, 1: 5.0, 2: 5.0, 3: 5.0}, device="cuda")
    runs = [cpu[0], *cuda, cpu[1]]
    assert values_by_seed(select_runs(runs, LARGE, "cpu")["layer"], LAST) == LOW
    for device in ("cuda:1", ""):  # by default the larger set
        numbers = values_by_seed(select_runs(runs, LARGE, device)["layer"], LAST)
        assert set(numbers.values()) == {5.0}
    assert select_runs(runs, LARGE, "mps") == {}


def test_trajectories_share_the_time_of_seeds_trained_together(made):
    together = made("layer", {0: 1.0, 1: 2.0})
    x, values = curves_by_arm({"layer": {1: together, 0: together}}, "train_nll")["layer"]
    np.testing.assert_array_equal(x, 10 * np.arange(21))
    np.testing.assert_array_equal(values, [[1.0] * 21, [2.0] * 21])
    arms = {"layer": {0: together, 1: together, 7: made("layer", {7: 3.0})}}
    x, values = curves_by_arm(arms, "train_nll", "cpu_seconds")["layer"]
    np.testing.assert_allclose(x, (1 + 1 + 2) / 3 * np.arange(21), rtol=1e-15)
    assert values.shape == (3, 21)


def test_curves_and_comparisons_of_every_panel(made):
    arms = select_runs([*pair(made), made("rms", LOW)], LARGE)
    assert set(curves_by_panel({"one": arms}, "train_nll")["one"]) == {"layer", "batch", "rms"}
    panels = differences_by_panel_and_other({"one": arms}, "layer", LAST)
    assert set(panels) == {"one: layer − batch", "one: layer − rms"}
    values, ends = panels["one: layer − batch"]
    assert ends == interval(values)
    assert describe_data_seeds_hardware(arms).startswith("official data: mnist; 3 seeds; ")
    single = {arm: {0: by_seed[0]} for arm, by_seed in arms.items()}
    assert describe_data_seeds_hardware(single).startswith("official data: mnist; 1 seed; ")


def test_fields_that_only_measure_do_not_tell_runs_apart(ran):
    task = las.Experiment(epochs=1, seeds=(0, 1))
    measuring = replace(task, validate=True)
    plain = ran(replace(task, seeds=(0,)), {0: 1.0})
    more = ran(measuring, {0: 2.0, 1: 3.0})
    assert select_runs([plain, more], task) == {task.norm: {0: plain, 1: more}}
    assert select_runs([plain, more], measuring) == {task.norm: {0: more, 1: more}}
    other = ran(replace(task, swap_states=True), LOW)
    assert other not in select_runs([other, plain], task)[task.norm].values()
