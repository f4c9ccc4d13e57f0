"""The panel of notebook 16, driven from Python as the page would drive it."""

import json

import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.nn.table1 import Statistics
from lnlab.panels.landscape_panel import (
    LandscapeState,
    cuts,
    drawn,
    look,
    plane,
    rescaled,
    trained,
    training_loss,
)
from lnlab.panels.panel import PLOTLY


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


def stamps(panel):
    """What stands above the two pictures, drawn anew and moved."""
    anew = [figure.layout.annotations for figure in drawn(panel.state).values()]
    view = look(panel.state)
    moved = [view.drawings["lines"].layout, view.late["plane"]().layout]
    return [notes[0]["text"] for notes in anew + [each["annotations"] for each in moved]]


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
    panel.state = LandscapeState("layer", size=1.0, lengths="stay")
    before = losses(panel)
    panel.controls["size"].value = 10.0
    assert losses(panel).max() < 0.2 * before.max()
    panel.controls["lengths"].value = "follow"
    np.testing.assert_allclose(losses(panel), before, rtol=1e-3)  # up to eps


def test_statistics_are_a_question_of_batch_norm_alone(panel):
    assert not panel.controls["statistics"].disabled
    assert all("Statistics over cases: of the batch." in words for words in stamps(panel))
    panel.controls["normalizer"].value = "layer"
    assert panel.controls["statistics"].disabled
    assert all("No statistics over cases." in words for words in stamps(panel))
    one, other = (cuts(LandscapeState("layer", mode))[0] for mode in ("batch", "frozen"))
    assert torch.equal(one.losses, other.losses)


def test_axes_and_colours_stay_and_the_sentence_says_what_lies_outside(panel):
    seen = []
    for statistics in ("batch", "frozen"):
        for size in (1.0, 10.0):
            state = LandscapeState("batch", statistics, size)
            view, lines = look(state), drawn(state)["lines"]
            scene = drawn(state)["plane"].layout.scene
            surface = drawn(state)["plane"].data[0]
            seen.append([lines.layout.yaxis.range, scene.zaxis.range, surface.cmax])
            outside = "What is above 100 nats lies outside the picture."
            far = (statistics, size) == ("frozen", 10.0)
            assert (outside in view.sentence) == far
            assert (outside in view.late["plane"]().layout["annotations"][0]["text"]) == far
    assert all(each == seen[0] for each in seen)


def test_the_plane_contains_the_first_line(panel):
    state = LandscapeState("layer", extent=1.0)
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
    rescaled("batch", 2.0), cuts(LandscapeState("batch", "recomputed", 2.0))
    assert trained("batch") is net
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in kept.items())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_page_without_a_kernel_can_be_played_with(panel, monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    lines, ground = (bundle[PLOTLY] for bundle in panel.bundles())
    (slider,) = lines["layout"]["sliders"]
    assert [step["label"] for step in slider["steps"]] == [mode.value for mode in Statistics]
    assert slider["active"] == 0
    assert "of the batch" in ground["layout"]["annotations"][0]["text"]
    assert len(json.dumps([lines, ground])) < 300_000
    assert lines["layout"]["title"]["text"].startswith("batch, W × 1,")
