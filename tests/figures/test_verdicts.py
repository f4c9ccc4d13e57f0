"""The ledger in pictures counts every claim once and keeps its intervals."""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.figures.verdicts import COLORS, margins, verdicts
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


def test_measurements_stand_in_units_of_their_margins():
    figure: Any = margins(claims(margin=[0.5, 4.0, None]).iloc[:2])
    bars, dots = figure.data[::2], figure.data[1::2]
    np.testing.assert_array_equal(bars[0].x, [-4, -2])
    np.testing.assert_array_equal(dots[0].x, [-2, -4])
    np.testing.assert_array_equal(bars[1].x, [-1, 0.5])
    np.testing.assert_array_equal(dots[1].x, [-1, 0.5, -0.25])
    assert [bar.y for bar in bars] == [("ba-1", "ba-1"), ("ba-2", "ba-2")]
    assert sorted(line.x0 for line in figure.layout.shapes) == [-1, 0, 1]


def test_no_measurement_is_a_figure_too():
    figure: Any = margins(claims(margin=[1.0, 1.0, 1.0]).iloc[:0])
    assert not figure.data
