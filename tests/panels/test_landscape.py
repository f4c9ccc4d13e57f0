"""The panel of notebook 16, driven from Python as the page would drive it."""

import json
import shlex
from typing import Any

import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.panels.landscape import still
from lnlab.panels.panel import PLOTLY
from lnlab.panels.terrain import (
    Terrain,
    cuts,
    plane,
    rescaled,
    sentence,
    trained,
    training_loss,
)
from lnlab.workbook import value


@pytest.fixture(scope="module")
def shared():
    return panels.landscape()


@pytest.fixture
def panel(shared):
    """The panel as Reset leaves it, on no page."""
    shared.reset()
    return shared


def losses(panel):
    return np.stack([panel.plots["lines"].current(f"line {i}")["y"] for i in range(5)])


def surface(panel):
    return 10.0 ** panel.plots["plane"].current("losses")["z"]


def test_the_middle_is_the_net_as_it_was_trained(panel):
    for name in ("none", "layer", "batch"):
        panel.controls["normalizer"].value = name
        here = panel.plots["lines"].current("w")["y"][0]
        assert losses(panel)[:, 12] == pytest.approx(here)
        assert surface(panel)[10, 10] == pytest.approx(here)
        # of 400 cases in place of batches of 100
        assert here == pytest.approx(training_loss(panel.state), rel=0.05)


def test_dragging_the_weights_moves_batch_norm_only_if_its_statistics_are_frozen(panel):
    before = losses(panel)
    panel.controls["size"].value = 3.16
    # up to eps = 1e-5 against variances of about 1
    np.testing.assert_allclose(losses(panel), before, rtol=1e-3)
    panel.controls["statistics"].value = "recomputed"
    np.testing.assert_allclose(losses(panel), before, rtol=1e-3)
    panel.controls["statistics"].value = "frozen"
    assert panel.plots["lines"].current("w")["y"][0] > 1
    panel.controls["size"].value = 1.0
    assert losses(panel).max() > 2 * before.max()


def test_directions_that_stay_make_longer_weights_look_flat(panel):
    panel.state = Terrain("layer", size=1.0, lengths="stay")
    before = losses(panel)
    panel.controls["size"].value = 10.0
    assert losses(panel).max() < 0.2 * before.max()
    panel.controls["lengths"].value = "follow"
    np.testing.assert_allclose(losses(panel), before, rtol=1e-3)  # up to eps


def test_every_control_is_a_field_and_moves_the_panel(panel):
    changed = {
        "statistics": "frozen", "size": 2.0, "lengths": "stay", "extent": 0.5, "seed": 3,
        "normalizer": "rms",
    }  # fmt: skip
    assert set(changed) == set(panel.controls)
    for name, new in changed.items():
        command = panel.bar.command
        panel.controls[name].value = new
        assert getattr(panel.state, name) == new
        assert panel.bar.command != command
        assert panel.bar.error == ""
        assert panel.bar.sentence == sentence(panel.state)


def test_statistics_are_a_question_of_batch_norm_alone(panel):
    assert not panel.controls["statistics"].disabled
    panel.controls["normalizer"].value = "layer"
    assert panel.controls["statistics"].disabled
    one, other = (cuts(Terrain("layer", mode))[0] for mode in ("batch", "frozen"))
    assert torch.equal(one.losses, other.losses)


def test_the_plane_contains_the_first_line(panel):
    state = Terrain("layer", extent=1.0)
    line, ground = cuts(state)[0], plane(state)
    shared = [place for place in line.at[0].tolist() if place in ground.at[0].tolist()]
    assert len(shared) >= 4
    for place in shared:
        on_line = line.losses[line.at[0].tolist().index(place)]
        on_plane = ground.losses[ground.at[0].tolist().index(place), 10]
        assert float(on_line) == pytest.approx(float(on_plane))


def test_the_net_is_trained_once_and_left_alone():
    before = torch.get_rng_state()
    net = trained("batch")
    kept = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    rescaled("batch", 2.0), cuts(Terrain("batch", "recomputed", 2.0))
    assert trained("batch") is net
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in kept.items())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_command_brings_the_panel_back(panel):
    panel.state = Terrain("batch", "frozen", 2.0, "stay", 0.5, 3)
    *_, name, text = shlex.split(panel.bar.command)
    assert name == "panel"
    again = panels.landscape(**value(text))
    assert again.state == panel.state
    assert again.bar.sentence == panel.bar.sentence


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"normalizer": "ghost"}, "normalizer is 'ghost'"),
        ({"statistics": "stale"}, "statistics is 'stale'"),
        ({"size": 0.0}, "size is 0"),
        ({"lengths": "long"}, "lengths is 'long'"),
        ({"extent": 3.0}, "extent is 3"),
        ({"seed": 9}, "seed is 9"),
    ],
)
def test_what_makes_no_sense_does_not_start(wrong, says):
    with pytest.raises(ValueError, match=says):
        panels.landscape(**wrong)


def test_a_page_without_a_kernel_can_be_played_with(panel, monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    lines, ground = (bundle[PLOTLY] for bundle in panel.bundles())
    (slider,) = lines["layout"]["sliders"]
    assert [step["label"] for step in slider["steps"]] == ["batch", "frozen", "recomputed"]
    assert slider["active"] == 0
    assert "of the batch" in ground["layout"]["annotations"][0]["text"]
    assert len(json.dumps([lines, ground])) < 300_000
    assert lines["layout"]["title"]["text"].startswith("batch, W × 1,")


def test_a_frame_is_the_picture_of_its_statistics():
    state = Terrain()
    played: Any = still(state, True)[0]
    (frozen,) = [frame for frame in played.frames if frame.name == "frozen"]
    shown: Any = still(state.by("frozen"), False)[0]
    for place, trace in zip(frozen.traces, frozen.data, strict=True):
        np.testing.assert_array_equal(trace.y, np.float32(shown.data[place].y))
    low, high = played.layout.yaxis.range
    assert low <= np.log10(min(frozen.data[0].y)) <= np.log10(max(frozen.data[0].y)) <= high
