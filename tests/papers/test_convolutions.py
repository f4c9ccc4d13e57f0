"""Convolutional nets on pictures: their shapes, their oracles in torch, and bad pictures."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.data.images import Split
from lnlab.nn import Conv2d, Linear
from lnlab.papers.convolutions import (
    ARMS,
    NETS,
    PADDINGS,
    Experiment,
    ResidualBlock,
    convolution,
    placed,
)
from lnlab.training import train_steps
from lnlab.training.runs import read

SHAPE = (3, 32, 32)


def net(name="lenet", arm="layer", padding="zeros", shape=SHAPE):
    return NETS[name](shape, 10, ARMS[arm], padding)


@pytest.fixture
def cases():
    return torch.rand(3, 3 * 32 * 32)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("name", NETS)
def test_every_net_classifies_with_every_arm_and_padding(name, arm, padding, cases):
    model = net(name, arm, padding)
    assert model(cases).shape == (3, 10)
    assert model.of(Conv2d) + model.of(Linear) == list(model.rectified)
    assert model.logits.b_inside is not None


def test_a_lenet_without_normalization_is_torchs(cases):
    model = net(arm="none", padding="none")
    c1, c2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
    rest = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    ours = model.first, model.second, model.third, model.fourth, model.logits
    for theirs, layer in zip((c1, c2, *rest), ours, strict=True):
        nn.init.uniform_(layer.b_inside)
        theirs.load_state_dict({"weight": layer.W, "bias": layer.b_inside})
    x = (cases.view(3, *SHAPE) - 0.5) / 0.25
    h = F.max_pool2d(F.relu(c2(F.max_pool2d(F.relu(c1(x)), 2))), 2).flatten(1)
    expected = rest[2](F.relu(rest[1](F.relu(rest[0](h)))))
    torch.testing.assert_close(model(cases), expected)


@pytest.mark.parametrize("arm", ["layer", "batch", "group"])
def test_a_lenet_with_normalization_has_as_many_weights_as_torchs_with_it(arm):
    """83,126 with biases, of which a gain beside each of the 226 hidden biases."""
    assert sum(p.numel() for p in net(arm=arm, padding="none").parameters()) == 62_006 + 226


def test_a_resnet_8_has_seven_convolutions_and_their_weights():
    model = net("resnet8", "batch")
    convolutions = [part for part in model.modules() if isinstance(part, Conv2d)]
    assert len(convolutions) == 7
    weights = sum(layer.W.numel() for layer in convolutions)
    # 9 (3 16 + 2 16 16 + 16 32 + 32 32 + 32 64 + 64 64)
    assert weights == 9 * (48 + 512 + 512 + 1024 + 2048 + 4096)
    units = sum(len(layer.W) for layer in convolutions)
    assert sum(p.numel() for p in model.parameters()) == weights + 2 * units + 650


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("units", [4, 8])
def test_the_shortcut_passes_the_pixel_in_the_middle_of_what_the_kernels_read(units, padding):
    """With kernels that look at their middle only, a block gives f(x + f(x)) there."""
    block = ResidualBlock(4, units, ARMS["none"].convolutions, padding)
    with torch.no_grad():
        for layer in (block.first, block.second):
            layer.W.zero_()
            layer.W[range(4), range(4), 1, 1] = 1
    x = torch.rand(2, 4, 9, 9)
    h = block(x)
    stride, start = units // 4, 0 if padding != "none" else 1 + units // 4
    there = x[:, :, start::stride, start::stride][:, :, : h.shape[2], : h.shape[3]]
    torch.testing.assert_close(h[:, :4], 2 * there)
    assert not h[:, 4:].any()


def test_a_padded_convolution_keeps_the_size_and_no_padding_loses_the_edge():
    x = torch.rand(2, 3, 7, 9)
    for padding, shape in (("zeros", (7, 9)), ("reflection", (7, 9)), ("none", (3, 5))):
        layer = convolution(3, 4, 5, ARMS["layer"].convolutions, padding)
        assert layer(x).shape[2:] == shape


@pytest.mark.parametrize(
    ("name", "padding", "shape", "message"),
    [
        ("lenet", "none", (3, 16, 16), r"\(3, 16, 16\): a LeNet with padding 'none' needs 20"),
        ("lenet", "zeros", (7, 9), "LeNet with padding 'zeros' needs 8 x 8"),
        ("resnet8", "none", (28, 28), "ResNet-8 with padding 'none' needs 32 x 32"),
        ("resnet8", "zeros", (8, 8), "ResNet-8 with padding 'zeros' needs 16 x 16"),
    ],
)
def test_pictures_that_are_too_small_are_refused(name, padding, shape, message):
    with pytest.raises(ValueError, match=message):
        net(name, "none", padding, shape)


@pytest.mark.parametrize("name", NETS)
def test_the_smallest_pictures_that_are_taken_can_be_measured(name):
    for padding, side in (("zeros", 8 if name == "lenet" else 16), ("none", 20)):
        side = 32 if (name, padding) == ("resnet8", "none") else side
        model = net(name, "none", padding, (side, side))
        assert model(torch.rand(2, side * side)).shape == (2, 10)


def test_grey_pictures_do_as_well():
    digits = Experiment.budget("smoke", data="digits", train_size=0)
    dataset = digits.dataset()
    assert digits.model(0, dataset)(dataset.test.x[:2].double()).shape == (2, 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": "digits", "train_size": 100}, "digits has no option most"),
        ({"valid_size": 10}, "valid_size: pictures have a validation set of their own"),
        ({"architecture": "alexnet"}, "architecture is 'alexnet': choose from lenet, resnet8"),
        ({"padding": "same"}, "padding is 'same': choose from zeros, reflection, none"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Experiment.budget("smoke", **settings).dataset()


def test_units_are_compared_by_their_place():
    class Data:
        test = Split(torch.rand(5, 3072), torch.arange(5))

    found = placed(net(arm="none"), Data())
    assert set(found) == {
        "border_active", "center_active", "border_shift", "map_deviation", "dense_deviation",
    }  # fmt: skip
    assert 0 < found["border_active"] < 1
    assert "dense_deviation" not in placed(net("resnet8"), Data())


def test_it_learns_and_says_where_units_are_on(tmp_path):
    task = Experiment.budget("smoke", seeds=(0,), epochs=4)
    for _ in train_steps(task, root=tmp_path):
        pass
    (run,) = read(tmp_path)
    metrics = run.metrics()
    assert metrics.train_nll.iloc[-1] < metrics.train_nll.iloc[0] - 0.1
    assert metrics.border_active.notna().tolist() == (
        [True] + [False] * (len(metrics) - 2) + [True]
    )
