"""Tables of the kept runs of Ziaee & Çano (2022), against the numbers in their files."""

import math
from dataclasses import replace
from statistics import mean

import pytest

from lnlab import paths
from lnlab.nn import CONFIGURATIONS
from lnlab.papers.batch_layer_norm import published
from lnlab.papers.claims import ziaee2022_pictures, ziaee2022_reviews
from lnlab.papers.claims.paired import final
from lnlab.papers.claims.tables import (
    beside_the_logs,
    by_heart,
    over_rates,
    sixteen,
    trained_as,
)
from lnlab.papers.claims.ziaee2022_rates import ALONE, RATES, TRIED
from lnlab.training.runs import read

PICTURES = ziaee2022_pictures.FIFTH


@pytest.fixture(scope="module")
def pictures():
    return trained_as(read(paths.place("results"), PICTURES.name), PICTURES)


def frames(runs):
    """The rows of each seed, of the runs that hold them and others."""
    every = [(seed, run.metrics()) for seed, run in runs.items()]
    return [frame[frame["seed"] == seed] for seed, frame in every]


def test_runs_that_are_trained_alike_count_and_no_others(pictures):
    assert sorted(pictures["batch layer"]) == list(range(100, 110))
    assert {run.config["batch_size"] for run in pictures["layer"].values()} == {25}
    assert {run.config["train_size"] for run in pictures["batch layer"].values()} == {9_000}


def test_runs_that_choose_a_rate_are_in_no_table(pictures):
    tried = {97, 98, 99}
    there = [run.config for run in read(paths.place("results"), PICTURES.name)]
    told = {name: getattr(PICTURES, name) for name in ("learning_rate", "batch_size")}
    shared = [c for c in there if told.items() <= c.items()]
    assert {c["norm"] for c in shared if tried & {*c["seeds"]}} == {
        "batch",
        "layer",
        "batch layer",
    }
    assert not [arm for arm, runs in pictures.items() if tried & {*runs}]


def test_a_line_over_rates_has_every_seed_that_was_tried(pictures):
    there = read(paths.place("results"), PICTURES.name)
    lines = over_rates(there, PICTURES, final("train_accuracy_own_batches"))
    assert {*lines} == {"batch", "layer", "batch layer"}
    rates, values = lines["layer"]
    assert values.shape == (3, len(rates))
    assert {*rates} <= {*RATES}
    place = list(rates).index(PICTURES.learning_rate)
    (run,) = (
        run
        for run in there
        if run.config["norm"] == "layer"
        and 98 in run.config["seeds"]
        and run.config["learning_rate"] == PICTURES.learning_rate
    )
    frame = run.metrics()
    assert values[1, place] == frame[frame["seed"] == 98]["train_accuracy_own_batches"].iloc[-1]
    assert lines["layer"][1][:, place].tolist() != lines["batch"][1][:, place].tolist()
    assert over_rates([run], PICTURES, final("train_accuracy_own_batches")).keys() == {"layer"}


def test_other_rates_and_seeds_are_those_of_batches_of_one():
    there = read(paths.place("results"), PICTURES.name)
    singly = replace(PICTURES, batch_size=1)
    lines = over_rates(there, singly, final("chosen_accuracy"), ALONE, TRIED[-1:])
    assert {*lines} == {"batch layer", "layer", "layer, small gain"}
    for arm, (rates, values) in lines.items():
        assert tuple(rates) == ALONE
        for rate, value in zip(rates, values[0], strict=True):
            (run,) = (
                run
                for run in there
                if {"norm": arm, "learning_rate": rate, "seeds": [99], "batch_size": 1}.items()
                <= run.config.items()
            )
            assert value == run.metrics()["chosen_accuracy"].iloc[-1]
    assert not over_rates(there, singly, final("chosen_accuracy"), ALONE)


def test_a_row_has_means_over_seeds_and_what_was_published(pictures):
    table = beside_the_logs(pictures, PICTURES)
    ends = frames(pictures["batch"])
    assert table.loc["batch", "seeds"] == len(ends)
    chosen = mean(frame["chosen_accuracy"].iloc[-1] for frame in ends)
    assert table.loc["batch", "chosen"] == pytest.approx(chosen, abs=6e-4)
    last = mean(frame["train_accuracy"].dropna().iloc[-2] for frame in ends)
    assert table.loc["batch", "training"] == pytest.approx(last, abs=6e-4)
    assert table.loc["batch", "paper, training"] == 0.7874
    assert table.loc["batch", "paper, on the test"] == 0.4526
    assert table.loc["batch layer", "paper, on the test"] == 0.4551
    assert math.isnan(table.loc["layer, small gain", "paper, training"])


def test_of_another_size_of_batch_other_logs_are_shown(pictures):
    table = beside_the_logs(pictures, replace(PICTURES, batch_size=1))
    assert table.loc["batch", "paper, training"] == 0.0992
    assert table.loc["layer", "paper, on the test"] == 0.3781


def test_no_log_of_reviews_at_batch_size_1_was_published(pictures):
    table = beside_the_logs(pictures, replace(ziaee2022_reviews.FIFTH, batch_size=1))
    assert math.isnan(table.loc["batch", "paper, training"])
    assert table.loc["batch", "paper, on the test"] == 0.4946


def test_the_sixteen_are_means_with_intervals_around_them(pictures):
    runs = pictures["batch layer"]
    means, lows, highs = sixteen(runs, "test_accuracy")
    place = CONFIGURATIONS.index("TFFF")
    values = [frame["test_accuracy_TFFF"].iloc[-1] for frame in frames(runs)]
    assert means[place] == pytest.approx(mean(values))
    assert (lows < means).all()
    assert (means < highs).all()
    (alone,) = [{seed: run} for seed, run in runs.items() if seed == 100]
    assert all(map(math.isnan, sixteen(alone, "test_accuracy")[1]))


def test_only_what_reads_the_batch_knows_its_own(pictures):
    table = by_heart(pictures)
    assert table.loc["layer"].diff().abs().iloc[-1] < 0.15
    assert table.loc["batch layer", "other batches"] > table.loc["batch layer", "own batches"]


def test_the_published_configurations_stand_in_the_order_of_their_loss():
    for tested in published.CONFIGURATIONS_TESTED.values():
        losses = [loss for loss, _ in tested.values()]
        assert losses == sorted(losses)
        assert set(tested) == set(CONFIGURATIONS)
