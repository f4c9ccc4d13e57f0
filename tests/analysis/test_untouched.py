"""After any probe, raised or not, the module and all random numbers are as they were."""

import random
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.covariate_shift import covariate_shift
from lnlab.analysis.effective_learning_rate import Turning, scale_invariant
from lnlab.analysis.fisher import Divergence
from lnlab.analysis.hessian import density, ends, trace
from lnlab.analysis.loss_landscape import band, between, random_directions, surface
from lnlab.analysis.norm_gradients import gradient_norms, gradient_parts, microscope
from lnlab.analysis.objective import Objective
from lnlab.analysis.recorder import record
from lnlab.analysis.smoothness import smoothness, steps
from lnlab.nn.table1 import Statistics

OF_A_LOSS = {
    "value": lambda o: o.value(),
    "gradient": lambda o: o.gradient(),
    "smoothness": lambda o: smoothness(o, steps(0.1)),
    "surface": lambda o: surface(o, points=3),
    "band": lambda o: band(o, 2, points=3),
    "between": lambda o: between(o, o.start + random_directions(o, 1)[0], points=3),
    "ends": lambda o: ends(o, steps=4),
    "trace": lambda o: trace(o, 2),
    "density": lambda o: density(o, 1, steps=3),
    "refused": lambda o: surface(o, torch.ones(2, 3)),
    "shift": lambda o: covariate_shift(o, 1.1 * o.start),
    "microscope": lambda o: microscope(o, "1"),
    "gradient norms": gradient_norms,
}
OF_A_MODULE = {
    "fisher, predicted": lambda net, x, s: divergence(net, x, s).predicted(torch.ones(P)),
    "fisher, happened": lambda net, x, s: divergence(net, x, s).happened(torch.ones(P)),
    "fisher, product": lambda net, x, s: divergence(net, x, s).fisher_product()(torch.ones(P)),
    "scale-invariant": lambda net, x, s: scale_invariant(net, x),
    "gradient parts": lambda net, x, s: gradient_parts(
        net[1], x[:, [0, 1, 2, 3, 0]], torch.eye(9)[:, :5]
    ),
}
PROBES = OF_A_LOSS | OF_A_MODULE
P = 20 + 5 + 10 + 3
"""Parameters of the net below that are trained."""


def divergence(net, x, statistics):
    return Divergence(net, x, statistics=statistics)


def probed(probe, net, x, y, statistics):
    if probe in OF_A_MODULE:
        return OF_A_MODULE[probe](net, x, statistics)
    return OF_A_LOSS[probe](Objective(net, x, y, F.cross_entropy, statistics=statistics))


NORMS = {
    "batch": nn.BatchNorm1d,
    "our batch": lnlab.nn.BatchNorm,
    "layer": nn.LayerNorm,
    "batch layer": lambda H: lnlab.nn.BatchLayerNorm(H),
    "renorm": lnlab.nn.BatchRenorm,
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


def made(norm, at) -> Any:
    torch.manual_seed(0)
    net: Any = nn.Sequential(
        nn.Linear(4, 5), NORMS[norm](5), Breaks(0), nn.Tanh(), nn.Linear(5, 3)
    )
    net(torch.randn(9, 4) + 1)
    net[2].at, net[2].calls = at, 0
    net[4].weight.requires_grad = False
    net[0].weight.grad = torch.randn(5, 4)
    net.register_forward_hook(lambda *_: None)
    net[1].register_forward_pre_hook(lambda *_: None)
    return net


def everything(net, *, places=True):
    """All that a probe must leave alone, to be compared; where it stands in memory, too."""
    numpy: Any = np.random.get_state()  # noqa: NPY002
    return {
        "tensors": {name: v.tolist() for name, v in net.state_dict().items()},
        "slopes": [None if p.grad is None else p.grad.tolist() for p in net.parameters()],
        "places": [v.data_ptr() for v in net.state_dict().values()] if places else None,
        "versions": [(p.requires_grad, p._version) for p in net.parameters()],
        "modes": [part.training for part in net.modules()],
        "hooks": [
            (
                len(part._forward_hooks), len(part._forward_pre_hooks),
                len(part._backward_hooks), len(part._backward_pre_hooks),
            )
            for part in net.modules()
        ],
        "hooks of tensors": [
            bool(p._backward_hooks or p._post_accumulate_grad_hooks) for p in net.parameters()
        ],
        "calls": net[2].calls,
        "random": (torch.get_rng_state().tolist(), random.getstate(), numpy[1].tolist()),
        "settings": (torch.is_grad_enabled(), torch.get_default_dtype()),
    }  # fmt: skip


@pytest.mark.parametrize("probe", PROBES)
@settings(max_examples=8, deadline=None)
@given(
    norm=st.sampled_from(sorted(NORMS)),
    statistics=st.sampled_from(Statistics),
    training=st.booleans(),
    at=st.integers(0, 14),
)
def test_a_probe_leaves_everything_as_it_was(probe, norm, statistics, training, at):
    net = made(norm, at).train(training)
    x, y = torch.randn(9, 4), torch.randint(3, (9,))
    before = everything(net)
    with suppress(*raised(probe, norm, statistics, at)):
        probed(probe, net, x, y, statistics)
    assert everything(net) == before


def raised(probe, norm, statistics, at):
    """What may be raised; nothing else may."""
    found = [ArithmeticError, ValueError] if at or probe == "refused" else []
    if probe in ("microscope", "gradient parts") and norm in ("batch", "batch layer", "renorm"):
        found.append(TypeError)  # no rule for (mu, sigma)
    if probe.startswith("fisher") and statistics is Statistics.RECOMPUTED:
        found.append(ValueError)
    return found


def train(net, optimizer, x, y):
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("norm", NORMS)
def test_a_training_that_is_listened_to_leaves_what_it_leaves_alone(norm, at):
    """Of those that listen: whatever the module itself did, they have added nothing."""
    x, y = torch.randn(9, 4), torch.randint(3, (9,))
    left = []
    for listens in (True, False):
        net = made(norm, at)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(3)
        with ExitStack() as stack, suppress(*([ArithmeticError] if at in (1, 2, 3) else [])):
            if listens:
                what = ("activations", "gradients", "parameters")
                seen = record(net, what=what, also=["drift", "rank", "cosine"], every=2)
                stack.enter_context(seen)
                stack.enter_context(Turning(net, optimizer, {}))
            train(net, optimizer, x, y)
        hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        assert not any(hooks)
        left.append(everything(net, places=False))
    heard, alone = left
    assert heard == alone


def test_the_comparison_would_see_a_trace():
    net = made("batch", 0)
    before = everything(net)
    net.eval()(torch.randn(2, 4))
    assert everything(net) != before
    net = made("batch", 0)
    net[1].get_buffer("running_mean").add_(1)
    assert everything(net) != before


@pytest.mark.parametrize("at", [1, 4])
def test_breaking_modules_do_break(at):
    net, x, y = made("batch", at), torch.randn(9, 4), torch.randint(3, (9,))
    with pytest.raises(ArithmeticError, match="broken"):
        surface(Objective(net, x, y, F.cross_entropy, statistics=Statistics.BATCH), points=3)
