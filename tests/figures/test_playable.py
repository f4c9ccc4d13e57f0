"""A figure with something to choose, for where no kernel runs."""

import base64
import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.figures.playable import Choice, Frame, playable
from tests.unpacked import unpacked

DELTAS = Choice("δ", ("1", "2", "4"), at=1)
MODES = Choice("statistics", ("batch", "frozen"), at=0, slides=False)


def drawn():
    figure = go.Figure(layout={"height": 300, "margin": {"b": 40, "t": 20}})
    figure.add_scatter(name="still", y=np.zeros(3))
    figure.add_scatter(name="moving", y=np.zeros(3))
    return figure


def frame(delta, mode=0, **layout):
    traces = {
        "still": {"y": np.zeros(3), "visible": True},
        "moving": {"y": np.full(3, 10.0 * mode + delta), "visible": True},
    }
    return Frame(f"δ = {delta}", f"it moves by {delta}", traces, layout)


def played(choices=(DELTAS,), **layout) -> Any:
    frames = {(i,): frame(delta, **layout) for i, delta in enumerate((1, 2, 4))}
    return playable(drawn(), choices, frames)


def test_every_frame_has_its_picture_title_and_caption():
    figure = played()
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
    for frame, delta in zip(figure.frames, (1, 2, 4), strict=True):
        assert frame.traces == (1,), "what is the same in all frames is not stored"
        assert set(frame.data[0].to_plotly_json()) == {"type", "y"}
        np.testing.assert_array_equal(frame.data[0].y, np.full(3, float(delta)))
        assert frame.data[0].y.dtype == np.float32
        assert frame.layout.title.text == f"δ = {delta}"
        assert frame.layout.title.subtitle.text == f"it moves by {delta}"
        assert frame.layout.meta == {"caption": f"it moves by {delta}"}
    assert figure.layout.title.text == "δ = 2"
    assert figure.layout.meta["caption"] == "it moves by 2"


def test_the_slider_of_plotly_draws_anew_what_a_frame_changes():
    (slider,) = played().layout.sliders
    assert [(step.label, step.args[0]) for step in slider.steps] == [
        ("1", ("0",)),
        ("2", ("1",)),
        ("4", ("2",)),
    ]
    assert slider.active == 1
    assert slider.currentvalue.prefix == "δ "
    assert all(step.args[1]["frame"]["redraw"] for step in slider.steps)


def test_of_two_choices_every_combination_has_a_frame():
    frames = {
        (i, k): frame(delta, mode=k) for i, delta in enumerate((1, 2, 4)) for k in range(2)
    }
    figure: Any = playable(drawn(), (DELTAS, MODES), frames)
    stored = unpacked(json.loads(figure.to_json()))
    assert {*stored} == {f"{i},{k}" for i in range(3) for k in range(2)}
    for (i, k), wanted in frames.items():
        ((index, new),) = stored[f"{i},{k}"]["traces"].items()
        assert index == 1
        assert new["y"]["dtype"] == "f4"
        there = np.frombuffer(base64.b64decode(new["y"]["bdata"]), np.float32)
        np.testing.assert_array_equal(there, wanted.traces["moving"]["y"])
        assert stored[f"{i},{k}"]["layout"]["title"]["text"] == wanted.title
    assert figure.layout.meta["choices"] == [
        {"name": "δ", "stops": ["1", "2", "4"], "at": 1, "slides": True},
        {"name": "statistics", "stops": ["batch", "frozen"], "at": 0, "slides": False},
    ]
    assert [f.name for f in figure.frames] == ["0,0", "1,0", "2,0"], "of plotly's own slider"
    slider_frames = [step.args[0] for step in figure.layout.sliders[0].steps]
    assert slider_frames == [("0,0",), ("1,0",), ("2,0",)]


def test_what_is_equal_in_several_frames_is_stored_once():
    def size(count) -> int:
        noise = np.random.default_rng(0).normal(size=1000)
        some = {
            (i, k): Frame(f"{i}", "", {"moving": {"y": noise + i}}, {})
            for i in range(3)
            for k in range(count)
        }
        modes = Choice("mode", [f"{k}" for k in range(count)], at=0)
        figure: Any = playable(drawn(), (DELTAS, modes), some)
        return len(figure.layout.meta["frames"])

    assert size(20) < 1.1 * size(2)


def test_attributes_that_are_missing_somewhere_are_stored_where_they_are():
    frames = {(i,): frame(delta) for i, delta in enumerate((1, 2, 4))}
    frames[2,] = Frame("none", "", {"still": {"visible": False}}, {})
    figure: Any = playable(drawn(), (DELTAS,), frames)
    of_still = [
        dict(zip(f.traces, f.data, strict=True))[0].to_plotly_json() for f in figure.frames
    ]
    assert [sorted(new) for new in of_still] == [
        ["type", "visible", "y"],
        ["type", "visible", "y"],
        ["type", "visible"],
    ]


def test_the_layout_of_a_frame_is_kept_but_for_the_size_of_the_figure():
    frames = {
        (i,): frame(
            delta, height=100 * delta, xaxis={"range": [0, delta]}, yaxis={"title": "y"}
        )
        for i, delta in enumerate((1, 2, 4))
    }
    figure: Any = playable(drawn(), (DELTAS,), frames)
    for each, delta in zip(figure.frames, (1, 2, 4), strict=True):
        assert list(each.layout.xaxis.range) == [0, delta]
        assert set(each.layout.to_plotly_json()) == {"xaxis", "title", "meta"}


def test_notes_that_a_frame_does_not_have_are_taken_off():
    frames = {
        (i,): frame(i, annotations=[{"text": f"note {k}"} for k in range(i)]) for i in range(3)
    }
    figure: Any = playable(drawn(), (DELTAS,), frames)
    assert [[note.visible for note in f.layout.annotations] for f in figure.frames] == [
        [False, False],
        [True, False],
        [True, True],
    ]


def test_there_is_room_for_the_slider_and_for_the_longest_caption():
    frames = {(i,): frame(delta) for i, delta in enumerate((1, 2, 4))}
    frames[2,] = Frame("long", "word " * 60, {}, {})
    short, figure = played(), playable(drawn(), (DELTAS,), frames)
    assert short.layout.height - 300 == (short.layout.margin.b - 40) + (
        short.layout.margin.t - 20
    )
    assert short.layout.margin.b - 40 > 60
    assert figure.layout.margin.t - short.layout.margin.t == 2 * 19, "two lines more"
    meta = figure.layout.meta
    assert figure.layout.height - meta["above"] - meta["below"] == 300


def test_a_frame_of_a_trace_that_does_not_exist_is_refused():
    frames = {(i,): Frame("", "", {"nowhere": {"y": np.full(3, i)}}, {}) for i in range(3)}
    with pytest.raises(KeyError, match="nowhere"):
        playable(drawn(), (DELTAS,), frames)


def test_a_combination_without_a_frame_is_refused():
    with pytest.raises(ValueError, match=r"5 of 6 frames are missing: \(0, 1\)"):
        playable(drawn(), (DELTAS, MODES), {(0, 0): frame(1)})


def test_a_played_figure_is_json():
    stored = json.loads(str(played().to_json()))
    assert len(stored["frames"]) == 3
