"""What once was said falsely of architectures in use: each is told rightly."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lnlab.auditing import Severity, audit

FAULT, RISK, FACT = Severity


class Net(nn.Module):
    """A linear layer, layer norm, ReLU, and an output layer."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.out = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x, other=0):
        return self.out(self.norm(self.a(x)).relu() + other)


class Closure(Net):
    """A module whose forward calls a function that it keeps."""

    def __init__(self, keep=lambda body: body):
        super().__init__()
        self.body = keep(lambda x: self.norm(self.a(x)).relu())

    def forward(self, x):
        return self.out(self.body(x))


class Cached(Net):
    """A module that keeps what it computed in its first call."""

    cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = self.a(x).mean(0)
        return self.out(self.norm(self.a(x)) + self.cache)


def forward_of_instance():
    net = Net()
    net.forward = lambda x, other=0: net.out(net.norm(net.a(x)).relu() + other)
    return net


def messages(net, x=None, check=None, **arguments):
    """Return the rule and the message of each finding of one check."""
    x = torch.randn(16, 8) if x is None else x
    report = audit(net, x, checks=check, **arguments)
    assert not report.not_run, report.not_run
    return {f.rule: f.message for f in report.findings}


# The copy is the module.


@pytest.mark.parametrize(
    ("make", "inputs"),
    [(Closure, 1), (Cached, 1), (forward_of_instance, 1), (forward_of_instance, 2)],
)
def test_copies_of_functions_and_caches_are_their_own(make, inputs):
    x = tuple(torch.randn(16, 8) for _ in range(inputs))
    checks = ["parameters without effect", "invariances", "precision"]
    assert not {"parameter-unused", "precision-lost"} & {*messages(make(), x, checks)}


def test_a_graph_of_several_inputs_is_audited():
    net, x = torch.fx.symbolic_trace(Net()), (torch.randn(16, 8), torch.randn(16, 8))
    assert "weight-shift-unseen" in messages(net, x, "invariances")


def test_a_copy_that_runs_the_original_is_refused():
    with pytest.raises(ValueError, match=r"still uses a\.weight of the original"):
        audit(Closure(keep=partial(partial)), torch.randn(16, 8))


# A checkpointed module trains.


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_checkpointed_module_has_gradients_and_curvature(use_reentrant):
    class Checkpointed(Net):
        def forward(self, x):
            part = nn.Sequential(self.norm, nn.ReLU())
            return self.out(checkpoint(part, self.a(x), use_reentrant=use_reentrant))

    data = {"y": torch.randint(3, (16,)), "loss_fn": F.cross_entropy}
    checks = ["gradients over depth", "mu and sigma in the backward pass", "curvature"]
    assert {"gradient-of-statistics", "curvature"} <= {
        *messages(Checkpointed(), None, checks, **data)
    }
