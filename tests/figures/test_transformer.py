"""Figures of a transformer at its start: lines are means, bands hold every draw."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.style import NAMED
from lnlab.papers.transformer.panel import (
    SLOTS,
    _powers,
    first_steps_figure,
    profile_figure,
    profile_layout,
)

NORMS = {"pre": np.array([[1.0, 2.0], [3.0, 8.0]]), "post": np.ones((2, 2))}


def named(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def test_lines_are_means_and_bands_hold_every_draw():
    traces = named(profile_figure(NORMS))
    assert len(traces) == 2 * SLOTS
    np.testing.assert_allclose(traces["mean 0"].y, [2, 5])
    np.testing.assert_allclose(traces["mean 0"].x, [1, 2])
    np.testing.assert_allclose(traces["band 0"].y, [3, 8, 2, 1])
    assert traces["mean 0"].line.color == NAMED["pre"]
    assert traces["mean 2"].visible is False


def test_what_is_infinite_is_drawn_at_the_edge():
    traces = named(first_steps_figure(np.array([0.1, 1.0]), {"pre": np.array([[2.0, np.inf]])}))
    assert np.isfinite(traces["mean 0"].y).all()


def test_the_axis_holds_every_layer_and_every_decade():
    layout = profile_layout({"pre": np.array([[1e-7, 1e5, 1.0]])})
    assert layout["xaxis"]["range"] == [0.5, 3.5]
    low, high = layout["yaxis"]["range"]
    assert low <= -7
    assert high >= 5


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.5), (-1.0, 1.0), (-12.0, 3.0)])
def test_powers_are_labelled_by_themselves_alone(low, high):
    axis = _powers(low, high)
    for value, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        plain = text.replace("10<sup>", "1e").replace("·1e", "e").replace("</sup>", "")
        assert float(plain) == pytest.approx(value), "a 5 must not stand for 0.5"
