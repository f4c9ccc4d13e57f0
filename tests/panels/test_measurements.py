"""What the panels of geometry, recurrence, landscape, distributions and positions measure."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lnlab import panels
from lnlab.analysis.feature_maps import border_contrast, dimensionless_map_per_statistic
from lnlab.analysis.fisher import FAMILIES, fisher_metric, gain_metric
from lnlab.analysis.recorder import record
from lnlab.panels import geometry_panel
from lnlab.panels.landscape_panel import LandscapePanelSettings, RescalableNetworks
from lnlab.panels.positions_panel import PositionsPanelSettings
from lnlab.panels.recurrence_panel import make_cell
from lnlab.papers.mnist import train_landscape_networks
from tests.panels.given import feature_maps

NONE, LAYER, BATCH, WEIGHT = range(4)


def current(panel, trace, key="y"):
    """Return what a trace of a panel's first plot shows now."""
    return next(iter(panel.plots.values())).current_trace(trace)[key]


# Geometry.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", geometry_panel.NORMALIZERS)
def test_costs_are_the_curvatures_of_the_metric(name, family):
    state = (name, family, 0.5, 2.0, 4)
    glm = geometry_panel.random_glm(*state)
    gain = gain_metric(glm).sum() / 4
    turn, stretch = geometry_panel.weight_and_gain_kl_curvatures(*state)
    # the step of 1e-4 is small, the divergence of what is nearly the same has 8 digits
    assert stretch == pytest.approx(float(gain), rel=1e-2)
    F = fisher_metric(glm)
    D = glm.W.shape[1]
    trace = float(sum(F[i, d, i, d] for i in range(4) for d in range(D))) / (4 * D)
    assert trace / 10 < turn < 10 * trace  # one direction of 24


def test_more_units_bring_eq_13_closer_under_layer_norm_alone():
    few, many = (
        [
            geometry_panel.own_block_error_of_eq_13(n, "Gaussian", H)
            for n in geometry_panel.NORMALIZERS
        ]
        for H in (4, 16)
    )
    assert 2 < few[LAYER] / many[LAYER] < 10
    assert many[BATCH] < 1e-14
    assert many[WEIGHT] < 1e-14


# Recurrence.


def test_axes_stay_and_the_sentence_says_which_lines_leave_them():
    panel, ranges = panels.recurrence(steps=25), []
    for scale, low, high in ((0.1, 0, 1e-20), (10.0, 1e10, 1e40)):
        panel.controls["recurrent_weight_scale"].value = scale
        assert low <= current(panel, f"relative_gradient_rms {NONE}")[0] < high
        assert current(panel, f"hidden_rms {LAYER}")[-1] == pytest.approx(0.7, abs=0.05)
        layout = panel.plots["recurrence"]._layout
        ranges.append([layout[f"yaxis{axis}"]["range"] for axis in ("", "2", "3")])
        assert ("“none” leave the picture." in panel.footer.sentence) == (scale == 10.0)
    assert ranges[0] == ranges[1]


def test_a_cell_is_always_the_same_and_the_gain_is_that_of_the_recurrent_part():
    first, second = (make_cell("layer", "LSTM", 1.0, 1.0, 1.0) for _ in range(2))
    assert torch.equal(first.W_h, second.W_h)
    f, i = first.W_h.split(64)[:2]
    assert not torch.equal(f, i)
    cell: Any = make_cell("layer", "GRU", 1.0, 1.0, 0.1)
    gains = [norm.g[0].item() for norm in (cell.norm_h, cell.norm_U, cell.norm_x, cell.norm_W)]
    assert gains == [0.1, 0.1, 1.0, 1.0]


# Landscape.


@pytest.fixture(scope="module")
def networks():
    return RescalableNetworks(*train_landscape_networks())


def losses(panel):
    return np.stack([current(panel, f"line {i}") for i in range(5)])


def test_the_middle_is_the_network_as_it_was_trained(networks):
    panel = panels.landscape(*train_landscape_networks())
    for name in ("none", "layer", "batch"):
        panel.controls["network"].value = name
        middle = current(panel, "w")[0]
        assert losses(panel)[:, 12] == pytest.approx(middle)
        plane = 10.0 ** panel.plots["plane"].current_trace("losses")["z"]
        assert plane[10, 10] == pytest.approx(middle)
        # of 400 examples in place of batches of 100
        assert middle == pytest.approx(networks.loss_at_trained_weights(name), rel=0.05)
        assert panel.controls["statistics_source"].disabled == (name != "batch")


def test_larger_weights_change_batch_norm_only_if_its_statistics_are_frozen():
    panel = panels.landscape(*train_landscape_networks())
    panel.controls["network"].value = "batch"
    before = losses(panel)
    panel.controls["weight_scale"].value = 3.16
    for statistics in ("batch", "recomputed"):
        panel.controls["statistics_source"].value = statistics
        # up to eps = 1e-5 against variances of about 1
        np.testing.assert_allclose(losses(panel), before, rtol=1e-3)
    panel.controls["statistics_source"].value = "frozen"
    assert current(panel, "w")[0] > 1
    panel.controls["weight_scale"].value = 10.0
    assert "Losses above 100 nats are outside the picture." in panel.footer.sentence


def test_the_plane_contains_the_first_line_and_the_lines_differ(networks):
    line, other = networks.landscape_per_random_line(LandscapePanelSettings("layer"))[:2]
    plane = networks.losses_on_plane(LandscapePanelSettings("layer"))
    across, along = plane.coordinates[0], line.coordinates[0]
    shared = np.isclose(across[:, None], along[None], atol=1e-12).nonzero()
    assert len(shared[0]) >= 4
    for i, k in zip(*shared, strict=True):
        assert float(line.losses[k]) == pytest.approx(float(plane.losses[i, 10]))
    assert abs(float(line.losses[0] - other.losses[0])) > 1e-3


def test_a_users_network_is_copied_and_rescaled_but_for_its_last_layer():
    x, y = torch.linspace(-1, 1, 48).sin().view(12, 4), torch.arange(12) % 3
    parts = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 5), nn.Linear(5, 3)
    mine = nn.Sequential(*parts).float()
    before = [mine[index].weight.clone() for index in (0, 3, 4)]
    copied = RescalableNetworks({"mine": mine}, x, y)
    assert not panels.landscape({"mine": mine}, x, y).controls["statistics_source"].disabled
    assert not mine[1].num_batches_tracked
    nn.init.zeros_(mine[0].weight)
    longer = copied.rescale_hidden_weights("mine", 3.0)
    for index, factor, weight in zip((0, 3, 4), (3, 3, 1), before, strict=True):
        assert torch.equal(longer[index].weight, factor * weight)
    with pytest.raises(ValueError, match="mine has no hidden layer"):
        panels.landscape({"mine": nn.Linear(4, 3)}, x, y)


# Distributions and positions.


def test_layers_are_in_order_with_their_quantiles():
    """Of a network whose layers multiply by 1/2, and whose first one grows."""
    network: Any = nn.Sequential(*(nn.Linear(5, 5, bias=False).double() for _ in range(12)))
    x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(8, 5)
    with torch.no_grad(), record(network, what=["activations"], every=2) as recorder:
        for layer in network:
            layer.weight.copy_(0.5 * torch.eye(5, dtype=torch.float64))
        for _ in range(3):
            network(x)
            network[0].weight.mul_(2.0)
    frame: Any = recorder.to_frame()
    panel = panels.distributions({"deep": {"layer": frame}}, step=int(frame["step"].max()))
    at, high = current(panel, "wide 0", "x"), current(panel, "wide 0")
    np.testing.assert_array_equal(at[:12], np.arange(1.0, 13))
    np.testing.assert_allclose(high[1:12] / high[:11], 0.5)  # layer 10 behind layer 2
    assert panel.footer.sentence.endswith("layer 5e-4.")
    shown = frame.query("step == step.max()").sort_values("q95", ascending=False)
    for ribbon, low, high in (("wide", "q05", "q95"), ("half", "q25", "q75")):
        np.testing.assert_array_equal(
            current(panel, f"{ribbon} 0"), [*shown[high], *shown[low][::-1]]
        )


def test_every_state_shows_its_maps_on_one_scale_of_colours():
    measured = feature_maps()
    panel = panels.positions(measured)
    means = [
        dimensionless_map_per_statistic(each)
        for layers in measured.values()
        for each in layers.values()
    ]
    for (norm, padding, time), layers in measured.items():
        for layer, statistics in layers.items():
            panel.settings = PositionsPanelSettings(norm, padding, time, layer)
            for slot, (name, expected) in enumerate(
                dimensionless_map_per_statistic(statistics).items()
            ):
                np.testing.assert_array_equal(
                    current(panel, f"map {slot}", "z"), expected.numpy()
                )
                highest = max(float(each[name].max()) for each in means)
                assert current(panel, f"map {slot}", "zmax") == highest
            border = border_contrast(statistics)
            assert f"in {100 * border.border_active:.0f} % of pictures" in panel.footer.sentence
            assert (
                f"in {100 * border.center_active:.0f} % in the middle" in panel.footer.sentence
            )
    measured.pop(("none", "zeros", "after"))
    with pytest.raises(
        ValueError, match=r"14 maps of 16 were measured: each arm needs a map for each"
    ):
        panels.positions(measured)
