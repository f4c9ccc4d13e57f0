"""A ribbon reaches from one mean end to the other, and a level is where it says."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.curves import learning_curves, level, smoothness_ribbons

MADE = "embedded data: digits"


def test_ribbons_reach_from_the_mean_low_to_the_mean_high_end():
    at, low = np.arange(3.0), np.array([[1.0, 1, 1], [3, 3, 3]])
    figure: Any = smoothness_ribbons({"loss": {"layer": (at, low, low + 4)}}, made_on=MADE)
    seeds, mean, edge = figure.data
    np.testing.assert_array_equal(mean.y, [6, 6, 6, 2, 2, 2])
    np.testing.assert_array_equal(seeds.y, [7, 7, 7, 1, 1, 1])
    np.testing.assert_array_equal(edge.y, [6, 6, 6])
    assert seeds.opacity < mean.opacity
    assert figure.layout.yaxis.type == "log"


def test_rows_of_ribbons_have_scales_of_their_own():
    ribbon = np.arange(3.0), np.ones((2, 3)), np.full((2, 3), 2.0)
    row = {"layer": ribbon, "batch": ribbon}
    figure: Any = smoothness_ribbons({"a (nats)": row, "b": row}, made_on=MADE)
    layout = figure.layout
    assert (layout.yaxis.title.text, layout.yaxis3.title.text) == ("a (nats)", "b")
    assert (layout.yaxis2.matches, layout.yaxis4.matches) == ("y", "y3")
    assert layout.yaxis3.matches is None
    assert [note.text for note in figure.layout.annotations][:2] == ["layer", "batch"]


def test_a_level_is_at_its_value_on_either_kind_of_axis():
    curve = {"layer": (np.arange(3.0), np.ones((2, 3)))}
    for log_y in (True, False):
        figure: Any = learning_curves(
            {"a": curve, "b": curve}, x="updates", y="λ", made_on=MADE, log_y=log_y
        )
        level(figure, 20.0, "2/η")
        assert {shape.y0 for shape in figure.layout.shapes} == {20.0}
        assert len(figure.layout.shapes) == 2
        note = figure.layout.annotations[-1]
        assert note.y == pytest.approx(np.log10(20.0) if log_y else 20.0)
        assert note.xref == "x2 domain"


def test_the_words_at_a_level_stand_at_the_end_that_is_asked_for():
    curve = {"": {"layer": (np.arange(3.0), np.ones((2, 3)))}}
    for left, end in ((False, "right"), (True, "left")):
        figure: Any = learning_curves(curve, x="updates", y="λ", made_on=MADE)
        note = level(figure, 20.0, "2/η", left=left).layout.annotations[-1]
        assert (note.x, note.xanchor) == (0 if left else 1, end)
