"""Maps of statistics: every place in its colour, none in another's scale."""

from typing import Any

import numpy as np

from lnlab.panels.positions_panel import (
    SLOTS,
    positions_figure,
    positions_layout,
    positions_traces,
)

MAPS = {"on": np.arange(12.0).reshape(3, 4), "mean": np.ones((3, 4))}
REACHES = {"on": 11.0, "mean": 2.0}


def test_the_figure_holds_each_map_as_it_is_with_its_own_scale():
    figure: Any = positions_figure(MAPS, reaches=REACHES)
    first, second, third = figure.data
    np.testing.assert_array_equal(first.z, MAPS["on"])
    assert (first.zmin, first.zmax, second.zmax) == (0, 11.0, 2.0)
    assert first.colorbar.x < second.colorbar.x
    assert third.visible is False
    assert len(figure.data) == SLOTS
    assert figure.layout.yaxis.range == (2.5, -0.5)  # the first row is at the top


def test_maps_stand_side_by_side_below_their_names():
    layout = positions_layout(MAPS)
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    assert [note["text"] for note in layout["annotations"]] == ["on", "mean"]


def test_a_name_that_leaves_is_hidden():
    traces = positions_traces({"on": MAPS["on"]}, reaches=REACHES)
    assert [traces[f"map {slot}"]["visible"] for slot in range(SLOTS)] == [True, False, False]
