"""The panel of notebook 02, driven from Python as the page would drive it."""

import numpy as np
import pytest
from torch import nn

import lnlab.nn
from lnlab import panels
from lnlab.nn.table1 import TRANSFORMATIONS
from lnlab.panels.invariance_panel import (
    FAMILIES,
    LETTERS,
    NORMALIZERS,
    InvarianceState,
    in_two_lines,
    settable,
)
from lnlab.panels.old_panel import digits


@pytest.fixture(scope="module")
def shared():
    return panels.invariance(eps=0.0)


@pytest.fixture
def panel(shared):
    """The panel at eps = 0, on no page."""
    shared.state = InvarianceState(eps=0.0)
    return shared


def after(panel, slot):
    """What the panel draws of one column: the outline after the change, and strings."""
    plot = panel.plots["movement"]
    return plot.current(f"after {slot}")["y"], plot.current(f"strings {slot}")["x"]


def straight(panel, slot):
    x = after(panel, slot)[1]
    return np.abs(x[0::3] - x[1::3]).max()


def test_dragging_delta_moves_the_summed_inputs_and_not_layer_norm(panel):
    panel.state = InvarianceState(eps=0.0, normalizers=("layer",))
    before = after(panel, 1)
    for size in (1e-3, 0.1, 10.0, 1e3):
        panel.controls["delta"].size.value = size
        np.testing.assert_array_equal(after(panel, 1)[0], before[0])
        assert straight(panel, 1) < 1e-12
        assert straight(panel, 0) > 1


def test_weight_norm_runs_away_with_the_data(panel):
    panel.state = InvarianceState(eps=0.0, transformation=4, normalizers=("weight", "layer"))
    panel.controls["delta"].size.value = 100.0
    assert straight(panel, 1) > 1
    assert straight(panel, 2) < 1e-12
    assert "weight changed by" in panel.bar.sentence


def test_the_sign_of_delta_turns_the_outputs_round(panel):
    panel.state = InvarianceState(eps=0.0, normalizers=("layer",))
    panel.controls["delta"].sign.value = -1
    assert panel.state.delta == -2.51
    assert straight(panel, 1) > 1


def test_only_the_control_that_is_read_can_be_moved(panel):
    for change in TRANSFORMATIONS:
        panel.controls["transformation"].value = change.column
        assert panel.controls["delta"].size.disabled is not change.scales
        assert panel.controls["shift"].disabled is change.scales
        said = panel.controls["delta"].why.value, panel.controls["shift"].why.value
        assert [bool(why) for why in said] == [not change.scales, change.scales]


@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_normalizer_can_be_looked_at_in_every_way(panel, name):
    panel.state = InvarianceState(normalizers=(name,))
    for settings in (
        {"transformation": 6, "batch": 1, "delta": -1e4},
        {"transformation": 5, "mode": "recomputed", "shift": 1e4, "dtype": "bfloat16"},
        {"transformation": 3, "mode": "frozen", "eps": 0.0, "dtype": "float32"},
    ):
        panel.state = InvarianceState(normalizers=(name,), **settings)
        assert panel.bar.error == ""


def test_the_command_is_for_the_notebook_that_it_stands_in():
    assert panels.invariance(notebook="00").bar.command == "lnlab run 00"
    assert panels.invariance(notebook="00").bar.again
    assert not panels.invariance(notebook="").bar.again


def test_alone_it_shows_delta_and_a_picture_until_more_is_asked_for():
    panel = panels.invariance(alone=True)
    delta, _, more, rest = panel.children[0].children
    assert delta is panel.controls["delta"]
    hidden = [rest, panel.plots["table"], delta.sign]
    assert [part.layout.display for part in hidden] == ["none"] * 3
    more.value = True
    assert [part.layout.display for part in hidden] == [""] * 3
    assert "lnlab-beside" not in panel._dom_classes


def test_played_delta_goes_to_its_end_and_begins_again(panel):
    seen = []
    for _ in range(41):
        panel._heard(None, {"kind": "step"}, None)
        seen.append(panel.state.delta)
    assert max(seen) == 1e4
    assert min(seen) == seen[seen.index(1e4) + 1] == 1e-4
    assert seen[-1] == 2.51


def test_what_stands_still_cannot_be_played(panel):
    panel.controls["transformation"].value = 2
    panel._heard(None, {"kind": "step"}, None)
    assert "this change adds a shift and has no δ" in panel.bar.error
    assert panel.state.delta == 2.51


class Largest(lnlab.nn.AffineNormalizer):
    def stats(self, a, W=None, t=None):
        return lnlab.nn.Stats(a.new_zeros(()), a.abs().amax(-1, keepdim=True))


def test_a_normalizer_of_ones_own_is_a_chip():
    panel = panels.invariance(own={"largest": Largest}, normalizers=["weight"])
    panel.controls["normalizers"].value = ("weight", "largest")
    panel.controls["transformation"].value = 4
    assert panel.bar.error == ""
    assert straight(panel, 1) > 0.1
    assert straight(panel, 2) < 1e-12
    assert "largest unchanged" in panel.bar.sentence
    again = panels.invariance(own={"largest": Largest}, **panel.parameters)
    assert again.bar.sentence == panel.bar.sentence
    with pytest.raises(ValueError, match="a normalizer is 'largest'"):
        InvarianceState(("largest",))


@pytest.mark.parametrize(
    ("name", "norm", "says"),
    [
        ("mine", nn.LayerNorm, "own normalizer 'mine' makes a LayerNorm: give a factory such"),
        ("mine", "layer", "own normalizer 'mine' is 'layer': give a factory such"),
        ("rms", Largest, "own normalizer 'rms': this name is taken"),
    ],
)
def test_what_is_no_normalizer_is_no_chip(name, norm, says):
    with pytest.raises((TypeError, ValueError), match=says):
        panels.invariance(own={name: norm})


@pytest.mark.parametrize("delta", [2.51, -2.5])
def test_on_a_page_the_one_slider_is_the_size_of_whichever_change(delta):
    state = InvarianceState(delta=delta)
    size, change, _ = settable(state)
    for words, value in size.values.items():
        for column in change.values.values():
            there = change.put(size.put(state, value), column)
            assert there.transformation == column
            assert digits(abs(there.amount)) == words
            assert np.sign(there.delta) == np.sign(delta)


@pytest.mark.parametrize("names", FAMILIES)
def test_titles_of_a_family_have_room_beside_each_other(names):
    titles = ["summed inputs a", *names]
    for title in titles:
        lines = in_two_lines(title, LETTERS // len(titles)).split("<br>")
        assert " ".join(lines) == title
        assert max(map(len, lines)) <= LETTERS // len(titles)
