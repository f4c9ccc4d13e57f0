"""A figure with a slider of its own, for where no kernel runs."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.figures.playable import playable


def played(frames, active=0):
    figure = go.Figure(layout={"height": 300, "margin": {"b": 40}})
    figure.add_scatter(name="still", y=np.zeros(3))
    figure.add_scatter(name="moving", y=np.zeros(3))
    return playable(figure, frames, "δ = ", active)


def test_every_step_shows_its_frame_and_touches_nothing_else():
    frames = {"1": {"moving": {"y": np.ones(3)}}, "2": {"moving": {"y": np.full(3, 2.0)}}}
    figure: Any = played(frames, active=1)
    assert [frame.name for frame in figure.frames] == ["1", "2"]
    assert all(frame.traces == (1,) for frame in figure.frames)
    np.testing.assert_array_equal(figure.frames[1].data[0].y, np.full(3, 2.0))
    (slider,) = figure.layout.sliders
    assert [(step.label, step.args[0]) for step in slider.steps] == [
        ("1", ("1",)),
        ("2", ("2",)),
    ]
    assert slider.active == 1
    assert slider.currentvalue.prefix == "δ = "


def test_the_slider_has_room_below_the_figure():
    figure: Any = played({"1": {"moving": {"y": np.ones(3)}}})
    assert figure.layout.height - 300 == figure.layout.margin.b - 40 > 60


def test_a_frame_of_a_trace_that_does_not_exist_is_refused():
    with pytest.raises(KeyError, match="nowhere"):
        played({"1": {"nowhere": {"y": np.ones(3)}}})
