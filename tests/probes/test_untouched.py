"""After any probe, raised or not, the module and all random numbers are as they were."""

import random
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lnlab import norms
from lnlab.norms.invariances import Statistics
from lnlab.probes.directions import random_directions
from lnlab.probes.hessian import density, ends, trace
from lnlab.probes.landscape import band, between, surface
from lnlab.probes.objective import Objective
from lnlab.probes.smoothness import smoothness, steps

PROBES = {
    "value": lambda o: o.value(),
    "gradient": lambda o: o.gradient(),
    "smoothness": lambda o: smoothness(o, steps(0.1)),
    "surface": lambda o: surface(o, points=3),
    "plain surface": lambda o: surface(o, points=3, fast=False),
    "band": lambda o: band(o, 2, points=3),
    "between": lambda o: between(o, o.start + random_directions(o, 1)[0], points=3),
    "ends": lambda o: ends(o, steps=4),
    "trace": lambda o: trace(o, 2),
    "density": lambda o: density(o, 1, steps=3),
    "refused": lambda o: surface(o, torch.ones(2, 3)),
}
NORMS = {
    "batch": nn.BatchNorm1d,
    "our batch": norms.BatchNorm,
    "layer": nn.LayerNorm,
    "batch layer": lambda H: norms.BatchLayerNorm(H),
    "renorm": norms.BatchRenorm,
}


class Breaks(nn.Module):
    """Raises at its call of that number."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise ArithmeticError("broken")
        return x


def made(norm, at):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), NORMS[norm](5), Breaks(0), nn.Tanh(), nn.Linear(5, 3))
    net(torch.randn(9, 4) + 1)
    net[2].at, net[2].calls = at, 0
    net[4].weight.requires_grad_(requires_grad=False)
    net[0].weight.grad = torch.randn(5, 4)
    net.register_forward_hook(lambda *_: None)
    net[1].register_forward_pre_hook(lambda *_: None)
    return net


def everything(net):
    """All that a probe must leave alone, to be compared."""
    tensors = [*net.state_dict().items(), ("grad", net[0].weight.grad)]
    parts = [
        (part.training, len(part._forward_hooks), len(part._forward_pre_hooks))
        for part in net.modules()
    ]
    kept = [(p.requires_grad, p.grad is None, p._version) for p in net.parameters()]
    numpy = np.random.get_state()  # noqa: NPY002
    return (
        {name: tensor.tolist() for name, tensor in tensors}, parts, kept, net[2].calls,
        torch.get_rng_state().tolist(), random.getstate(), numpy[1].tolist(),
        torch.is_grad_enabled(), torch.get_default_dtype(),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    probe=st.sampled_from(sorted(PROBES)),
    norm=st.sampled_from(sorted(NORMS)),
    statistics=st.sampled_from(Statistics),
    training=st.booleans(),
    at=st.integers(0, 14),
)
def test_a_probe_leaves_everything_as_it_was(probe, norm, statistics, training, at):
    net = made(norm, at).train(training)
    x, y = torch.randn(9, 4), torch.randint(3, (9,))
    before = everything(net)
    raised = (ArithmeticError, ValueError) if at or probe == "refused" else ()
    with suppress(*raised):
        PROBES[probe](Objective(net, x, y, F.cross_entropy, statistics=statistics))
    assert everything(net) == before


def test_the_comparison_would_see_a_trace():
    net = made("batch", 0)
    before = everything(net)
    net.eval()(torch.randn(2, 4))
    assert everything(net) != before
    net = made("batch", 0)
    net[1].running_mean.add_(1)
    assert everything(net) != before


@pytest.mark.parametrize("at", [1, 4])
def test_breaking_modules_do_break(at):
    net, x, y = made("batch", at), torch.randn(9, 4), torch.randint(3, (9,))
    with pytest.raises(ArithmeticError, match="broken"):
        surface(Objective(net, x, y, F.cross_entropy, statistics=Statistics.BATCH), points=3)
