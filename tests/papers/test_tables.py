"""Tables of kept runs beside the papers' numbers: a cell of each, computed otherwise."""

import numpy as np
import pytest

from lnlab import paths
from lnlab.papers import tables
from lnlab.papers.results import select_runs
from lnlab.training.runs import read

RESULTS = paths.folder_in_checkout_or_cwd("results")


def mean_at_end(arms, arm, metric):
    frames = {run.key: run.metrics() for run in arms[arm].values()}
    ends = [
        frames[run.key].query("seed == @seed")[metric].iloc[-1]
        for seed, run in arms[arm].items()
    ]
    return np.mean(ends)


def test_all_arms_of_a_convolution_are_ranked():
    runs = read(RESULTS, "convolutions")
    best = "ResNet-8, batch 4, each at its best learning rate"
    arms = tables.arms_of_setting(runs, "ba2016-6.7-batch", best)
    table = tables.convolution_arms_by_mean_nll(arms)
    assert {*table.index} == {"batch", "none", "layer", "layer, per position", "group"}
    assert table["training NLL along the run"].is_monotonic_increasing
    error = mean_at_end(arms, "group", "test_error")
    assert table.loc["group", "test error"] == pytest.approx(error, abs=5e-4)


def test_order_embeddings_stand_beside_table_2():
    table = tables.order_embeddings_table_2(
        tables.order_embedding_arms_by_split(read(RESULTS, "order_embeddings"))
    )
    assert table.loc["R@1, caption retrieval", ["paper, none", "paper, layer"]].tolist() == [
        46.6,
        48.5,
    ]
    assert table["none"].between(5, 80).all()


def test_the_reader_stands_beside_figure_2():
    table = tables.attentive_reader_figure_2(read(RESULTS, "attentive_reader"), tables.CLOZE)
    assert {*table.index} == {*tables.FIGURE_2}
    assert table.loc["layer, gain 0.1", "error %, batch"] > table.loc["layer", "error %, batch"]


@pytest.mark.parametrize("data", ["novels", "novels, small", "stories"])
def test_skip_thoughts_stand_beside_table_3(data):
    task = tables.skip_thoughts_experiments_by_data()[data]
    table = tables.skip_thoughts_table_3(read(RESULTS, "skip_thoughts"), task)
    assert len(table) == (6 if data == "stories" else 7)
    assert table["paper, layer"].tolist()[0] == 0.854


def test_recognizers_stand_beside_the_study():
    arms = select_runs(read(RESULTS, "las"), tables.FSDD)
    table = tables.las_study_table(arms)
    assert table.index.tolist() == ["none", "encoder", "both", "decoder"]
    assert table.loc["none", "error"] == pytest.approx(mean_at_end(arms, "none", "test_error"))
    assert table.loc["encoder", "study, TIMIT: steps"] == 9976


def test_batch_layer_normalization_stands_beside_its_logs():
    runs = read(RESULTS, tables.IMAGES.name)
    arms = select_runs(runs, tables.IMAGES, seeds=tables.COMPARED)
    table = tables.batch_layer_norm_table(arms, tables.IMAGES)
    chosen = mean_at_end(arms, "layer", "chosen_accuracy")
    assert table.loc["layer", "chosen"] == pytest.approx(chosen, abs=5e-4)
    means, lows, highs = tables.configuration_means_lows_highs(
        arms["batch layer"], "test_accuracy"
    )
    assert (lows < means).all()
    assert (means < highs).all()
    own = tables.training_losses_by_batch_composition(arms)
    assert (own["own batches"] < own["other batches"]).loc["batch layer"]


def test_draws_times_are_ratios_at_falling_levels():
    table = tables.layer_over_none_times_by_bound(
        select_runs(read(RESULTS, "draw"), tables.DRAW_DIGITS)
    )
    assert table.level.is_monotonic_decreasing
    assert (table.low < table.ratio).all()
