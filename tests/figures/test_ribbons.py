"""A ribbon holds half of the values, a lighter one nine tenths, and its line is the median."""

from typing import Any

import numpy as np
import pandas as pd

from lnlab.figures.curves import ribbons

QUANTILES = ["q05", "q25", "q50", "q75", "q95"]


def frame(start=0.0):
    steps = {"step": [0, 5, 10]}
    return pd.DataFrame(steps | {q: start + i + np.arange(3) for i, q in enumerate(QUANTILES)})


def test_the_edges_of_a_ribbon_are_its_quantiles():
    figure: Any = ribbons({"layer": frame()}, x="updates", y="a")
    wide, half, median = figure.data
    np.testing.assert_array_equal(median.y, frame()["q50"])
    np.testing.assert_array_equal(median.x, [0, 5, 10])
    for ribbon, low, high in ((wide, "q05", "q95"), (half, "q25", "q75")):
        np.testing.assert_array_equal(ribbon.x, [0, 5, 10, 10, 5, 0])
        np.testing.assert_array_equal(ribbon.y, [*frame()[high], *frame()[low][::-1]])
        assert ribbon.fill == "toself"
    assert wide.opacity < half.opacity


def test_panels_stand_on_one_scale():
    figure: Any = ribbons(
        {"none": frame(), "layer": frame(7.0)}, x="updates", y="summed inputs"
    )
    assert [note.text for note in figure.layout.annotations] == ["none", "layer"]
    assert len(figure.data) == 6
    assert figure.layout.yaxis2.matches == "y"
    assert figure.layout.xaxis.title.text == figure.layout.xaxis2.title.text == "updates"
    assert figure.layout.yaxis.title.text == "summed inputs"
    assert [trace.xaxis for trace in figure.data] == ["x"] * 3 + ["x2"] * 3


def test_rows_may_have_any_index():
    figure: Any = ribbons({"layer": frame().set_index(pd.Index([7, 3, 5]))})
    np.testing.assert_array_equal(figure.data[-1].y, frame()["q50"])
