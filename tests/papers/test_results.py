"""Arms are compared seed by seed, by runs that are one in all else."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lnlab.analysis.statistics import interval
from lnlab.papers import las
from lnlab.papers.mnist import Experiment
from lnlab.papers.results import (
    after,
    compare_arms,
    confidence_interval,
    curves,
    differences,
    differences_from,
    final,
    mean_along,
    numbers_by_seed,
    provenance,
    runs_of_task,
    select_runs,
    trajectories,
)

LARGE = Experiment.budget("paper", batch_size=128)
WINS = {0: 1.0, 1: 1.1, 2: 1.2}
LOSES = {0: 2.0, 1: 2.2, 2: 2.3}


def pair(made, first=WINS, second=LOSES, **settings):
    return [made("layer", first, **settings), made("batch", second, **settings)]


def test_along_is_the_mean_over_updates():
    metrics = pd.DataFrame({"update": [0, 1, 3, 7], "nll": [4.0, 2.0, 0.0, 1.0]})
    assert mean_along("nll")(metrics) == pytest.approx(
        (3 + 2 + 2) / 7, rel=1e-15
    )  # one rounding
    assert mean_along("nll")(metrics.assign(nll=5.0)) == 5.0


def test_after_reads_when_the_epochs_are_over():
    metrics = pd.DataFrame({"epoch": [0, 0.5, 1.0, 2.5], "nll": [4.0, 3.0, 2.0, 1.0]})
    assert [after("nll", epochs)(metrics) for epochs in (0, 0.6, 1, 2)] == [4, 2, 2, 1]
    assert final("nll")(metrics) == 1


def test_numbers_are_those_of_each_seed(made):
    runs = select_runs([made("layer", WINS)], LARGE)["layer"]
    assert numbers_by_seed(runs, final("train_nll")) == WINS


def test_differences_are_of_the_seeds_that_both_have(made):
    runs = [made("layer", WINS), made("batch", {2: 2.2, 0: 2.0, 7: 9.0})]
    found = differences(select_runs(runs, LARGE), "layer", "batch", final("train_nll"))
    assert found == {0: -1.0, 2: pytest.approx(-1.0, abs=1e-15)}  # a rounding of 2.2 - 1.2
    assert list(found) == [0, 2]


def test_seeds_in_folders_of_their_own_are_one_arm(made):
    runs = [made(arm, {seed: v}) for arm in ("layer", "batch") for seed, v in WINS.items()]
    arms = select_runs(runs, LARGE)
    assert {arm: sorted(by_seed) for arm, by_seed in arms.items()} == {
        "layer": [0, 1, 2],
        "batch": [0, 1, 2],
    }
    assert numbers_by_seed(arms["layer"], final("train_nll")) == WINS


def test_of_a_seed_trained_twice_the_larger_run_counts(made):
    alone, together = made("layer", {1: 7.0}), made("layer", WINS)
    for runs in ([alone, together], [together, alone]):
        assert numbers_by_seed(select_runs(runs, LARGE)["layer"], final("train_nll")) == WINS


def test_runs_that_differ_in_anything_else_are_kept_apart(made):
    ours = made("layer", WINS)
    others = [
        made("batch", LOSES, learning_rate=0.1),
        made("rms", LOSES, units=(10,)),
        made("weight", LOSES, epochs=3),
        made("none", LOSES, done=False),
        made("batch hidden", LOSES, batch_size=4),
    ]
    assert set(select_runs([ours, *others], LARGE)) == {"layer"}
    assert select_runs([], LARGE) == {}


def test_a_notebook_shows_the_seeds_that_it_was_told(made):
    runs = [*pair(made), *pair(made, {3: 1.3, 4: 1.4}, {3: 2.3}), made("rms", {5: 1.0})]
    told = runs_of_task(runs, replace(LARGE, seeds=(3, 4)))
    assert {arm: set(by_seed) for arm, by_seed in told.items()} == {
        "layer": {3, 4},
        "batch": {3},
    }
    assert set(select_runs(runs, LARGE)["layer"]) == {0, 1, 2, 3, 4}


def test_of_one_seed_no_bounds_are_known(made):
    arms = runs_of_task(pair(made), replace(LARGE, seeds=(1,)))
    values, (low, high) = compare_arms(arms, "layer", "batch", final("train_nll"))
    assert values == (WINS[1] - LOSES[1],)
    assert (low, high) == (-np.inf, np.inf)
    assert confidence_interval([1.0, 2.0]) == interval([1.0, 2.0])


def test_devices_are_not_mixed(made):
    here = pair(made)
    there = pair(made, {0: 5.0, 1: 5.0, 2: 5.0, 3: 5.0}, device="cuda")
    mixed = [here[0], there[0], there[1], here[1]]
    assert (
        numbers_by_seed(select_runs(mixed, LARGE, "cpu")["layer"], final("train_nll")) == WINS
    )
    on_cuda = numbers_by_seed(select_runs(mixed, LARGE, "cuda:1")["layer"], final("train_nll"))
    assert set(on_cuda.values()) == {5.0}
    assert select_runs(mixed, LARGE, "mps") == {}
    whichever = select_runs(mixed, LARGE)
    assert {run.config["device"] for arm in whichever.values() for run in arm.values()} == {
        "cuda"
    }


def test_trajectories_keep_the_seeds_and_share_the_time(made):
    together = made("layer", {0: 1.0, 1: 2.0})
    at, values = trajectories({"layer": {1: together, 0: together}}, "train_nll")["layer"]
    np.testing.assert_array_equal(at, 10 * np.arange(21))
    np.testing.assert_array_equal(values, [[1.0] * 21, [2.0] * 21])
    arms = {"layer": {0: together, 1: together, 7: made("layer", {7: 3.0})}}
    at, values = trajectories(arms, "train_nll", "cpu_seconds")["layer"]
    np.testing.assert_allclose(at, (1 + 1 + 2) / 3 * np.arange(21), rtol=1e-15)  # a mean's
    assert values.shape == (3, 21)


def test_curves_and_comparisons_of_every_panel(made):
    arms = select_runs([*pair(made), made("rms", WINS)], LARGE)
    assert set(curves({"one": arms}, "train_nll")["one"]) == {"layer", "batch", "rms"}
    found = differences_from({"one": arms}, "layer", final("train_nll"))
    assert set(found) == {"one: layer − batch", "one: layer − rms"}
    values, ends = found["one: layer − batch"]
    assert ends == interval(values)
    assert provenance(arms).startswith("official data: mnist; 3 seeds; ")
    alone = {arm: {0: by_seed[0]} for arm, by_seed in arms.items()}
    assert provenance(alone).startswith("official data: mnist; 1 seed; ")


def test_a_field_with_another_value_tells_runs_apart(ran):
    right, wrong = (
        las.Experiment(swap_states=True, published_cell=published)
        for published in (False, True)
    )
    runs = [ran(replace(each, seeds=(*WINS,)), WINS) for each in (right, wrong)]
    for task, run in zip((right, wrong), runs, strict=True):
        for order in (runs, runs[::-1]):
            assert set(select_runs(order, task)["encoder"].values()) == {run}


def test_runs_that_measured_more_count_and_those_that_measured_less_do_not(ran):
    task = las.Experiment(epochs=1, seeds=(0, 1))
    watched = replace(task, validate=True)
    plain = ran(replace(task, seeds=(0,)), {0: 1.0})
    more = ran(watched, {0: 2.0, 1: 3.0})
    assert select_runs([plain, more], task) == {task.norm: {0: plain, 1: more}}
    assert select_runs([plain, more], watched) == {task.norm: {0: more, 1: more}}
