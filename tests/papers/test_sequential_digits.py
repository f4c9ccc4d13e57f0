"""Digits read as sequences: the gain, the order of the pixels, stacked seeds, resumption."""

import pytest
import torch

from lnlab.nn import LayerNorm, RecurrentBatchNorm
from lnlab.papers.sequential_digits import ARMS, Experiment

every_arm = pytest.mark.parametrize("arm", ARMS)


@pytest.fixture(scope="module")
def digits():
    return Experiment(preset="smoke").dataset()


def test_every_normalizer_starts_with_the_gain(digits):
    for arm, kind in (("layer", LayerNorm), ("batch", RecurrentBatchNorm)):
        net = Experiment(preset="smoke", norm=arm, gain=0.3).model(0, digits)
        gains = [module.g for module in net.modules() if isinstance(module, kind)]
        assert len(gains) == 3  # eq. 20 and 22
        assert all((g == 0.3).all() for g in gains)


@every_arm
def test_the_pixels_are_read_in_their_order(arm, digits):
    net = Experiment(preset="smoke", norm=arm, fused=False).model(0, digits).double().eval()
    x = digits.test.x[:5].double()
    state = None
    for row in x.unflatten(1, (8, 8)).unbind(1):
        y, state = net.layer.unroll(net.layer.cells[0], row[None], state)
    if arm != "batch":  # which counts its steps from the start of a call
        torch.testing.assert_close(net(x), net.readout(y[0]), rtol=0, atol=1e-13)  # rounding
    assert not torch.equal(net(x), net(x.flip(1)))


def test_wrong_fields_are_named(digits):
    with pytest.raises(ValueError, match=r"units is .*: give a tuple of 1"):
        Experiment(units=(8, 8))
    with pytest.raises(ValueError, match="pixels_per_step is 7: it must divide the 64"):
        Experiment(pixels_per_step=7).model(0, digits)


@pytest.mark.parametrize("power", [1, 2])
def test_the_gradient_factor_of_a_scaled_identity_is_its_scale(power, digits):
    net = Experiment(preset="smoke", norm="none", cell="rnn").model(0, digits)
    cell = net.float().layer.cells[0]
    for p in cell.parameters():
        p.data.zero_()
    cell.W_h.data.copy_(0.5**power * torch.eye(len(cell.W_h)))  # tanh has slope 1 at 0
    assert net.gradient_growth_per_step_back(digits.test.x[:7]) == pytest.approx(
        0.5**power, rel=1e-12
    )
    assert cell.W_h.dtype is torch.float32  # a copy was measured
