"""A figure with something to choose, for where no kernel runs."""

import base64
import json
from typing import Any

import numpy as np

from lnlab.panels.playable import PageControl, TitledFigure, figure_with_page_controls
from tests.unpacked import unpacked


def choice(name, words, at=0, slides=True):
    return PageControl(name, words, at, slides)


DELTAS = choice("δ", ("1", "2", "4"), at=1)
MODES = choice("statistics", ("batch", "frozen"), slides=False)


def frame(delta, mode=0, caption="", still=(0.0, 0.0, 0.0), **layout):
    """One trace that stays, one that moves, and one that is never seen."""
    data = [
        {"type": "scatter", "name": "still", "y": np.array(still), "visible": True},
        {"type": "scatter", "name": "moving", "y": np.full(3, 10.0 * mode + delta)},
        {"type": "scatter", "name": "hidden", "visible": False},
    ]
    given = {"height": 300, "margin": {"b": 40, "t": 20}, **layout}
    caption = caption or f"it moves by {delta}"
    return TitledFigure({"data": data, "layout": given}, f"δ = {delta}", caption)


def test_of_two_choices_every_combination_has_a_frame():
    frames = {(i, k): frame(d, mode=k) for i, d in enumerate((1, 2, 4)) for k in range(2)}
    figure: Any = figure_with_page_controls((DELTAS, MODES), frames)
    stored = unpacked(json.loads(figure.to_json()))
    assert {*stored} == {f"{i},{k}" for i in range(3) for k in range(2)}
    for (i, k), wanted in frames.items():
        ((index, new),) = stored[f"{i},{k}"]["traces"].items()
        there = np.frombuffer(base64.b64decode(new["y"]["bdata"]), np.float32)
        assert (index, new["y"]["dtype"]) == (1, "f4")
        np.testing.assert_array_equal(there, wanted.figure["data"][1]["y"])
        assert stored[f"{i},{k}"]["layout"]["title"]["text"] == wanted.title
    assert figure.layout.meta["choices"] == [
        {"name": "δ", "stops": ["1", "2", "4"], "at": 1, "slides": True},
        {"name": "statistics", "stops": ["batch", "frozen"], "at": 0, "slides": False},
    ]


def test_what_is_equal_in_several_frames_is_stored_once():
    def size(count) -> int:
        noise = np.random.default_rng(0).normal(size=1000)
        frames = {(i, k): frame(i, still=noise + i) for i in range(3) for k in range(count)}
        modes = choice("mode", [f"{k}" for k in range(count)])
        figure: Any = figure_with_page_controls((DELTAS, modes), frames)
        return len(figure.layout.meta["frames"])

    assert size(20) < 1.1 * size(2)


def test_a_frame_keeps_the_size_of_the_figure_and_hides_what_it_does_not_have():
    one, more = frame(0, height=100), frame(1, xaxis2={"range": [0, 1]})
    more.figure["data"].append({"type": "bar", "name": "bars", "xaxis": "x2", "y": [1]})
    two = PageControl("δ", ["0", "1"], 0)
    figure: Any = figure_with_page_controls([two], {(0,): one, (1,): more})
    assert [trace.visible for trace in figure.data] == [True, True, False, False]
    assert not figure.layout.xaxis2.visible
    other = unpacked(json.loads(figure.to_json()))["1"]
    assert not {"height", "margin"} & other["layout"].keys()
    assert other["layout"]["xaxis2"] == {"range": [0, 1]}
    assert other["traces"][3] == {"visible": True, "xaxis": "x2", "y": [1]}
