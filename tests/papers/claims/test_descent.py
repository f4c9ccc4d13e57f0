"""The way over which covariate shift and smoothness are read, on curves that are known."""

import math

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.claims.ba2016_analysis import until_a_tenth


def learning(updates, every=1, beyond=10):
    """Looks at a net that comes to a tenth of its loss in so many updates, evenly, and goes on.

    The further it has come, the more a unit of its way is: ``way`` of an update, ``rate`` of a
    unit of progress.
    """
    update = np.arange(0, updates + beyond + 1, every)
    progress = update / updates
    way, nll = (1 + progress) / updates, 2.3 * 0.1**progress
    return pd.DataFrame({"update": update, "train_nll": nll, "way": way, "rate": 1 + progress})


@pytest.mark.parametrize(("metric", "over"), [("way", "updates"), ("rate", "progress")])
def test_the_same_way_in_another_number_of_steps_is_the_same(metric, over):
    number = until_a_tenth(metric, over)
    assert number(learning(45)) == pytest.approx(math.log(1.5))
    assert number(learning(90)) == pytest.approx(math.log(1.5))


def test_a_way_that_is_twice_as_long_differs_by_the_logarithm_of_two():
    once, twice = learning(45), learning(90)
    twice["way"] *= 2
    number = until_a_tenth("way", "updates")
    assert number(twice) - number(once) == pytest.approx(math.log(2))


@pytest.mark.parametrize("every", [2, 7, 13, 50])
def test_it_ends_at_a_tenth_and_not_at_the_next_look(every):
    for metric, over in (("way", "updates"), ("rate", "progress")):
        found = until_a_tenth(metric, over)(learning(45, every, beyond=60))
        assert found == pytest.approx(math.log(1.5))


def test_what_comes_after_a_tenth_does_not_count():
    metrics = learning(45, beyond=500)
    metrics.loc[metrics["update"] > 45, "way"] = 1e9
    assert until_a_tenth("way", "updates")(metrics) == pytest.approx(math.log(1.5))


@pytest.mark.parametrize(("last", "rate"), [(0.1, 3.0), (0.1 / 6, 5.0)])
def test_progress_that_is_lost_again_counts_once_and_its_loss_not(last, rate):
    back = pd.DataFrame(
        {
            "update": [0, 1, 2, 3],
            "train_nll": [1.0, 0.3, 0.6, last],
            "rate": [1.0, 2.0, 1.0, rate],
        }
    )
    first = math.log10(1 / 0.3)
    area = 1.5 * first + 2.0 * (1 - first)
    assert until_a_tenth("rate", "progress")(back) == pytest.approx(math.log(area))


@pytest.mark.parametrize("nll", [2.2, 0.24, math.nan])
def test_a_run_that_never_comes_there_has_no_number(nll):
    metrics = pd.DataFrame({"update": [0, 1], "train_nll": [2.3, nll], "way": [1.0, 1.0]})
    assert math.isnan(until_a_tenth("way", "updates")(metrics))
