"""Covariate shift is what definition 2.1 says, gradient by gradient."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.internal_covariate_shift import (
    covariate_shift,
    parameter_names_by_layer_weight,
)
from lnlab.analysis.objective import Objective
from tests.analysis.models import three_layers

B, D, H, CLASSES = 12, 5, 6, 3


def batch():
    return torch.randn(B, D), torch.randint(CLASSES, (B,))


def objective(module, x, y):
    return Objective(module, x, y, F.cross_entropy, bn_stats="batch")


def stepped(module, x, y, rate=0.5):
    """The module after one step of gradient descent."""
    moved = copy.deepcopy(module)
    F.cross_entropy(moved(x), y).backward()
    with torch.no_grad():
        for p in moved.parameters():
            p -= rate * p.grad
    return moved


def gradient(module, x, y, layer):
    grads = torch.autograd.grad(F.cross_entropy(module(x), y), list(layer.parameters()))
    return torch.cat([g.flatten() for g in grads])


@pytest.mark.parametrize("norm", [lnlab.nn.LayerNorm, lnlab.nn.BatchNorm, lnlab.nn.WeightNorm])
def test_the_shift_is_that_of_two_nets_built_by_hand(norm):
    module, (x, y) = three_layers(norm), batch()
    moved = stepped(module, x, y)
    found = objective(module, x, y)
    shifts = covariate_shift(found, after=found.flatten(list(moved.parameters())))
    assert [s.first_parameter for s in shifts] == ["0.W", "2.W", "4.W"]
    for shift, layer in zip(shifts, (0, 2, 4), strict=True):
        below = copy.deepcopy(module)
        for lower in range(0, layer, 2):
            below[lower] = copy.deepcopy(moved[lower])
        G, shifted = (gradient(m, x, y, m[layer]) for m in (module, below))
        assert shift.distance == pytest.approx(float((G - shifted).norm()), abs=1e-15)
        assert shift.relative_distance == pytest.approx(shift.distance / float(G.norm()))
        assert shift.cosine == pytest.approx(float(F.cosine_similarity(G, shifted, dim=0)))
    assert shifts[0][1:3] == (0, 0)
    assert shifts[2].distance > 1e-4


class Backwards(nn.Module):
    """Names first what it calls last, and a part that it never calls."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(H, CLASSES)
        self.middle = nn.MultiheadAttention(H, 2, batch_first=True)
        self.first = nn.Linear(D, H)

    def forward(self, x):
        h = self.first(x).tanh().unsqueeze(1)
        return self.last(self.middle(h, h, h, need_weights=False)[0].squeeze(1))


def test_layers_stand_in_the_order_of_their_calls():
    module, (x, y) = Backwards(), batch()
    found = objective(module, x, y)
    assert list(parameter_names_by_layer_weight(found)) == [
        "first.weight", "middle.in_proj_weight", "middle.out_proj.weight", "last.weight"
    ]  # fmt: skip
    moved = dict(stepped(module, x, y).named_parameters())
    shifts = covariate_shift(found, after=found.flatten([moved[name] for name in found.names]))
    assert shifts[0][1:3] == (0, 0)
    assert all(shift.distance > 1e-6 for shift in shifts[1:])
    assert not any(part._forward_pre_hooks for part in found.module.modules())
