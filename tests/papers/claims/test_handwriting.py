"""What layer norm gains in one circumstance less another, on curves whose answer is known."""

from math import log

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.claims.ba2016_handwriting import important


def curve(time, height=1.0):
    at = np.arange(0.0, 801.0, 4.0)
    return pd.DataFrame({"update": at, "valid_nll": height * np.exp(-at / time)})


def difference(*frames):
    test = important().test
    signs = [sign for sign, _ in test.terms]
    return sum(s * n for s, n in zip(signs, test.numbers(frames), strict=True))


def test_each_circumstance_has_a_level_of_its_own():
    """Twice as fast in small batches, 1.25 times in large ones, whose losses are far higher."""
    order = [fields["norm"] for _, fields in important().test.terms]
    assert order == ["layer", "none", "layer", "none"]
    hard, easy = (curve(40), curve(80)), (curve(80, 30.0), curve(100, 30.0))
    assert difference(*hard, *easy) == pytest.approx(log(1.25) - log(2), abs=0.03)
    assert difference(*easy, *hard) == pytest.approx(log(2) - log(1.25), abs=0.03)


def test_no_gain_anywhere_is_none():
    assert difference(curve(40), curve(40), curve(90, 5.0), curve(90, 5.0)) == 0
