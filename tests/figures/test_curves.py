"""Curves and ribbons are means, quantiles and spreads; a bar that holds zero is grey."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lnlab.figures.curves import (
    line_chart,
    paired_differences,
    quantile_ribbons,
)
from lnlab.figures.style import GREY

X = np.array([0.0, 1, 10, 100])
Y = np.array([[4.0, 3, 2, 1], [6, 5, 2, 3], [5, 1, 2, 2]])
MADE = "embedded data: digits; 3 seeds"


def drawn(panels, made_on=MADE, **logs: bool) -> Any:
    return line_chart(panels, x="updates", y="NLL (nats)", made_on=made_on, **logs)


def test_a_line_is_the_mean_and_a_band_holds_every_seed():
    band, mean = drawn({"batch 128": {"layer": (X, Y)}}).data
    np.testing.assert_array_equal(mean.x, X)
    np.testing.assert_array_equal(mean.y, [5, 3, 2, 2])
    np.testing.assert_array_equal(band.x, [*X, *X[::-1]])
    np.testing.assert_array_equal(band.y, [6, 5, 2, 3, 1, 2, 1, 4])
    assert band.fill == "toself"


def test_panels_share_the_legend_and_the_scale_and_say_what_they_were_made_on():
    both, one = {"layer": (X, Y), "batch": (X, Y)}, {"layer": (X, Y), "none": (X, Y)}
    figure = drawn({"batch 128": both, "batch 4": one})
    names = [trace.name for trace in figure.data if trace.showlegend]
    assert names == ["layer", "batch", "none"]
    assert figure.layout.yaxis2.matches == "y"
    assert figure.layout.annotations[2].text.startswith(f"{MADE}. ")


@pytest.mark.parametrize(
    ("ends", "decided"), [((-3.0, -1.0), True), ((1.0, 3.0), True), ((-1.0, 3.0), False)]
)
def test_a_bar_that_holds_zero_is_grey(ends, decided):
    name = "CIFAR-10, LeNet, batch 128: layer − layer, per position"
    differences = {name: ([-1.0, 2.0, 3.0], ends)}
    figure: Any = paired_differences(differences, x="nats", made_on="digits")
    bar, dots = figure.data
    assert bar.x == ends
    assert bar.y[0] == "CIFAR-10, LeNet, batch 128:<br>layer − layer, per position"
    assert dots.x == (-1.0, 2.0, 3.0)
    assert bar.line.color == dots.marker.color
    assert (bar.line.color != GREY) == decided
    left, right = figure.layout.xaxis.range
    assert left < min(ends) < max(ends) < right
    (zero,) = figure.layout.shapes
    assert zero.x0 == zero.x1 == 0


def test_the_edges_of_a_ribbon_are_its_quantiles():
    quantiles = ["q05", "q25", "q50", "q75", "q95"]
    values = {q: i + np.arange(3) for i, q in enumerate(quantiles)}
    frame = pd.DataFrame({"step": [0, 5, 10]} | values, index=[7, 3, 5])
    figure: Any = quantile_ribbons({"layer": frame, "none": frame}, y="a")
    wide, half, median = figure.data[:3]
    np.testing.assert_array_equal(median.y, frame["q50"])
    for ribbon, low, high in ((wide, "q05", "q95"), (half, "q25", "q75")):
        np.testing.assert_array_equal(ribbon.x, [0, 5, 10, 10, 5, 0])
        np.testing.assert_array_equal(ribbon.y, [*frame[high], *frame[low][::-1]])
    assert wide.opacity < half.opacity
    assert figure.layout.yaxis2.matches == "y"


def test_a_mark_at_the_right_end_has_its_words_on_the_left():
    curves = {"": {"layer": (np.arange(10), np.ones(10))}}
    for at, anchor in ((1, "left"), (8, "right")):
        figure = line_chart(curves, x="x", y="y", mark=(at, "a mark"))
        (words,) = [a for a in figure.layout.annotations if a.text == "a mark"]
        assert words.xanchor == anchor


def test_curves_without_a_panel_are_refused():
    with pytest.raises(TypeError, match="dictionary of dictionaries"):
        line_chart({"layer": (np.arange(3), np.ones(3))}, x="x", y="y")


def test_one_row_is_a_line_alone_and_0_has_no_place_on_a_logarithmic_axis():
    (line,) = drawn({"": {"layer": (X, X)}}, made_on="", log_x=True).data
    np.testing.assert_array_equal(line.x, X[1:])
    (line,) = drawn({"": {"layer": (X[:1], X[:1])}}, made_on="").data
    assert line.mode == "markers"
