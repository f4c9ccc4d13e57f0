"""Curves are means, bands reach over all seeds, and nobody wins where a bar holds zero."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.curves import learning_curves, paired_differences
from lnlab.figures.style import GREY

X = np.array([0.0, 1, 10, 100])
Y = np.array([[4.0, 3, 2, 1], [6, 5, 2, 3], [5, 1, 2, 2]])


def drawn(panels, made_on="embedded data: digits; 3 seeds", **logs: bool) -> Any:
    return learning_curves(panels, x="updates", y="NLL (nats)", made_on=made_on, **logs)


def test_a_line_is_the_mean_and_a_band_holds_every_seed():
    figure: Any = drawn({"batch 128": {"layer": (X, Y)}})
    band, mean = figure.data
    np.testing.assert_array_equal(mean.x, X)
    np.testing.assert_array_equal(mean.y, [5, 3, 2, 2])
    np.testing.assert_array_equal(band.x, [*X, *X[::-1]])
    np.testing.assert_array_equal(band.y, [6, 5, 2, 3, 1, 2, 1, 4])
    assert band.fill == "toself"
    assert band.fillcolor == mean.line.color


def test_panels_share_the_legend_the_scale_and_the_axis_of_y():
    both, one = {"layer": (X, Y), "batch": (X, Y)}, {"layer": (X, Y), "none": (X, Y)}
    figure: Any = drawn({"batch 128": both, "batch 4": one})
    assert [trace.name for trace in figure.data if trace.showlegend] == [
        "layer",
        "batch",
        "none",
    ]
    assert len(figure.data) == 8
    assert figure.layout.yaxis2.matches == "y"
    assert (figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text) == (
        "NLL (nats)",
        None,
    )
    for axis in (figure.layout.xaxis, figure.layout.xaxis2):
        assert (axis.title.text, axis.type) == ("updates", "linear")
    for axis in (figure.layout.yaxis, figure.layout.yaxis2):
        assert axis.type == "log"


def test_every_figure_says_what_it_was_made_on():
    notes = [note.text for note in drawn({"batch 4": {"layer": (X, Y)}}).layout.annotations]
    assert notes[0] == "batch 4"
    assert notes[1].startswith("embedded data: digits; 3 seeds. ")


def test_a_logarithmic_axis_leaves_out_what_it_has_no_place_for():
    figure: Any = drawn({"": {"layer": (X, Y)}}, log_x=True, log_y=False)
    band, mean = figure.data
    np.testing.assert_array_equal(mean.x, X[1:])
    np.testing.assert_array_equal(mean.y, [3, 2, 2])
    assert len(band.x) == len(band.y) == 6
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "linear")


def test_a_long_label_has_two_lines():
    names = [
        "layer − none",
        "CIFAR-10, LeNet, batch 128: layer − layer, per position",
        "chosen on the test − chosen on validation",
    ]
    figure: Any = paired_differences(
        dict.fromkeys(names, ([-1.0, 2.0], (-3.0, 1.0))), x="nats", made_on="digits"
    )
    rows = [*dict.fromkeys(trace.y[0] for trace in figure.data)]
    assert rows == [
        names[0],
        "CIFAR-10, LeNet, batch 128:<br>layer − layer, per position",
        "chosen on the test −<br>chosen on validation",
    ]


@pytest.mark.parametrize(
    ("ends", "decided"), [((-3.0, -1.0), True), ((1.0, 3.0), True), ((-1.0, 3.0), False)]
)
def test_a_bar_that_holds_zero_is_grey(ends, decided):
    figure: Any = paired_differences(
        {"a − b": ([-1.0, 2.0, 3.0], ends)}, x="nats", made_on="digits"
    )
    bar, dots = figure.data
    assert (bar.x, bar.y) == (ends, ("a − b", "a − b"))
    assert (dots.x, dots.y) == ((-1.0, 2.0, 3.0), ("a − b",) * 3)
    assert bar.line.color == dots.marker.color
    assert (bar.line.color != GREY) == decided
    assert figure.layout.xaxis.title.text == "nats"
    left, right = figure.layout.xaxis.range
    assert left < min(ends) < max(ends) < right
    (zero,) = figure.layout.shapes
    assert zero.x0 == zero.x1 == 0


def test_a_run_that_was_measured_once_is_seen():
    _, mean = drawn({"": {"layer": (X[:1], Y[:, :1])}}).data
    assert mean.mode == "markers"


def test_a_place_without_neighbours_is_seen():
    alone, pair = (np.where(np.isin(X, at), Y, np.nan) for at in ([1, 100], [1, 10]))
    _, apart, _, joined = drawn({"": {"layer": (X, alone), "none": (X, pair)}}).data
    assert (apart.mode, joined.mode) == ("markers", "lines")
