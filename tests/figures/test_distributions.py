"""Ribbons through depth: edges are quantiles, panels stand on one scale."""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.figures.style import lines
from lnlab.panels.distributions_panel import (
    SLOTS,
    distributions_figure,
    distributions_layout,
    distributions_traces,
)

QUANTILES = ["q05", "q25", "q50", "q75", "q95"]


def frame(layers=3):
    return pd.DataFrame({q: i + np.arange(layers) for i, q in enumerate(QUANTILES)})


def test_the_edges_of_a_ribbon_are_its_quantiles():
    traces = distributions_traces({"layer": frame(), "none": frame(5)})
    for ribbon, low, high in (("wide", "q05", "q95"), ("half", "q25", "q75")):
        trace = traces[f"{ribbon} 0"]
        np.testing.assert_array_equal(trace["x"], [1, 2, 3, 3, 2, 1])
        np.testing.assert_array_equal(trace["y"], [*frame()[high], *frame()[low][::-1]])
    np.testing.assert_array_equal(traces["median 1"]["y"], frame(5)["q50"])
    assert traces["median 1"]["line"]["color"] == lines(["layer", "none"])["none"]["color"]
    assert not traces["median 2"]["visible"]


def test_the_figure_is_drawn_of_these_traces():
    figure: Any = distributions_figure({"layer": frame()}, reach=7.0, y="a")
    named = {trace.name: trace for trace in figure.data}
    assert len(named) == 3 * SLOTS
    np.testing.assert_array_equal(named["median 0"].y, frame()["q50"])
    assert named["wide 0"].fill == "toself"
    assert named["wide 1"].visible is False


def test_panels_share_a_scale_and_the_width():
    layout = distributions_layout({"layer": frame(), "none": frame()}, reach=7.0, y="a")
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"] == [-7.0, 7.0]
    assert layout["xaxis"]["domain"][0] == 0
    assert layout["xaxis2"]["domain"][1] == 1
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    assert not layout["xaxis3"]["visible"]
    assert layout["yaxis"]["title"]["text"] == "a"


def test_nothing_is_a_picture_too():
    figure: Any = distributions_figure({}, reach=1.0, y="a")
    assert not any(trace.visible for trace in figure.data)
