"""The ledger in pictures counts every claim once and keeps its intervals."""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.papers.claims import Verdict
from lnlab.papers.claims.figure import AGAIN, COLORS, margins, verdicts


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
    # a number that has no room is left out, where plotly would make it a dot
    assert (figure.layout.uniformtext.mode, figure.layout.uniformtext.minsize) == ("hide", 10)
    assert figure.layout.xaxis.title.text == "claims"


def test_measurements_stand_in_units_of_their_margins():
    given = claims(margin=[0.5, 4.0, None], verdict=["also seen", "inconclusive", ""]).iloc[:2]
    figure: Any = margins(given)
    seen, seeds, open_, others, names = figure.data
    np.testing.assert_allclose(np.sinh(seen.x), [-4, -2, np.nan])
    np.testing.assert_allclose(np.sinh(seeds.x), [-2, -4])
    np.testing.assert_allclose(np.sinh(open_.x), [-1, 0.5, np.nan])
    np.testing.assert_allclose(np.sinh(others.x), [-1, 0.5, -0.25])
    np.testing.assert_allclose(others.customdata, [-1, 0.5, -0.25])
    assert (set(seeds.y), set(others.y)) == ({"ba-1"}, {"ba-2"})
    assert names.text == ("ba-1", "ba-2")
    assert names.x[0] == figure.layout.xaxis.range[0] < seen.x[0] < figure.layout.xaxis.range[1]
    assert (seeds.name, others.name) == ("also seen", "inconclusive")
    np.testing.assert_allclose(
        sorted(np.sinh(line.x0) for line in figure.layout.shapes), [-1, 0, 1]
    )


def test_the_axis_of_margins_names_what_stands_there():
    axis = margins(claims(margin=[0.5, 4.0, 1.0]).iloc[:2]).layout.xaxis
    named = [float(text.replace(",", "")) for text in axis.ticktext]
    np.testing.assert_allclose(np.sinh(axis.tickvals), named)


def test_measurements_of_one_verdict_have_a_row_each_in_the_order_of_the_claims():
    table = claims(margin=[0.5, 4.0, 1.0], interval=[(-2, -1), (-4, 2), (0, 1)])
    axis = margins(table).layout.yaxis
    assert axis.categoryarray == ("ba-1", "ba-2", "ziaee-1")
    assert axis.range == (2.5, -0.9)


def test_the_numbers_of_the_axis_are_said_again_on_every_screen():
    table = claims(margin=[0.5, 4.0, 1.0], interval=[(-2, -1), (-4, 2), (0, 1)])
    many = pd.concat([table.set_axis([f"{n}-{id}" for id in table.index]) for n in range(20)])
    figure: Any = margins(many)
    rows = figure.layout.yaxis.categoryarray
    again = [trace for trace in figure.data if trace.name == "axis"]
    assert [rows.index(trace.y[0]) for trace in again] == [AGAIN, 2 * AGAIN + 1, 3 * AGAIN + 2]
    assert [row for row in rows if "axis" not in row] == [*many.index]
    low, high = figure.layout.xaxis.range
    for trace in again:
        assert trace.text == ("-3", "-1", "0", "1")
        assert low <= min(trace.x) < max(trace.x) <= high
        named = [float(text) for text in trace.text]
        np.testing.assert_allclose(np.sinh(trace.x), named, atol=1e-12)


def test_no_measurement_is_a_figure_too():
    figure: Any = margins(claims(margin=[1.0, 1.0, 1.0]).iloc[:0])
    assert not figure.data
