"""Tables of 6.7: the runs at each arm's own rate are those that the verdict was judged by."""

import json
import math

import pandas as pd
import pytest

from lnlab import paths
from lnlab.papers.claims import ba2016_convolution_arms, ba2016_convolutions
from lnlab.papers.claims.measurement import Measurement
from lnlab.papers.claims.paired import along, logarithm, numbers
from lnlab.papers.claims.tables import all_arms, at_own_rates
from lnlab.training.runs import read

RESULTS = paths.root() / "results"
VERDICTS = {c["id"]: c for c in json.loads((RESULTS / "verdicts.json").read_text())["claims"]}
ENDS = [
    end
    for end in ba2016_convolution_arms.SETTINGS
    if VERDICTS[f"ba2016-6.7-batch-all-{end}-own-rates"]["values"]
]
"""The settings whose runs are kept."""


@pytest.fixture(scope="module")
def runs():
    return read(RESULTS, "convolutions")


def test_arms_of_a_measurement_are_those_it_was_judged_by(runs):
    id = "ba2016-6.7-batch-lenet-128-own-rates"
    (test,) = (c.test for c in ba2016_convolutions.CLAIMS if c.id == id)
    assert isinstance(test, Measurement)
    first, second = (numbers(a, logarithm(along("train_nll"))) for a in test.arms(runs))
    assert list(first) == list(second) == VERDICTS[id]["seeds"]
    values = [first[seed] - second[seed] for seed in first]
    assert values == pytest.approx(VERDICTS[id]["values"], rel=1e-4)
    assert not test.arms([run for run in runs if run.config["norm"] != "layer"])


@pytest.mark.parametrize("end", ENDS)
def test_the_best_of_the_others_is_what_batch_norm_is_held_against(end, runs):
    arms = at_own_rates(runs, end)
    table = all_arms(arms)
    assert {*table.index} == {"batch", *ba2016_convolution_arms.SETTINGS[end][2]}
    along_the_run = table["training NLL along the run"]
    assert list(along_the_run) == sorted(along_the_run)
    logs = {arm: numbers(own, logarithm(along("train_nll"))) for arm, own in arms.items()}
    ahead = [
        logs["batch"][seed] - min(own[seed] for arm, own in logs.items() if arm != "batch")
        for seed in logs["batch"]
    ]
    judged = VERDICTS[f"ba2016-6.7-batch-all-{end}-own-rates"]
    assert ahead == pytest.approx(judged["values"], rel=1e-4)
    for arm in {*table.index} - {"batch"}:
        low, high = map(float, table.loc[arm, "over batch norm"].split(" to "))
        mean = sum(logs[arm][s] - logs["batch"][s] for s in logs[arm]) / len(logs[arm])
        assert low <= math.exp(mean) + 0.005
        assert math.exp(mean) - 0.005 <= high


def test_the_best_is_of_those_that_did_not_fail():
    def frame(nll):
        return pd.DataFrame({"update": [0, 1, 2], "train_nll": nll})

    frames = [frame([n, n, n]) for n in (2.0, 1.0, 4.0, math.nan)]
    ahead, *rest = ba2016_convolution_arms.ahead_of_the_best(frames)
    assert ahead == pytest.approx(math.log(2))
    assert rest == [0.0, 0.0, 0.0]
    (ahead, _) = ba2016_convolution_arms.ahead_of_the_best([frames[0], frames[-1]])
    assert math.isnan(ahead)
