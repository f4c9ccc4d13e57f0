"""Figures over time steps: lines where they belong, axes that hold them."""

from typing import Any

import numpy as np

from lnlab.figures.curves import curves
from lnlab.figures.style import EDGE, decades, lines
from lnlab.panels.recurrence_panel import (
    PARTS,
    SLOTS,
    leaving,
    recurrence_figure,
    recurrence_layout,
    recurrence_traces,
)


def course(rate, steps=20):
    return [rate ** np.arange(steps, dtype=float)] * 3


def test_each_normalizer_has_a_line_in_each_part():
    courses = {"layer": course(0.9), "none": course(2.0)}
    traces = recurrence_traces(courses)
    assert set(traces) == {f"{part} {slot}" for part in PARTS for slot in range(SLOTS)}
    for part in PARTS:
        look = traces[f"{part} 1"]["line"]
        assert look["color"] == lines(courses)["none"]["color"]
        assert look["width"] < traces[f"{part} 0"]["line"]["width"]
        np.testing.assert_allclose(traces[f"{part} 1"]["y"], courses["none"][0])
        assert not traces[f"{part} 2"]["visible"]


def test_the_figure_is_drawn_of_these_traces():
    figure: Any = recurrence_figure({"layer": course(0.9)})
    named = {trace.name: trace for trace in figure.data}
    np.testing.assert_allclose(named["gradient 0"].y, course(0.9)[2])
    assert named["gradient 1"].visible is False


def test_axes_do_not_follow_a_line_that_leaves_them():
    calm = {"layer": course(0.9)}
    wild = calm | {"none": course(3.0)}
    assert leaving(calm) == []
    assert leaving(wild) == ["none"]
    assert leaving({"layer": course(0.3)}) == ["layer"]
    for axis in ("yaxis", "yaxis2", "yaxis3"):
        before, after = (recurrence_layout(each)[axis]["range"] for each in (calm, wild))
        assert before == after


def test_numbers_that_float32_cannot_hold_are_cut():
    traces = recurrence_traces({"none": [np.array([1e-300, 1e300, np.inf])] * 3})
    y = traces["summed 0"]["y"]
    np.testing.assert_allclose(y, [10.0**-EDGE, 10.0**EDGE, 10.0**EDGE])
    assert np.isfinite(y.astype(np.float32)).all()
    assert decades([np.array([1e-300, 1e300])], -2, 2) == (-EDGE, EDGE)


def test_no_normalizer_is_a_picture_too():
    assert all(not trace["visible"] for trace in recurrence_traces({}).values())
    assert recurrence_layout({})["xaxis"]["range"] == [0, 2]


def test_curves_have_one_name_in_all_panels_and_show_text_as_text():
    x = np.arange(3.0)
    panels = {"<b>a</b>": {"layer": (x, x), "none": (x, x)}, "b": {"none": (x, 2 * x)}}
    figure: Any = curves(panels, x="t", y="y", mark=(1.0, "here <i>"), dots=["layer"])
    assert [t.mode for t in figure.data] == ["markers", "lines", "lines"]
    assert [t.name for t in figure.data if t.showlegend] == ["layer", "none"]
    np.testing.assert_array_equal(figure.data[2].y, 2 * x)
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts[0] == "&lt;b&gt;a&lt;/b&gt;"
    assert "here &lt;i&gt;" in texts
