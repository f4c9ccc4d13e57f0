"""Each layer and norm in the place of torch's: the same network, state and gradients.

For recurrent layers see test_recurrent.py.
"""

import pytest
import torch
from torch import nn

import lnlab

B, T, D, H = 4, 5, 6, 8


def convolution(torchs_norm, our_norm):
    conv = lnlab.nn.Conv2d(
        D, H, 3, lambda units: lnlab.nn.Identity(units, space=2), padding=1, bias=True
    )
    return (
        nn.Sequential(nn.Conv2d(D, H, 3, padding=1), torchs_norm, nn.ReLU()),
        nn.Sequential(conv, our_norm, nn.ReLU()),
        (B, D, 7, 7),
    )


def dense(torchs_norm, our_norm, *cases):
    return (
        nn.Sequential(nn.Linear(D, H), torchs_norm, nn.Tanh(), nn.Linear(H, 3, bias=False)),
        nn.Sequential(
            lnlab.nn.Linear(D, H, bias=True), our_norm, nn.Tanh(), lnlab.nn.Linear(H, 3)
        ),
        (*(cases or (B,)), D),
    )


PAIRS = {
    "LayerNorm": dense(nn.LayerNorm(H, 1e-3), lnlab.nn.LayerNorm(H, 1e-3)),
    "LayerNorm of a sequence": dense(nn.LayerNorm([H]), lnlab.nn.LayerNorm([H]), B, T),
    "LayerNorm without bias": dense(
        nn.LayerNorm(H, bias=False), lnlab.nn.LayerNorm(H, bias=False)
    ),
    "LayerNorm, not affine": dense(
        nn.LayerNorm(H, 1e-5, False), lnlab.nn.LayerNorm(H, 1e-5, False)
    ),
    "RMSNorm": dense(nn.RMSNorm(H, 1e-3), lnlab.nn.RMSNorm(H, 1e-3)),
    "BatchNorm1d": dense(nn.BatchNorm1d(H, 1e-3, 0.3), lnlab.nn.BatchNorm(H, 1e-3, 0.3)),
    "BatchNorm2d": convolution(nn.BatchNorm2d(H), lnlab.nn.BatchNorm(H, space=2)),
    "GroupNorm": convolution(nn.GroupNorm(4, H), lnlab.nn.GroupNorm(4, H, space=2)),
    "InstanceNorm2d": convolution(
        nn.InstanceNorm2d(H, affine=True), lnlab.nn.InstanceNorm(H, affine=True)
    ),
    "Identity": dense(nn.Identity(), lnlab.nn.Identity(H)),
}


@pytest.mark.filterwarnings("ignore::lnlab.kernels.NotFusedWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_each_takes_the_place_of_torchs(name):
    theirs, ours, shape = PAIRS[name]
    theirs, ours = theirs.double(), ours.double()
    with torch.no_grad():
        for p in theirs.parameters():
            p.uniform_(-1, 1)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(shape, requires_grad=True)
    outcomes = []
    for net in (theirs, ours):
        y = net(x)
        outcomes.append((y, *torch.autograd.grad(y.square().sum(), x)))
    torch.testing.assert_close(*outcomes)
    for name, buffer in theirs.named_buffers():
        if "running" in name:
            torch.testing.assert_close(lnlab.nn.torch_state_dict(ours)[name], buffer)
    fused = lnlab.fuse(ours)
    for net in (ours, fused):
        theirs.load_state_dict(lnlab.nn.torch_state_dict(net))
    torch.testing.assert_close(theirs.eval()(x), ours.eval()(x))
    torch.testing.assert_close(theirs(x), fused.eval()(x))


def test_what_torch_does_not_have_is_refused():
    for module in (
        lnlab.nn.LSTM(D, H),
        nn.Sequential(lnlab.nn.LayerNorm(H, correction=1)),
        lnlab.nn.LayerNorm(H, root=lnlab.nn.outside_root),
        lnlab.nn.Linear(D, H, lnlab.nn.LayerNorm),
        lnlab.nn.AdaNorm(H),
    ):
        with pytest.raises(ValueError, match="no equal in torch"):
            lnlab.nn.torch_state_dict(module)
    with pytest.raises(ValueError, match="space=1 or 2"):
        lnlab.nn.LayerNorm((3, 7, 7))
    with pytest.raises(ValueError, match="space=2 for pictures"):
        lnlab.nn.BatchNorm(3)(torch.randn(2, 3, 7, 7))
