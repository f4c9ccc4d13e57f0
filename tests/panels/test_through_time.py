"""The panel of notebook 06, driven from Python as the page would drive it."""

import json
import shlex
from typing import Any

import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.panels.panel import PLOTLY
from lnlab.panels.recurring import CELLS, NORMALIZERS, Recurring, courses, made, sentence
from lnlab.panels.through_time import still
from lnlab.workbook import value


@pytest.fixture(scope="module")
def shared():
    return panels.recurrence(steps=25)


@pytest.fixture
def panel(shared):
    """The panel at 25 steps, on no page."""
    shared.state = Recurring(steps=25)
    return shared


def drawn(panel, part, slot):
    return panel.plots["dynamics"].current(f"{part} {slot}")["y"]


NONE, LAYER = 0, 1


def test_dragging_the_recurrent_weights_blows_up_the_plain_net_and_not_layer_norm(panel):
    for scale, low, high in ((0.1, 0, 1e-20), (10.0, 1e10, 1e40)):
        panel.controls["recurrent"].value = scale
        assert low <= drawn(panel, "gradient", NONE)[0] < high
        assert drawn(panel, "hidden", LAYER)[-1] == pytest.approx(0.7, abs=0.05)
    assert drawn(panel, "hidden", NONE)[-1] > 1e10


def test_layer_norm_stands_still_if_all_weights_grow_alike(panel):
    panel.state = Recurring(steps=25, recurrent=1.0, inputs=1.0)
    before = drawn(panel, "gradient", LAYER), drawn(panel, "gradient", NONE)
    panel.state = Recurring(steps=25, recurrent=5.01, inputs=5.01)
    # up to eps = 1e-5 against a variance of 1.5
    np.testing.assert_allclose(drawn(panel, "gradient", LAYER), before[0], rtol=1e-3)
    assert drawn(panel, "gradient", NONE)[0] > 1e10 * before[1][0]


def test_the_gain_decides_how_fast_the_gradient_dies(panel):
    rates = []
    for gain in (0.1, 1.0):
        panel.controls["gain"].value = gain
        rates.append(courses(panel.state)["layer"].rate)
    assert rates[0] < 0.2 < 0.7 < rates[1] < 1


def test_every_control_is_a_field_and_moves_the_panel(panel):
    changed = {
        "normalizers": ("rms",), "cell": "GRU", "recurrent": 0.5, "inputs": 2.0,
        "gain": 0.1, "steps": 50,
    }  # fmt: skip
    assert set(changed) == set(panel.controls)
    for name, new in changed.items():
        command = panel.bar.command
        panel.controls[name].value = new
        assert getattr(panel.state, name) == new
        assert panel.bar.command != command
        assert panel.bar.error == ""
        assert panel.bar.sentence == sentence(panel.state)


def test_a_gain_that_nothing_has_cannot_be_moved(panel):
    panel.controls["normalizers"].value = ("none",)
    assert panel.controls["gain"].disabled
    panel.controls["normalizers"].value = ("none", "weight")
    assert not panel.controls["gain"].disabled


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_net_can_be_looked_at(name, cell):
    for ends in (0.1, 10.0):
        state = Recurring((name,), cell, ends, 1.0, 1.0 / ends, steps=10)
        (course,) = courses(state).values()
        assert all(part.isfinite().all() and len(part) == 10 for part in course)


def test_drawing_leaves_the_generator_alone_and_is_always_the_same():
    before = torch.get_rng_state()
    first, second = (made("layer", "LSTM", 1.0, 1.0, 1.0) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.W_h, second.W_h)
    f, i = first.W_h.split(64)[:2]
    assert not torch.equal(f, i)


def test_the_gain_is_that_of_the_recurrent_sums_alone():
    cell: Any = made("layer", "GRU", 1.0, 1.0, 0.1)
    gains = [norm.g[0].item() for norm in (cell.norm_h, cell.norm_U, cell.norm_x, cell.norm_W)]
    assert gains == [0.1, 0.1, 1.0, 1.0]


def test_the_command_brings_the_panel_back(panel):
    panel.state = Recurring(("layer", "rms"), "LSTM", 0.5, 2.0, 0.1, 10)
    *_, name, text = shlex.split(panel.bar.command)
    assert name == "panel"
    again = panels.recurrence(**value(text))
    assert again.state == panel.state
    assert again.bar.sentence == panel.bar.sentence


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cell": "QRNN"}, "cell is 'QRNN'"),
        ({"recurrent": 0.0}, "recurrent is 0"),
        ({"steps": 3}, "steps is 3"),
        ({"normalizers": ["ghost"]}, "'ghost'"),
        ({"normalizers": ["layer"] * 5}, "at most 4"),
    ],
)
def test_what_makes_no_sense_does_not_start(wrong, says):
    with pytest.raises(ValueError, match=says):
        panels.recurrence(**wrong)


def test_a_page_without_a_kernel_can_be_played_with(panel, monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    (bundle,) = panel.bundles()
    figure = bundle[PLOTLY]
    (slider,) = figure["layout"]["sliders"]
    assert 20 <= len(figure["frames"]) == len(slider["steps"]) <= 22
    assert slider["steps"][slider["active"]]["label"] == "2"
    assert len(json.dumps(figure)) < 300_000
    assert figure["layout"]["title"]["text"].startswith("RNN, relu (eq. 4), W_h × 2,")


def test_a_frame_is_the_picture_of_its_size():
    state = Recurring(steps=10)
    played: Any = still(state, True)[0]
    (even,) = [frame for frame in played.frames if frame.name == "1"]
    shown: Any = still(state.rescaled(1.0), False)[0]
    for place, trace in zip(even.traces, even.data, strict=True):
        np.testing.assert_array_equal(trace.y, np.float32(shown.data[place].y))
    low, high = played.layout.yaxis.range
    assert low <= np.log10(min(even.data[0].y)) <= np.log10(max(even.data[0].y)) <= high
