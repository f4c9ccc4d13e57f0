"""Lines and dots where they belong, on axes that hold them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lnlab.figures.curves import FLOOR
from lnlab.figures.style import lines
from lnlab.panels.geometry_panel import (
    PARTS,
    SLOTS,
    CostCurve,
    geometry_figure,
    geometry_layout,
    geometry_traces,
)

AT = np.array([0.1, 1.0, 10.0])


def course(scale=1.0):
    return CostCurve(AT, scale * AT**-2.0, 10.0, scale * 0.01)


def courses(*names, scale=1.0):
    return {
        name: (course(scale), course(scale), CostCurve(AT, 0 * AT, 10.0, 0.0)) for name in names
    }


def test_titles_are_apart_where_a_page_is_narrowest():
    layout = geometry_layout(courses("layer"))
    titles = [note for note in layout["annotations"] if note["text"].startswith("<b>")]
    inside = 760 - layout["margin"]["l"] - layout["margin"]["r"]
    for one, other in pairwise(titles):
        # a bold letter of 14 pixels is some 8 wide
        half = [
            4 * len(note["text"].removeprefix("<b>").removesuffix("</b>"))
            for note in (one, other)
        ]
        assert (other["x"] - one["x"]) * inside - sum(half) > 15


def test_each_normalizer_has_a_line_and_a_dot_in_each_part():
    given = courses("layer", "none")
    traces = geometry_traces(given)
    assert set(traces) == {
        f"{part} {slot}{kind}"
        for part in PARTS
        for slot in range(SLOTS)
        for kind in ("", " here")
    }
    for part in PARTS:
        look = lines(given)["none"]["color"]
        assert traces[f"{part} 1"]["line"]["color"] == look
        assert traces[f"{part} 1 here"]["marker"]["color"] == look
        assert not traces[f"{part} 2"]["visible"]
        assert not traces[f"{part} 2 here"]["visible"]
    np.testing.assert_allclose(traces["turn 0"]["y"], [100, 1, 0.01])
    assert traces["turn 0 here"]["y"] == [0.01]


def test_what_is_nothing_stands_at_the_foot():
    traces = geometry_traces(courses("batch"))
    assert (traces["error 0"]["y"] == FLOOR).all()
    low, high = geometry_layout(courses("batch"))["yaxis3"]["range"]
    assert low < np.log10(FLOOR) < high


def test_the_figure_is_drawn_of_these_traces():
    figure: Any = geometry_figure(courses("layer"))
    named = {trace.name: trace for trace in figure.data}
    np.testing.assert_allclose(named["stretch 0"].y, [100, 1, 0.01])
    assert named["stretch 0 here"].mode == "markers"
    assert named["stretch 1"].visible is False


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_axes_hold_their_lines(scale):
    layout = geometry_layout(courses("layer", scale=scale))
    low, high = layout["yaxis"]["range"]
    assert low <= np.log10(0.01 * scale) < np.log10(100 * scale) <= high
    left, right = layout["xaxis"]["range"]
    assert left < -1 < 1 < right


def test_no_normalizer_is_a_picture_too():
    assert all(not trace["visible"] for trace in geometry_traces({}).values())
    assert geometry_layout({})["xaxis"]["title"]["text"] == "W times"
