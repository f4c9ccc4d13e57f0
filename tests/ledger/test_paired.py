"""Arms are compared seed by seed, by runs that are one in all else."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lnlab.ledger import Verdict, interval
from lnlab.ledger.benothman2018_speech import CONVERGED, STUDY, beside_the_study
from lnlab.ledger.paired import (
    after,
    against,
    along,
    better,
    curves,
    differences,
    final,
    like,
    made_on,
    numbers,
    reached,
    settled,
    sturdier,
    trajectories,
)
from lnlab.tasks import PermutationInvariantMNIST as Task
from lnlab.tasks import Spelling

LARGE, SMALL = (Task.budget("paper", batch_size=m) for m in (128, 4))
TEST = better(LARGE, "layer", "batch", along("train_nll"), "NLL")
ROBUST = sturdier(LARGE, SMALL, "layer", "batch", "train_nll", "NLL")
WINS = {0: 1.0, 1: 1.1, 2: 1.2}
LOSES = {0: 2.0, 1: 2.2, 2: 2.3}


def pair(made, first=WINS, second=LOSES, **settings):
    return [made("layer", first, **settings), made("batch", second, **settings)]


def test_along_is_the_mean_over_updates():
    metrics = pd.DataFrame({"update": [0, 1, 3, 7], "nll": [4.0, 2.0, 0.0, 1.0]})
    assert along("nll")(metrics) == pytest.approx((3 + 2 + 2) / 7, rel=1e-15)  # one rounding
    assert along("nll")(metrics.assign(nll=5.0)) == 5.0


def test_reached_is_the_first_update_at_the_level():
    metrics = pd.DataFrame({"update": [0, 5, 9, 12], "error": [0.9, 0.2, 0.1, 0.3]})
    assert reached("error", 0.2)(metrics) == 5
    assert reached("error", 0.15)(metrics) == 9
    assert reached("error", 0.05)(metrics) == float("inf")


def test_a_run_settles_where_it_is_first_near_its_best():
    metrics = pd.DataFrame(
        {"update": [0, 5, 9, 12], "cpu": [0, 1, 2, 3], "error": [0.9, 0.25, 0.2, 0.3]}
    )
    assert settled("error", 0.1)(metrics) == 5
    assert settled("error", 0.04)(metrics) == 9
    assert settled("error", 0.1, of="cpu")(metrics) == 1
    assert settled("error", 1.0)(metrics) == 0


def test_after_reads_when_the_epochs_are_over():
    metrics = pd.DataFrame({"epoch": [0, 0.5, 1.0, 2.5], "nll": [4.0, 3.0, 2.0, 1.0]})
    assert [after("nll", epochs)(metrics) for epochs in (0, 0.6, 1, 2)] == [4, 2, 2, 1]
    assert final("nll")(metrics) == 1


def test_numbers_are_those_of_each_seed(made):
    runs = like([made("layer", WINS)], LARGE)["layer"]
    assert numbers(runs, final("train_nll")) == WINS


def test_differences_are_of_the_seeds_that_both_have(made):
    runs = [made("layer", WINS), made("batch", {2: 2.2, 0: 2.0, 7: 9.0})]
    found = differences(like(runs, LARGE), "layer", "batch", final("train_nll"))
    assert found == {0: -1.0, 2: pytest.approx(-1.0, abs=1e-15)}  # a rounding of 2.2 - 1.2
    assert list(found) == [0, 2]


def test_seeds_in_folders_of_their_own_are_one_arm(made):
    runs = [made(arm, {seed: v}) for arm in ("layer", "batch") for seed, v in WINS.items()]
    arms = like(runs, LARGE)
    assert {arm: sorted(by_seed) for arm, by_seed in arms.items()} == {
        "layer": [0, 1, 2],
        "batch": [0, 1, 2],
    }
    assert numbers(arms["layer"], final("train_nll")) == WINS


def test_of_a_seed_trained_twice_the_larger_run_counts(made):
    alone, together = made("layer", {1: 7.0}), made("layer", WINS)
    for runs in ([alone, together], [together, alone]):
        assert numbers(like(runs, LARGE)["layer"], final("train_nll")) == WINS


def test_runs_that_differ_in_anything_else_are_kept_apart(made):
    ours = made("layer", WINS)
    others = [
        made("batch", LOSES, learning_rate=0.1),
        made("rms", LOSES, units=(10,)),
        made("weight", LOSES, epochs=3),
        made("none", LOSES, done=False),
        made("batch hidden", LOSES, batch_size=4),
    ]
    assert set(like([ours, *others], LARGE)) == {"layer"}
    assert like([], LARGE) == {}


def test_devices_are_not_mixed(made):
    here = pair(made)
    there = pair(made, {0: 5.0, 1: 5.0, 2: 5.0, 3: 5.0}, device="cuda")
    mixed = [here[0], there[0], there[1], here[1]]
    assert numbers(like(mixed, LARGE, "cpu")["layer"], final("train_nll")) == WINS
    on_cuda = numbers(like(mixed, LARGE, "cuda:1")["layer"], final("train_nll"))
    assert set(on_cuda.values()) == {5.0}
    assert like(mixed, LARGE, "mps") == {}
    whichever = like(mixed, LARGE)
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
    arms = like([*pair(made), made("rms", WINS)], LARGE)
    assert set(curves({"one": arms}, "train_nll")["one"]) == {"layer", "batch", "rms"}
    found = against({"one": arms}, "layer", final("train_nll"))
    assert set(found) == {"one: layer − batch", "one: layer − rms"}
    values, ends = found["one: layer − batch"]
    assert ends == interval(values)
    assert made_on(arms).startswith("official data: mnist; 3 seeds; ")


@pytest.mark.parametrize(
    ("first", "second", "settings", "verdict"),
    [
        (WINS, LOSES, {}, Verdict.REPRODUCED),
        (LOSES, WINS, {}, Verdict.NOT_REPRODUCED),
        (WINS, WINS, {}, Verdict.NOT_REPRODUCED),
        (WINS, {0: 1.1, 1: 1.1, 2: 3.0}, {}, Verdict.SAME_DIRECTION),
        (WINS, LOSES, {"kind": "embedded"}, Verdict.SAME_DIRECTION),
        (WINS, LOSES, {"units": (32, 32)}, Verdict.SAME_DIRECTION),
        (LOSES, WINS, {"kind": "embedded"}, Verdict.NOT_REPRODUCED),
        (WINS, LOSES, {"epochs": 5}, Verdict.REPRODUCED),
        (WINS, LOSES, {"fused": False}, Verdict.REPRODUCED),
    ],
)
def test_a_claim_can_come_out_either_way(made, first, second, settings, verdict):
    evidence = TEST(pair(made, first, second, **settings))
    assert evidence.verdict is verdict
    assert evidence.values == pytest.approx(  # noqa: PD011
        [first[s] - second[s] for s in WINS]
    )
    assert evidence.interval == interval(evidence.values)
    assert evidence.data.startswith(settings.get("kind", "official") + ": ")
    assert evidence.data.endswith("hidden units, 3 seeds")
    assert evidence.quantity == "NLL, layer - batch"
    assert evidence.hardware


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 4},
        {"learning_rate": 0.1},
        {"initialisation": "authors"},
        {"unbiased": True},
        {"kind": "own"},
        {"done": False},
    ],
)
def test_other_experiments_judge_nothing(made, settings):
    assert TEST(pair(made, **settings)).verdict is Verdict.NOT_YET_RUN


def test_one_seed_or_one_arm_judges_nothing(made):
    assert TEST([]).verdict is Verdict.NOT_YET_RUN
    assert TEST(pair(made, {0: 1.0}, {0: 2.0})).verdict is Verdict.NOT_YET_RUN
    assert TEST(pair(made, {0: 1.0, 1: 1.0}, {1: 2.0, 2: 2.0})).verdict is Verdict.NOT_YET_RUN
    assert TEST([made("layer", WINS), made("rms", LOSES)]).verdict is Verdict.NOT_YET_RUN


def test_a_seed_that_diverged_is_neither_dropped_nor_won(made):
    evidence = TEST(pair(made, WINS, {0: 2.0, 1: float("nan"), 2: 2.0}))
    assert evidence.verdict is Verdict.NOT_COMPARABLE
    assert (evidence.interval, evidence.values) == (None, ())  # noqa: PD011
    assert evidence.quantity.endswith("not finite for seed 1")


def test_the_runs_that_tell_most_are_judged_by(made):
    smoke = pair(made, LOSES, WINS, kind="embedded", units=(32, 32), checksum="e" * 64)
    notebook = pair(made, WINS, LOSES, kind="embedded", units=(128, 128), checksum="e" * 64)
    small = pair(made, LOSES, WINS, units=(32, 32))
    short = pair(made, LOSES, WINS, epochs=5)
    paper, huge = pair(made), pair(made, LOSES, WINS, units=(2000, 2000))
    for runs, data in (
        (smoke + notebook, "embedded: digits, 128-128"),
        (smoke + short + notebook, "official: mnist, 1000-1000"),
        (small + notebook, "official: mnist, 32-32"),
        (short + paper + huge, "official: mnist, 1000-1000"),
    ):
        for order in (runs, runs[::-1]):
            assert TEST(order).data.startswith(data)
    assert TEST(short + paper + smoke).verdict is Verdict.REPRODUCED
    assert TEST(short + smoke).verdict is Verdict.NOT_REPRODUCED


def test_half_of_the_papers_runs_do_not_hide_the_others(made):
    elsewhere = pair(made, kind="embedded", units=(8, 8))
    half = [made("layer", WINS), made("batch", {0: 2.0})]
    assert TEST(half + elsewhere).data.startswith("embedded")


def test_arms_are_not_compared_across_data(made):
    runs = [made("layer", WINS), made("batch", LOSES, checksum="d" * 64)]
    assert TEST(runs).verdict is Verdict.NOT_YET_RUN


def at_both(made, at_128, at_4, **settings):
    """Four runs: (layer, batch) at batch 128 and at batch 4."""
    return [
        made(arm, values, batch_size=m, **settings)
        for m, both in ((128, at_128), (4, at_4))
        for arm, values in zip(("layer", "batch"), both, strict=True)
    ]


SAME = {0: 1.0, 1: 1.1, 2: 1.0}
WORSE = {0: 3.0, 1: 3.2, 2: 3.1}


@pytest.mark.parametrize(
    ("at_4", "settings", "verdict"),
    [
        ((SAME, WORSE), {}, Verdict.REPRODUCED),
        ((WORSE, SAME), {}, Verdict.NOT_REPRODUCED),
        ((WORSE, WORSE), {}, Verdict.NOT_REPRODUCED),
        ((SAME, {0: 1.0, 1: 1.1, 2: 9.0}), {}, Verdict.SAME_DIRECTION),
        ((SAME, WORSE), {"kind": "embedded"}, Verdict.SAME_DIRECTION),
        ((SAME, WORSE), {"units": (8, 8)}, Verdict.SAME_DIRECTION),
        ((SAME, WORSE), {"learning_rate": 0.1}, Verdict.NOT_YET_RUN),
    ],
)
def test_robustness_can_come_out_either_way(made, at_4, settings, verdict):
    evidence = ROBUST(at_both(made, (SAME, SAME), at_4, **settings))
    assert evidence.verdict is verdict
    if verdict is not Verdict.NOT_YET_RUN:
        lost = [at_4[0][seed] - at_4[1][seed] for seed in SAME]
        assert evidence.values == pytest.approx(lost)  # noqa: PD011
        assert evidence.quantity == "NLL after 5 epochs, batch 4 - batch 128, layer - batch"


def test_robustness_is_read_after_as_many_epochs(made):
    late = {seed: [v] * 6 + [100.0] * 15 for seed, v in SAME.items()}
    assert ROBUST(at_both(made, (SAME, late), (SAME, WORSE))).verdict is Verdict.REPRODUCED


def test_robustness_needs_two_seeds_that_all_four_runs_have(made):
    others = {seed + 2: v for seed, v in SAME.items()}
    runs = at_both(made, (SAME, SAME), (others, others))
    assert ROBUST(runs).verdict is Verdict.NOT_YET_RUN
    three = {1: 3.0, 2: 3.0, 3: 3.0}
    found = ROBUST(at_both(made, (SAME, SAME), ({**SAME, 3: 9.0}, three), epochs=5))
    assert len(found.values) == 2


def test_robustness_is_not_read_across_data_or_sizes(made):
    large = at_both(made, (SAME, SAME), (SAME, WORSE))[:2]
    for settings in ({"kind": "embedded"}, {"checksum": "d" * 64}, {"units": (8, 8)}):
        small = [made(arm, SAME, batch_size=4, **settings) for arm in ("layer", "batch")]
        assert ROBUST(large + small).verdict is Verdict.NOT_YET_RUN


def test_a_field_that_is_said_only_where_it_is_set_tells_runs_apart(ran):
    right, wrong = (Spelling(swapped=True, published=published) for published in (False, True))
    runs = [ran(replace(each, seeds=(*WINS,)), WINS) for each in (right, wrong)]
    assert runs[0].config.keys() != runs[1].config.keys()
    for task, run in zip((right, wrong), runs, strict=True):
        for order in (runs, runs[::-1]):
            assert set(like(order, task)["encoder"].values()) == {run}


def test_the_table_stands_beside_the_study_s(ran):
    errors = {arm: [0.9, 0.5, 0.2 + k / 10, 0.2 + k / 10] for k, arm in enumerate(STUDY)}
    arms = {}
    for arm, values in errors.items():
        task = Spelling(norm=arm, epochs=3, seeds=(0, 1))
        rows = dict.fromkeys((0, 1), values)
        arms[arm] = dict.fromkeys((0, 1), ran(task, rows, metric="test_error"))
    table = beside_the_study(arms, {"error": final("test_error"), "updates": CONVERGED})
    assert table.index.tolist() == ["none", "encoder", "both", "decoder"]
    assert table["error"].tolist() == pytest.approx([0.2, 0.3, 0.4, 0.5])
    assert table["updates"].tolist() == [20, 20, 20, 10]
    assert table.loc["encoder", "study, TIMIT: steps"] == 9976
    assert np.isnan(table.loc["decoder", "study, LibriSpeech: steps"])
    assert (table.seeds == 2).all()
