"""The backward pass, split into its paths: they add up, and obey the theorem about them."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.module_copy import BN_STATS
from lnlab.analysis.norm_gradients import gradient_norms, gradient_parts, record_norm_calls
from lnlab.analysis.objective import Objective
from tests.analysis.models import three_layers

B, D, H, CLASSES = 7, 4, 6, 3


def layer_norm(**settings) -> Any:
    return lnlab.nn.LayerNorm(H, eps=0.0, **settings)


def test_the_parts_are_those_of_the_closed_form():
    a, r = torch.randn(2, B, H)
    found = gradient_parts(layer_norm(), a, r)
    sigma = a.std(1, correction=0, keepdim=True)
    y = (a - a.mean(1, keepdim=True)) / sigma
    torch.testing.assert_close(found.direct, r / sigma)
    through_mu = -r.mean(1, keepdim=True) / sigma
    torch.testing.assert_close(found.through_mu, through_mu.expand(B, H))
    torch.testing.assert_close(found.through_sigma, -y * (r * y).mean(1, keepdim=True) / sigma)


@pytest.mark.parametrize(
    "make", [lnlab.nn.RMSNorm, lnlab.nn.WeightNorm, nn.LayerNorm, nn.BatchNorm1d]
)
def test_the_parts_add_up_to_the_gradient(make, randomize):
    norm, W = randomize(make(H)), torch.randn(H, D)
    a = (torch.randn(B, D) @ W.T).requires_grad_()
    r = torch.randn(B, H)
    y = norm(a, W) if isinstance(norm, lnlab.nn.Normalizer) else norm(a)
    (expected,) = torch.autograd.grad(y, a, r)
    torch.testing.assert_close(gradient_parts(norm, a, r, W).total, expected)


@pytest.mark.parametrize("norm", [lnlab.nn.LayerNorm, lnlab.nn.BatchNorm])
@pytest.mark.parametrize("what", ["nothing", "sigma", "mu", "mu and sigma"])
def test_parts_are_missing_where_statistics_are_constant(what, norm, randomize):
    class Detached(norm):
        def stats(self, a, W=None, t=None):
            stats = super().stats(a)._asdict().items()
            return lnlab.nn.MuSigma(*(s.detach() if name in what else s for name, s in stats))

    detached = randomize(Detached(H))
    plain = norm(H)
    plain.load_state_dict(detached.state_dict())
    a, r = torch.randn(2, B, H)
    (grad_h,) = torch.autograd.grad(detached(a.requires_grad_()), a, r)
    torch.testing.assert_close(
        grad_h, gradient_parts(plain, a, r).grad_a_by_detached_statistics()[what]
    )


def objective(module, **given):
    x, y = torch.randn(B, D), torch.randint(CLASSES, (B,))
    return Objective(module, x, y, F.cross_entropy, **{"bn_stats": "batch", **given})


@pytest.mark.parametrize("bn_stats", BN_STATS)
def test_the_parts_are_those_with_the_statistics_of_the_objective(bn_stats):
    module = three_layers(lnlab.nn.BatchNorm, D, H, CLASSES)
    module(torch.randn(B, D) * 3 + 1)  # what is remembered is something else
    found = objective(module, bn_stats=bn_stats)
    total = record_norm_calls(found, ["2.norm"])["2.norm"].parts.total
    inside = nn.Parameter(torch.zeros(B, H))
    copied: Any = copy.deepcopy(found.module)
    copied[2].norm.register_forward_pre_hook(lambda _, args: (args[0] + inside, *args[1:]))
    if bn_stats == "recomputed":
        lnlab.nn.recompute_statistics(copied, [found.x]).eval()
    (expected,) = torch.autograd.grad(F.cross_entropy(copied(found.x), found.y), inside)
    torch.testing.assert_close(total, expected)


def test_torch_s_layer_norm_can_be_looked_at_and_each_of_its_calls():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(D, D), nn.LayerNorm(D)

        def forward(self, x):
            self.first = self.norm(self.inner(x))
            return self.norm(2 * self.first.tanh())

    found: Any = objective(Twice())
    first, second = (
        record_norm_calls(found, ["norm"], call_index=n)["norm"].parts.total for n in (0, 1)
    )
    a = found.module.inner(found.x).detach().requires_grad_()
    y = found.module.norm(2 * found.module.norm(a).tanh())
    (expected,) = torch.autograd.grad(F.cross_entropy(y, found.y), a)
    torch.testing.assert_close(first, expected)
    assert not torch.allclose(first, second)
    assert not record_norm_calls(found, ["norm"], call_index=2)


def test_norms_of_gradients_are_autograd_s():
    module = three_layers(lnlab.nn.LayerNorm, D, H, CLASSES)
    found = objective(module)
    F.cross_entropy(module(found.x), found.y).backward()
    for name, size in gradient_norms(found).items():
        assert size == pytest.approx(module.get_parameter(name).grad.norm().item())
