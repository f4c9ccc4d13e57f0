"""The panel of notebook 02, driven from Python as the page would drive it."""

import json
import shlex
from typing import Any

import numpy as np
import pytest

from lnlab import panels
from lnlab.norms.transformations import TRANSFORMATIONS
from lnlab.panels.panel import PLOTLY
from lnlab.panels.transformed import NORMALIZERS, SIZES, Transformed, sentence
from lnlab.panels.what_stays import still
from lnlab.workbook import value


@pytest.fixture(scope="module")
def shared():
    return panels.invariance(eps=0.0)


@pytest.fixture
def panel(shared):
    """The panel at eps = 0, on no page."""
    shared.state = Transformed(eps=0.0)
    return shared


def after(panel, slot):
    """What the panel draws of one column: the outline after the change, and strings."""
    plot = panel.plots["movement"]
    return plot.current(f"after {slot}")["y"], plot.current(f"strings {slot}")["x"]


def straight(panel, slot):
    x = after(panel, slot)[1]
    return np.abs(x[0::3] - x[1::3]).max()


def test_dragging_delta_moves_the_summed_inputs_and_not_layer_norm(panel):
    panel.state = Transformed(eps=0.0, normalizers=("layer",))
    before = after(panel, 1)
    for size in (1e-3, 0.1, 10.0, 1e3):
        panel.controls["delta"].size.value = size
        np.testing.assert_array_equal(after(panel, 1)[0], before[0])
        assert straight(panel, 1) < 1e-12
        assert straight(panel, 0) > 1


def test_weight_norm_runs_away_with_the_data(panel):
    panel.state = Transformed(eps=0.0, transformation=4, normalizers=("weight", "layer"))
    panel.controls["delta"].size.value = 100.0
    assert straight(panel, 1) > 1
    assert straight(panel, 2) < 1e-12
    assert "weight moves by" in panel.bar.sentence


def test_the_sign_of_delta_turns_the_outputs_round(panel):
    panel.state = Transformed(eps=0.0, normalizers=("layer",))
    panel.controls["delta"].sign.value = -1
    assert panel.state.delta == -2.51
    assert straight(panel, 1) > 1


def test_every_control_is_a_field_and_moves_the_panel(panel):
    changed = {
        "normalizers": ("rms",), "transformation": 2, "delta": 10.0, "shift": 10.0,
        "eps": 1e-3, "dtype": "float32", "batch": 4, "mode": "frozen",
    }  # fmt: skip
    assert set(changed) == set(panel.controls)
    for name, new in changed.items():
        command = panel.bar.command
        panel.controls[name].value = new
        assert getattr(panel.state, name) == new
        assert panel.bar.command != command
        assert panel.bar.error == ""
        assert panel.bar.sentence == sentence(panel.state)


def test_only_the_control_that_is_read_can_be_moved(panel):
    for change in TRANSFORMATIONS:
        panel.controls["transformation"].value = change.column
        assert panel.controls["delta"].size.disabled is not change.scales
        assert panel.controls["shift"].disabled is change.scales


@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_normalizer_can_be_looked_at_in_every_way(panel, name):
    panel.state = Transformed(normalizers=(name,))
    for settings in (
        {"transformation": 6, "batch": 1, "delta": -1e4},
        {"transformation": 5, "mode": "recomputed", "shift": 1e4, "dtype": "bfloat16"},
        {"transformation": 3, "mode": "frozen", "eps": 0.0, "dtype": "float32"},
    ):
        panel.state = Transformed(normalizers=(name,), **settings)
        assert panel.bar.error == ""


def test_the_command_brings_the_panel_back(panel):
    state = Transformed(("layer", "weight, mean-only batch"), 4, -0.0251, eps=0.01, batch=1)
    panel.state = state
    *_, name, text = shlex.split(panel.bar.command)
    assert name == "panel"
    again = panels.invariance(**value(text))
    assert again.state == state
    assert again.bar.sentence == panel.bar.sentence


def test_reset_goes_back_to_the_start():
    panel = panels.invariance(eps=0.0)
    panel.controls["transformation"].value = 9
    panel.controls["eps"].value = 0.1
    panel.reset()
    assert panel.state == Transformed(eps=0.0)


def test_the_command_is_for_the_notebook_that_it_stands_in():
    assert panels.invariance(notebook="00").bar.command == "lnlab run 00"


def test_what_makes_no_sense_does_not_start():
    with pytest.raises(ValueError, match="transformation is 0"):
        panels.invariance(transformation=0)


def test_a_page_without_a_kernel_can_be_played_with(panel, monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    panel.state = Transformed(eps=0.0, delta=-10.0)
    first, second = (bundle[PLOTLY] for bundle in panel.bundles())
    (slider,) = first["layout"]["sliders"]
    assert 25 <= len(first["frames"]) == len(slider["steps"]) <= 41
    assert slider["steps"][slider["active"]]["label"] == "10"
    assert slider["currentvalue"]["prefix"] == "δ = −"
    assert len(json.dumps(first)) < 300_000
    assert second["data"][0]["type"] == "heatmap"
    titles = [figure["layout"]["title"]["text"] for figure in (first, second)]
    assert titles[0].startswith("W → δW: ε = 0, float64, batch of 32, statistics of the")
    assert ", δ = -10, shifts of 1:" in titles[1]


def test_a_frame_is_the_picture_of_its_size():
    state = Transformed(normalizers=("weight", "none"))
    played: Any = still(state, True)[0]
    frame = dict(zip(played.frames[3].traces, played.frames[3].data, strict=True))
    assert played.frames[3].name == f"{SIZES[3]:.3g}"
    shown: Any = still(state.resized(SIZES[3]), False)[0]
    for place, trace in frame.items():
        np.testing.assert_array_equal(trace.x, np.float32(shown.data[place].x))
        np.testing.assert_array_equal(trace.y, np.float32(shown.data[place].y))
        assert trace.text == shown.data[place].text


def test_a_size_beside_one_of_the_grid_has_its_frame_alone():
    near = float(f"{SIZES[20]:.3g}")
    played: Any = still(Transformed(delta=near, normalizers=("weight",)), True)[0]
    names = [frame.name for frame in played.frames]
    assert len(names) == len(set(names)) == len(SIZES)
    assert names[played.layout.sliders[0].active] == f"{near:g}"


def test_a_frame_holds_all_that_its_size_moves():
    state = Transformed(normalizers=("layer", "none"), eps=1e-3)
    figures: Any = [still(state.resized(size), False)[0] for size in (1e-3, 10.0)]
    near, far = ({trace.name: trace for trace in figure.data} for figure in figures)
    moved = {name for name in near if near[name] != far[name]}
    played: Any = still(state, True)[0]
    held = {played.data[place].name for place in played.frames[0].traces}
    assert moved <= held
