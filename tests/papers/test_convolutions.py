"""Convolutional networks: their oracles in torch, their sizes, and units by position."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.data.dataset import Split
from lnlab.nn import Conv2d, Linear
from lnlab.papers.convolutions import (
    ARMS,
    NETS,
    PADDINGS,
    ResidualBlock,
    border_and_loss_contribution_metrics,
)

SHAPE = (3, 32, 32)


def make_net(name="lenet", arm="layer", padding="zeros", shape=SHAPE):
    return NETS[name](shape, 10, ARMS[arm], padding)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("name", NETS)
def test_every_network_classifies_with_every_arm_and_padding(name, arm, padding):
    net = make_net(name, arm, padding)
    assert net(torch.rand(3, 3 * 32 * 32)).shape == (3, 10)
    layers = net.names_of_layers_before_relu(Conv2d) + net.names_of_layers_before_relu(Linear)
    assert layers == list(net.layer_names_before_relu)
    assert net.logits.b_inside is not None


def test_a_lenet_without_normalization_is_torchs():
    net = make_net(arm="none", padding="none")
    c1, c2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
    rest = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    ours = net.first, net.second, net.third, net.fourth, net.logits
    for theirs, layer in zip((c1, c2, *rest), ours, strict=True):
        nn.init.uniform_(layer.b_inside)
        theirs.load_state_dict({"weight": layer.W, "bias": layer.b_inside})
    pixels = torch.rand(3, 3 * 32 * 32)
    x = (pixels.view(3, *SHAPE) - 0.5) / 0.25
    h = F.max_pool2d(F.relu(c2(F.max_pool2d(F.relu(c1(x)), 2))), 2).flatten(1)
    expected = rest[2](F.relu(rest[1](F.relu(rest[0](h)))))
    torch.testing.assert_close(net(pixels), expected)


def test_networks_have_as_many_parameters_as_torchs():
    # 226 hidden units, each with a gain beside its bias
    assert sum(p.numel() for p in make_net(padding="none").parameters()) == 62_006 + 226
    net = make_net("resnet8", "batch")
    convolutions = [module for module in net.modules() if isinstance(module, Conv2d)]
    # 9 (3 16 + 2 16 16 + 16 32 + 32 32 + 32 64 + 64 64)
    weights = 9 * (48 + 512 + 512 + 1024 + 2048 + 4096)
    assert [layer.W.shape[-1] for layer in convolutions] == [3] * 7
    units = sum(len(layer.W) for layer in convolutions)
    assert sum(p.numel() for p in net.parameters()) == weights + 2 * units + 650


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("units", [4, 8])
def test_the_shortcut_is_aligned_with_the_middle_of_the_kernels(units, padding):
    """With kernels that pass their middle pixel, a block gives f(x + f(x)) there."""
    block = ResidualBlock(4, units, ARMS["none"].convolutions, padding)
    with torch.no_grad():
        for layer in (block.first, block.second):
            layer.W.zero_()
            layer.W[range(4), range(4), 1, 1] = 1
    x = torch.rand(2, 4, 9, 9)
    h = block(x)
    stride, start = units // 4, 0 if padding != "none" else 1 + units // 4
    middle = x[:, :, start::stride, start::stride][:, :, : h.shape[2], : h.shape[3]]
    torch.testing.assert_close(h[:, :4], 2 * middle)
    assert not h[:, 4:].any()


def test_units_are_compared_by_their_position():
    class Data:
        test = Split(torch.rand(5, 3072), torch.arange(5))

    metrics = border_and_loss_contribution_metrics(make_net(arm="none"), Data())
    names = {"border_active", "center_active", "border_shift", "map_deviation"}
    assert {*metrics} == names | {"dense_deviation"}
    assert 0 < metrics["border_active"] < 1
    assert {*border_and_loss_contribution_metrics(make_net("resnet8"), Data())} == names
