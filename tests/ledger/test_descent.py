"""The windows in which covariate shift and smoothness are read, on curves that are known."""

import math

import pandas as pd
import pytest

from lnlab.ledger.descent import until_a_tenth


def curve(nll, turn):
    return pd.DataFrame({"update": [0, 10, 20, 40], "train_nll": nll, "turn": turn})


def test_what_comes_after_a_tenth_does_not_count():
    found = until_a_tenth("turn")(curve([2.0, 1.0, 0.2, 0.1], [1.0, 3.0, 1.0, 1e9]))
    assert found == pytest.approx(math.log(2.0))


def test_a_run_that_never_comes_there_counts_whole():
    found = until_a_tenth("turn")(curve([2.0, 1.9, 1.8, 1.7], [1.0, 1.0, 1.0, 5.0]))
    assert found == pytest.approx(math.log((10 + 10 + 60) / 40))
