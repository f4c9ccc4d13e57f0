"""The panel of notebook 06, driven from Python as the page would drive it."""

from typing import Any

import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.analysis.rnn_dynamics import Dynamics
from lnlab.figures.style import EDGE, decades
from lnlab.panels.recurrence_panel import (
    CELLS,
    NORMALIZERS,
    RecurrenceState,
    leaves_axis,
    make_cell,
    measure,
    recurrence_figure,
)

NONE, LAYER = 0, 1


@pytest.fixture(scope="module")
def shared():
    return panels.recurrence(steps=25)


@pytest.fixture
def panel(shared):
    """The panel at 25 steps, on no page."""
    shared.state = RecurrenceState(steps=25)
    return shared


def drawn(panel, part, slot):
    return panel.plots["recurrence"].current(f"{part} {slot}")["y"]


def test_axes_stay_and_the_sentence_says_who_leaves_them(panel):
    ranges = {}
    for scale in (1.0, 10.0):
        panel.controls["recurrent"].value = scale
        layout = panel.plots["recurrence"]._layout
        ranges[scale] = [layout[f"yaxis{axis}"]["range"] for axis in ("", "2", "3")]
        leaves = "The lines of “none” leave the picture." in panel.bar.sentence
        assert leaves == (scale == 10.0)
    assert ranges[1.0] == ranges[10.0]


def test_dragging_the_recurrent_weights_blows_up_the_plain_net_and_not_layer_norm(panel):
    for scale, low, high in ((0.1, 0, 1e-20), (10.0, 1e10, 1e40)):
        panel.controls["recurrent"].value = scale
        assert low <= drawn(panel, "gradient", NONE)[0] < high
        assert drawn(panel, "hidden", LAYER)[-1] == pytest.approx(0.7, abs=0.05)
    assert drawn(panel, "hidden", NONE)[-1] > 1e10


def test_the_gain_decides_how_fast_the_gradient_dies_where_there_is_one(panel):
    rates = []
    for gain in (0.1, 1.0):
        panel.controls["gain"].value = gain
        rates.append(measure(panel.state)["layer"].rate)
    assert rates[0] < 0.2 < 0.7 < rates[1] < 1
    panel.controls["normalizers"].value = ("none",)
    assert panel.controls["gain"].disabled
    panel.controls["normalizers"].value = ("none", "weight")
    assert not panel.controls["gain"].disabled


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_net_can_be_looked_at(name, cell):
    for ends in (0.1, 10.0):
        state = RecurrenceState((name,), cell, ends, 1.0, 1.0 / ends, steps=10)
        (course,) = measure(state).values()
        assert all(part.isfinite().all() and len(part) == 10 for part in course)


def test_a_cell_is_always_the_same_and_the_gain_is_that_of_the_recurrent_sums():
    first, second = (make_cell("layer", "LSTM", 1.0, 1.0, 1.0) for _ in range(2))
    assert torch.equal(first.W_h, second.W_h)
    f, i = first.W_h.split(64)[:2]
    assert not torch.equal(f, i)
    cell: Any = make_cell("layer", "GRU", 1.0, 1.0, 0.1)
    gains = [norm.g[0].item() for norm in (cell.norm_h, cell.norm_U, cell.norm_x, cell.norm_W)]
    assert gains == [0.1, 0.1, 1.0, 1.0]


def test_numbers_that_float32_cannot_hold_are_drawn_at_the_edge():
    wild = Dynamics(*[torch.tensor([1e-300, 1e300, np.inf], dtype=torch.float64)] * 3)
    y = recurrence_figure({"none": wild})["data"][0]["y"]
    np.testing.assert_allclose(y, [10.0**-EDGE, 10.0**EDGE, 10.0**EDGE])
    assert np.isfinite(y.astype(np.float32)).all()
    assert leaves_axis(wild)
    assert not leaves_axis(Dynamics(*[torch.ones(3)] * 3))
    assert decades([np.array([1e-300, 1e300])], -2, 2) == (-EDGE, EDGE)
