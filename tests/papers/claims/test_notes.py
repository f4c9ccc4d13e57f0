"""Numbers in notes of the ledger that are of kept runs are those of the runs."""

import re
from dataclasses import replace

import pytest

from lnlab import paths
from lnlab.analysis.statistics import ends, interval
from lnlab.papers.claims import ba2016_analysis
from lnlab.papers.claims import ba2016_attentive_reader as reader
from lnlab.papers.claims import ba2016_order_embeddings as order
from lnlab.papers.claims.paired import along, asked, differences, numbers
from lnlab.training.runs import read

KEPT = read([paths.place("results")])


def in_words(note):
    """The numbers of a note."""
    return [float(number) for number in re.findall(r"\d+\.\d+", note)]


@pytest.mark.parametrize(("metric", "digits"), [("mean_shift", 3), ("gradient_angle", 2)])
def test_what_one_update_does_on_the_way_to_a_tenth(metric, digits):
    def mean(frame):
        nll = frame["train_nll"].to_numpy(float)
        there = int((nll <= ba2016_analysis.TENTH * nll[0]).argmax())
        return frame[metric].to_numpy(float)[: there + 1].mean()

    found = []
    for task in ba2016_analysis.NETS.values():
        arms = asked(KEPT, task)
        for arm in ("layer", "none"):
            by_seed = numbers(arms[arm], mean).values()
            found += [round(min(by_seed), digits), round(max(by_seed), digits)]
    assert found == in_words(ba2016_analysis.AN_UPDATE[metric])


def at_own_rates(number):
    """None less layer of each split, each arm at its own rate."""
    found = []
    for split in order.SPLITS:
        arms = {
            arm: asked(KEPT, replace(order.BOXES, **split, learning_rate=rate))[arm]
            for arm, rate in (("layer", 1e-2), ("none", 3e-3))
        }
        found += differences(arms, "none", "layer", number).values()
    return found


@pytest.mark.parametrize("k", [1, 5, 10])
def test_at_own_rates_layer_norm_is_ahead_in_order_embeddings(k):
    low, high = interval(at_own_rates(order.area(f"valid_image_r{k}")), shared=order.SHARED)
    assert f"by {ends((-high, -low))} points" in order.AHEAD[f"6.1-updates-{k}"]


def test_the_best_rate_of_two_readers_of_books_is_the_first_of_the_grid():
    def best(arm):
        tried = {}
        for rate in reader.RATES:
            task = replace(reader.BOOKS, learning_rate=rate, split=0, seeds=(99,))
            tried |= {rate: numbers(asked(KEPT, task)[arm], along(reader.AUTHORS))[99]}
        return min(tried, key=lambda rate: tried[rate])

    first = [arm for _, arm in reader.OTHERS.values() if best(arm) == reader.RATES[0]]
    assert first == ["none", "batch"]
    assert f"{reader.RATES[0]:g}" in reader.FIRST_OF_GRID
