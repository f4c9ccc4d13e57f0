"""The panel of notebook 16, driven from Python as the page would drive it."""

import numpy as np
import pytest
import torch
from torch import nn

from lnlab import panels
from lnlab.panels.landscape_panel import LandscapeState, TrainedNetworks
from lnlab.papers.mnist import train_landscape_networks
from lnlab.training.random_state import default_dtype


@pytest.fixture(scope="module")
def networks():
    return TrainedNetworks(*train_landscape_networks())


@pytest.fixture(scope="module")
def shared():
    return panels.landscape(*train_landscape_networks())


@pytest.fixture
def panel(shared):
    """The panel as Reset leaves it, on no page."""
    shared.reset()
    return shared


def losses(panel):
    return np.stack([panel.plots["lines"].current(f"line {i}")["y"] for i in range(5)])


def stamps(panel):
    """What stands above the two pictures."""
    return [plot._layout["annotations"][0]["text"] for plot in panel.plots.values()]


def surface(panel):
    return 10.0 ** panel.plots["plane"].current("losses")["z"]


def test_the_middle_is_the_net_as_it_was_trained(panel, networks):
    for name in ("none", "layer", "batch"):
        panel.controls["normalizer"].value = name
        here = panel.plots["lines"].current("w")["y"][0]
        assert losses(panel)[:, 12] == pytest.approx(here)
        assert surface(panel)[10, 10] == pytest.approx(here)
        # of 400 cases in place of batches of 100
        assert here == pytest.approx(networks.training_loss(name), rel=0.05)


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


def test_statistics_are_a_question_of_batch_norm_alone(panel, networks):
    assert not panel.controls["statistics"].disabled
    assert all("Statistics over cases: of the batch." in words for words in stamps(panel))
    panel.controls["normalizer"].value = "layer"
    assert panel.controls["statistics"].disabled
    assert all("No statistics over cases." in words for words in stamps(panel))
    states = (LandscapeState("layer", mode) for mode in ("batch", "frozen"))
    one, other = (networks.cuts(state)[0] for state in states)
    assert torch.equal(one.losses, other.losses)


def test_axes_and_colours_stay_and_the_sentence_says_what_lies_outside(panel):
    axes = []
    for statistics in ("batch", "frozen"):
        for size in (1.0, 10.0):
            panel.state = LandscapeState("batch", statistics, size)
            lines, plane = (plot._layout for plot in panel.plots.values())
            surface = panel.plots["plane"].current("losses")
            ranges = lines["yaxis"]["range"], plane["scene"]["zaxis"]["range"]
            axes.append((*ranges, surface["cmin"], surface["cmax"]))
            outside = "What is above 100 nats lies outside the picture."
            far = (statistics, size) == ("frozen", 10.0)
            assert (outside in panel.bar.sentence) == far
            assert (outside in stamps(panel)[1]) == far
    assert all(each == axes[0] for each in axes)


def test_the_plane_contains_the_first_line(networks):
    state = LandscapeState("layer", extent=1.0)
    line, ground = networks.cuts(state)[0], networks.plane(state)
    shared = [place for place in line.at[0].tolist() if place in ground.at[0].tolist()]
    assert len(shared) >= 4
    for place in shared:
        on_line = line.losses[line.at[0].tolist().index(place)]
        on_plane = ground.losses[ground.at[0].tolist().index(place), 10]
        assert float(on_line) == pytest.approx(float(on_plane))


def test_the_networks_are_trained_once_alike_and_left_alone():
    before = torch.get_rng_state()
    given = train_landscape_networks()
    kept = {name: weights(network) for name, network in given[0].items()}
    assert panels.landscape(*given, statistics="recomputed", size=2.0).bar.error == ""
    assert train_landscape_networks() is given
    assert all(torch.equal(weights(given[0][name]), w) for name, w in kept.items())
    with default_dtype(torch.float32), torch.no_grad():
        again, *_ = train_landscape_networks.__wrapped__()
    assert all(torch.equal(weights(again[name]), w) for name, w in kept.items())
    assert torch.equal(torch.get_rng_state(), before)


def weights(network):
    return torch.cat([tensor.reshape(-1) for tensor in network.state_dict().values()]).clone()


X, Y = torch.linspace(-1, 1, 48).sin().view(12, 4), torch.arange(12) % 3


def network(seed, norm=nn.LayerNorm):
    """A network of somebody's, in float32."""
    torch.manual_seed(seed)
    parts = nn.Linear(4, 5), norm(5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3)
    return nn.Sequential(*parts).float()


def test_a_network_of_ones_own_is_copied_and_rescaled_but_for_its_last_layer():
    mine = network(0, nn.BatchNorm1d).requires_grad_(False)
    kept = [mine[place].weight.clone() for place in (0, 3, 5)]
    shown = TrainedNetworks({"mine": mine}, X, Y)
    mine[0].weight.zero_()
    longer = shown.rescaled("mine", 3.0)
    for place, factor, weight in zip((0, 3, 5), (3, 3, 1), kept, strict=True):
        assert torch.equal(longer[place].weight, factor * weight)
    assert torch.equal(longer[1].weight, mine[1].weight)


def test_statistics_over_cases_are_found_in_a_network_of_ones_own():
    mine = network(0, nn.BatchNorm1d)
    panel = panels.landscape({"mine": mine, "other": network(0)}, X, Y)
    assert not panel.controls["statistics"].disabled
    assert not mine[1].num_batches_tracked
    panel.controls["normalizer"].value = "other"
    assert panel.controls["statistics"].disabled


@pytest.mark.parametrize(
    ("given", "says"),
    [({}, "no networks: give one"), ({"mine": nn.Linear(4, 3)}, "mine has no hidden layer")],
)
def test_what_cannot_be_rescaled_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        panels.landscape(given, X, Y)
