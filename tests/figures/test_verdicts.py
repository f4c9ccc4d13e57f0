"""The ledger in pictures counts every claim once and keeps its intervals."""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.figures.verdicts import COLORS, intervals, verdicts
from lnlab.ledger import Verdict


def claims(**columns):
    table = {
        "source": ["Ba et al. (2016), 6.6", "Ba et al. (2016), 1", "Ziaee & Çano (2022), 4.1"],
        "verdict": ["reproduced", "reproduced", "not yet run"],
        "interval": [(-2.0, -1.0), (-4.0, 2.0), None],
        "values": [(-1.0, -2.0), (-4.0, 2.0, -1.0), ()],
        "quantity": ["NLL", "error", ""],
    }
    return pd.DataFrame(table | columns, index=["ba-1", "ba-2", "ziaee-1"])


def test_every_verdict_has_a_colour():
    assert [verdict.value for verdict in Verdict] == list(COLORS)


def test_bars_count_the_claims_of_each_paper():
    figure: Any = verdicts(claims())
    counted = {bar.name: dict(zip(bar.y, bar.x, strict=True)) for bar in figure.data}
    assert counted == {
        "reproduced": {"Ba et al. (2016)": 2, "Ziaee &amp; Çano (2022)": 0},
        "not yet run": {"Ba et al. (2016)": 0, "Ziaee &amp; Çano (2022)": 1},
    }
    assert figure.layout.barmode == "stack"
    assert figure.layout.xaxis.title.text == "claims"


def test_intervals_are_relative_to_the_largest_seed():
    figure: Any = intervals(claims().iloc[:2])
    bars, dots = figure.data[::2], figure.data[1::2]
    np.testing.assert_array_equal(bars[0].x, [-1, -0.5])
    np.testing.assert_array_equal(dots[0].x, [-0.5, -1])
    np.testing.assert_array_equal(bars[1].x, [-1, 0.5])
    np.testing.assert_array_equal(dots[1].x, [-1, 0.5, -0.25])
    assert [bar.y for bar in bars] == [("ba-1", "ba-1"), ("ba-2", "ba-2")]
    assert figure.layout.xaxis.title.text.startswith("difference, relative to the largest")
    (zero,) = figure.layout.shapes
    assert zero.x0 == zero.x1 == 0


def test_differences_that_are_all_zero_are_drawn():
    tied = claims().iloc[:1].assign(interval=[(0.0, 0.0)], values=[(0.0, 0.0)])
    figure: Any = intervals(tied)
    np.testing.assert_array_equal(figure.data[1].x, [0, 0])
