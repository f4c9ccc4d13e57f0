"""Contract: the layers that own W."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.nn import NORMS, BatchNorm, Conv2d, Identity, LayerNorm, Linear, WeightNorm


@pytest.mark.parametrize("name", [name for name in NORMS if name != "instance"])
@pytest.mark.parametrize("bias_inside", [False, True])
def test_dense_layer_is_the_normalizer_of_its_summed_inputs(name, bias_inside):
    layer = Linear(5, 8, NORMS[name], bias=bias_inside)
    if layer.b_inside is not None:
        nn.init.uniform_(layer.b_inside, 1, 2)
    layer.eval()
    x = torch.randn(6, 5)
    a = F.linear(x, layer.norm.effective_weight(layer.W), layer.b_inside)
    torch.testing.assert_close(layer(x, 0), layer.norm(a, layer.W, 0))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(
    ("padding", "padding_mode"), [(0, "zeros"), (2, "zeros"), (2, "reflect")], ids=str
)
def test_convolution_without_normalization_is_torchs(
    stride, dilation, padding, padding_mode, outcome
):
    layer = Conv2d(
        3, 4, 3, partial(Identity, space=2), bias=True, stride=stride, dilation=dilation,
        padding=padding, padding_mode=padding_mode,
    )  # fmt: skip
    torchs = nn.Conv2d(3, 4, 3, stride, padding, dilation, padding_mode=padding_mode)
    torchs.load_state_dict({"weight": layer.W, "bias": layer.b_inside})
    x = torch.randn(2, 3, 7, 8, requires_grad=True)
    expected = outcome(torchs(x), x=x, W=torchs.weight, b=torchs.bias)
    torch.testing.assert_close(outcome(layer(x), x=x, W=layer.W, b=layer.b_inside), expected)


def test_first_weights_are_uniform_and_the_same_for_every_normalizer():
    weights = []
    for make in (Identity, LayerNorm, BatchNorm, NORMS["spectral"]):
        torch.manual_seed(3)
        layers = [Linear(400, 50, make), Linear(400, 50, make)]
        weights.append(torch.stack([layer.W.detach() for layer in layers]))
    assert all(torch.equal(W, weights[0]) for W in weights)
    assert 0.04999 < weights[0].abs().max() <= 0.05
    assert abs(weights[0].std() - 0.05 / 3**0.5) < 2e-4  # five standard errors


@pytest.mark.parametrize("norm", [WeightNorm, NORMS["weight, mean-only batch"]])
def test_weights_can_be_drawn_again_and_weight_norm_starts_as_the_plain_layer(norm):
    layer = Linear(5, 8, norm, bias=True).eval()
    x, first = torch.randn(6, 5), layer.W.detach().clone()
    nn.init.ones_(layer.b_inside)  # type: ignore[arg-type]
    layer.reset_parameters(torch.Generator().manual_seed(1))
    assert not torch.equal(layer.W, first)
    torch.testing.assert_close(layer(x), F.linear(x, layer.W))
    W = layer.W.detach().clone()
    layer.reset_parameters(torch.Generator().manual_seed(1))
    assert torch.equal(layer.W, W)


@pytest.mark.parametrize("norm_layer", ["LayerNorm", LayerNorm(16)])
def test_what_makes_no_norm_is_named(norm_layer):
    with pytest.raises(TypeError, match=r"norm_layer is .*: give a class or a function"):
        Linear(8, 16, norm_layer)
