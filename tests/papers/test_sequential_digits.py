"""Digits read as sequences: the gain, the order of the pixels, stacked seeds, resumption."""

import pytest
import torch

from lnlab.nn import LayerNorm, RecurrentBatchNorm
from lnlab.nn.recurrent import Recurrent
from lnlab.papers.sequential_digits import ARMS, Experiment
from lnlab.training import stack

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


@every_arm
def test_stacked_seeds_are_the_seeds_one_by_one(arm, digits):
    task = Experiment(preset="smoke", norm=arm)
    alone = [task.model(seed, digits).double() for seed in task.seeds]
    together = stack([task.model(seed, digits) for seed in task.seeds]).double()
    assert any(m.opaque for m in together.modules() if isinstance(m, Recurrent))
    x = digits.train.x[:12].double().expand(2, 12, 64)
    for _ in range(2):  # running statistics too
        ours = together(x)
        theirs = torch.stack([net(x[0]) for net in alone])
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)  # roundings
    ours.square().sum().backward()
    theirs.square().sum().backward()
    parameters = dict(together.module.named_parameters())
    buffers = dict(together.module.named_buffers())
    for index, net in enumerate(alone):
        for name, p in net.named_parameters():
            grad = parameters[name].grad[index]
            torch.testing.assert_close(grad, p.grad, rtol=1e-9, atol=1e-12)
        for name, buffer in net.named_buffers():
            torch.testing.assert_close(buffers[name][index], buffer)


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
    assert net.gradient_factor(digits.test.x[:7]) == pytest.approx(0.5**power, rel=1e-12)
    assert cell.W_h.dtype is torch.float32  # a copy was measured
