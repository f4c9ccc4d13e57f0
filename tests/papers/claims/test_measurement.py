"""Runs are compared as declared: these seeds, these fields, all of them or none."""

import json
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from lnlab.papers import Handwriting, Spelling
from lnlab.papers import PermutationInvariantMNIST as Task
from lnlab.papers.claims.measurement import Measurement, Tuning, each
from lnlab.papers.claims.paired import final
from lnlab.papers.claims.rule import Setting
from lnlab.training import train_steps
from lnlab.training.runs import read

TASK = Task.budget("paper", seeds=(100, 101, 102), epochs=2)
ARMS = (1, {"norm": "layer"}), (-1, {"norm": "batch"})
STATED = {"data": "mnist", "units": [1000, 1000], "epochs": 2}
NLL = each(final("train_nll"))
TEST = Measurement(TASK, ARMS, NLL, STATED)
ONE, TWO = {100: 1.0, 101: 1.25, 102: 1.5}, {100: 2.0, 101: 2.5, 102: 3.0}


@pytest.fixture
def pair(ran):
    def make(first=ONE, second=TWO, **told):
        changes = {k: v for k, v in told.items() if k in Task.__dataclass_fields__}
        told = {k: v for k, v in told.items() if k not in changes}
        return [
            ran(replace(TASK, norm=norm, seeds=(*values,), **changes), values, **told)
            for norm, values in (("layer", first), ("batch", second))
        ]

    return make


def test_a_value_is_the_signed_sum_of_one_seed(pair):
    found = TEST.differences(pair())
    assert found.values == (-1.0, -1.25, -1.5)
    assert found.data == "official: mnist"
    assert found.failures == 0


def test_other_seeds_are_left_out_and_too_few_judge_nothing(pair):
    more = {**ONE, 7: 9.0}, {**TWO, 7: 0.0}
    assert TEST.differences(pair(*more)).values == (-1.0, -1.25, -1.5)
    few = {100: 1.0, 101: 1.0}, {100: 2.0, 101: 2.0}
    assert TEST.differences(pair(*few)) is None
    assert TEST.differences([]) is None


def test_seeds_that_were_not_declared_are_exploratory(pair):
    runs = pair({0: 1.0, 1: 1.25}, {0: 2.0, 1: 2.5})
    assert TEST.differences(runs) is None
    assert TEST.exploratory(runs).endswith("by seeds 0, 1, which were not declared")
    assert TEST.exploratory([]) == ""


def test_of_exploratory_seeds_the_block_is_named(ran):
    blocks = {"units": (10, 10)}, {"units": (20, 20)}
    runs = [
        ran(replace(TASK, **fields, **blocks[1], seeds=(0, 1)), {0: s * 1.0, 1: s * 2.0})
        for s, fields in ARMS
    ]
    said = replace(TEST, blocks=blocks).exploratory(runs)
    assert said.startswith("units (20, 20): ")


def test_a_block_may_have_a_seed_of_its_own(ran):
    blocks = {"units": (10, 10), "seeds": (100,)}, {"units": (20, 20), "seeds": (101,)}
    runs = [
        ran(replace(TASK, **fields, **block), {block["seeds"][0]: s * value})
        for s, fields in ARMS
        for value, block in zip((1.0, 3.0), blocks, strict=True)
    ]
    test = replace(TEST, blocks=blocks)
    assert test.differences(runs).values == (2.0, 6.0)
    assert test.differences(runs[1:]) is None
    assert [part.split("seeds=")[1][:3] for part in test.command().split(" && ")] == [
        "100", "100", "101", "101",
    ]  # fmt: skip


def test_a_command_says_a_field_where_the_budget_has_another():
    assert Handwriting.budget("paper").max_points == 500
    scaled = Measurement(Handwriting.scaled(), ARMS[:1], NLL)
    assert "--budget paper" in scaled.command()
    assert "--set max_points=0" in scaled.command()
    assert "max_points" not in replace(scaled, task=Handwriting.budget("paper")).command()


def test_a_run_that_measured_more_or_less_counts_if_it_has_what_is_asked(ran):
    task = Spelling(epochs=1, validate=True, seeds=(100, 101))
    arms = (1, {"norm": "encoder"}), (-1, {"norm": "none"})
    old = [
        ran(replace(task, **fields, validate=False), {100: s, 101: 3 * s}, metric="test_error")
        for s, fields in arms
    ]
    test = Measurement(task, arms, each(final("test_error")))
    assert test.differences(old).values == (2.0, 6.0)
    assert replace(test, numbers=each(final("valid_nll"))).differences(old) is None


@pytest.mark.parametrize("declared", [False, True])
def test_of_two_runs_of_a_seed_that_which_measured_as_declared_counts(ran, declared):
    task = Spelling(epochs=1, validate=declared, seeds=(100,))
    arms = (1, {"norm": "encoder"}), (-1, {"norm": "none"})
    runs = [
        ran(replace(task, **fields, validate=made), {100: s * (1 + made)}, metric="test_error")
        for made in (True, False)
        for s, fields in arms
    ]
    test = Measurement(task, arms, each(final("test_error")))
    assert test.differences(runs).values == (2.0 * (1 + declared),)


@pytest.mark.parametrize(
    "told",
    [
        {"learning_rate": 0.1},
        {"batch_size": 4},
        {"initialisation": "authors"},
        {"epochs": 3},
        {"units": (8, 8)},
        {"done": False},
        {"kind": "own"},
    ],
)
def test_what_was_not_declared_so_is_not_compared(pair, told):
    assert TEST.differences(pair(**told)) is None


def test_data_and_devices_are_not_mixed(pair):
    one, two = pair(), pair(checksum="d" * 64)
    assert TEST.differences([one[0], two[1]]) is None
    gpu = pair(device="cuda")
    assert TEST.differences([one[0], gpu[1]]) is None


def test_products_in_bfloat16_judge_nothing(pair):
    assert TEST.differences(pair(precision="float64")) is not None
    assert TEST.differences(pair(precision="mixed")) is None


@pytest.mark.parametrize(
    ("stated", "told", "setting"),
    [
        (STATED, {}, Setting.OWN),
        ({**STATED, "epochs": 60}, {}, Setting.SCALED),
        ({**STATED, "units": [2000]}, {}, Setting.SCALED),
        ({**STATED, "data": "timit"}, {}, Setting.OTHER),
        (STATED, {"kind": "embedded"}, Setting.OTHER),
        ({}, {}, Setting.OTHER),
        ({**STATED, "norm": ("layer", "batch")}, {}, Setting.OWN),
        ({**STATED, "norm": ("layer", "none")}, {}, Setting.SCALED),
    ],
)
def test_the_setting_is_the_papers_own_if_all_that_it_states_is(pair, stated, told, setting):
    assert replace(TEST, stated=stated).differences(pair(**told)).setting is setting


def test_the_studys_settings_on_its_own_data_are_its_own(ran):
    task = Spelling.budget("paper", data="timit", seeds=(100, 101))
    from lnlab.papers.claims.benothman2018 import STATED as study

    arms = (1, {"norm": "encoder"}), (-1, {"norm": "none"})
    test = Measurement(task, arms, each(final("test_error")), study)
    runs = [
        ran(replace(task, **fields, epochs=1), {100: 1.0, 101: 2.0}, metric="test_error")
        for _, fields in arms
    ]
    short = replace(test, task=replace(task, epochs=1))
    assert short.differences(runs).setting is Setting.SCALED
    assert (
        replace(short, stated={**study, "epochs": 1}).differences(runs).setting is Setting.OWN
    )


def test_any_field_may_be_an_arm(ran):
    terms = (1, {"batch_size": 4, "unbiased": True}), (-1, {"batch_size": 128})
    test = replace(TEST, terms=terms)
    runs = [ran(replace(TASK, **fields), ONE if s > 0 else TWO) for s, fields in terms]
    assert test.differences(runs).values == (-1.0, -1.25, -1.5)


def test_a_block_is_one_value_the_mean_of_its_seeds(ran):
    blocks = {"units": (10, 10)}, {"units": (20, 20)}
    test = replace(TEST, blocks=blocks)
    runs = [
        ran(replace(TASK, **fields, **block), ONE if s > 0 else TWO)
        for s, fields in ARMS
        for block in blocks
    ]
    assert test.differences(runs).values == (-1.25, -1.25)
    assert test.differences(runs[:3]) is None


def test_a_failed_run_counts_as_what_was_declared(pair):
    lost = {**TWO, 101: float("nan")}
    found = replace(TEST, failed=5.0).differences(pair(second=lost))
    assert found.values == (-1.0, 1.25 - 5.0, -1.5)
    assert found.failures == 1


def test_without_a_number_of_its_own_a_failed_run_has_none(pair, monkeypatch):
    monkeypatch.setattr("lnlab.papers.claims.measurement.failed", lambda run, seed: seed == 101)
    one = replace(TEST, failed=None, numbers=lambda frames: (1.0, 2.0))
    values = one.differences(pair()).values
    assert [isnan(value) for value in values] == [False, True, False]


def test_numbers_of_numpy_can_be_written_down(pair):
    test = replace(TEST, numbers=lambda frames: map(np.float64, TEST.numbers(frames)))
    found = test.differences(pair())
    assert json.loads(json.dumps([found.values, found.failures])) == [[-1.0, -1.25, -1.5], 0]


@pytest.mark.parametrize("part", ["c" * 64, "d" * 64], ids=["same cases", "a part of them"])
def test_each_arm_has_its_own_rate(ran, part):
    tuning = Tuning("learning_rate", (0.1, 0.2), final("train_nll"), 99, {}, "by its end")
    best = {"layer": 0.1, "batch": 0.2}
    runs = [
        ran(
            replace(TASK, norm=norm, learning_rate=rate, seeds=(99,)),
            {99: abs(rate - best[norm])},
            checksum=part,
        )
        for norm in best
        for rate in tuning.grid
    ]
    runs += [
        ran(replace(TASK, norm=norm, learning_rate=best[norm]), values)
        for norm, values in (("layer", ONE), ("batch", TWO))
    ]
    test = replace(TEST, tuning=tuning)
    assert test.differences(runs).values == (-1.0, -1.25, -1.5)
    assert test.differences(runs[1:]) is None, "the whole grid has to be there"


@pytest.mark.parametrize(("ends", "chosen"), [((0.0, 0.5), True), ((0.0, 0.0), False)])
def test_of_rates_that_are_as_good_none_is_chosen(ran, ends, chosen):
    tuning = Tuning("learning_rate", (0.1, 0.2), final("train_nll"), 99, {}, "by its end")
    runs = []
    for norm in ("layer", "batch"):
        for rate, end in zip(tuning.grid, ends, strict=True):
            task = replace(TASK, norm=norm, learning_rate=rate)
            runs += [ran(task, ONE), ran(replace(task, seeds=(99,)), {99: end})]
    assert (replace(TEST, tuning=tuning).differences(runs) is not None) == chosen


def test_the_grid_holds_cases_out_and_names_what_to_train_next(tmp_path):
    digits = Task.budget("smoke", units=(8,), seeds=(100, 101), epochs=1)
    tuning = Tuning(
        "learning_rate",
        (1e-6, 1e-2),
        final("valid_nll"),
        99,
        {"valid_size": 200},
        "by its end",
    )
    test = Measurement(digits, ARMS, NLL, tuning=tuning)
    grid = test.command().split(" && ")
    assert len(grid) == 4
    assert all("seeds=99" in words and "valid_size=200" in words for words in grid)
    assert test.then(read(tmp_path)) == ""
    for _, fields in ARMS:
        for rate in tuning.grid:
            more = {"learning_rate": rate, "seeds": (99,), "valid_size": 200}
            for _ in train_steps(replace(digits, **fields, **more), root=tmp_path):
                pass
    assert test.differences(read(tmp_path)) is None
    finals = test.then(read(tmp_path)).split(" && ")
    assert len(finals) == 2
    assert all("learning_rate=0.01" in words for words in finals), "1e-6 learns nothing"
    assert all("seeds=100,101" in words and "valid_size" not in words for words in finals)
    for _, fields in ARMS:
        for _ in train_steps(replace(digits, **fields, learning_rate=1e-2), root=tmp_path):
            pass
    ours, theirs = (
        next(
            run.metrics()
            for run in read(tmp_path)
            if run.config["norm"] == norm and run.config["seeds"] == [100, 101]
        )
        for norm in ("layer", "batch")
    )
    known = [
        final("train_nll")(ours[ours.seed == seed])
        - final("train_nll")(theirs[theirs.seed == seed])
        for seed in (100, 101)
    ]
    assert test.differences(read(tmp_path)).values == tuple(known)


def test_what_runs_did_not_measure_is_not_there(pair):
    assert replace(TEST, numbers=each(final("valid_nll"))).differences(pair()) is None
