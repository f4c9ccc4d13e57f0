"""Optimizers without torch's compiler are torch's, and do not import it."""

import subprocess
import sys

import pytest
import torch

from lnlab.training import optim

KINDS = {
    "Adam": {"fused": True},
    "AdamW": {"weight_decay": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9},
}
ALONE = """
import sys, torch
from lnlab.training.optim import Adam
w = torch.ones(3, requires_grad=True)
adam = Adam([w], fused=True)
w.square().sum().backward()
adam.step()
adam.zero_grad()
adam.load_state_dict(adam.state_dict())
print("torch._dynamo" in sys.modules)
"""


def trained(kind, settings, updates=6, stopped=3):
    """Parameters after some updates, the optimizer exchanged for a loaded one on the way."""
    generator = torch.Generator().manual_seed(0)
    w = [torch.randn(4, 3, generator=generator).requires_grad_() for _ in range(2)]
    steps, counted = kind(w, **settings), []
    for update in range(updates):
        if update == stopped:
            known = steps.state_dict()
            steps = kind(w, **settings)
            steps.load_state_dict(known)
            steps.register_step_post_hook(lambda *_: counted.append(1))
        steps.zero_grad()
        (w[0] * w[1]).sum().cos().backward()
        steps.step()
    return w, len(counted)


@pytest.mark.parametrize("name", KINDS)
def test_steps_are_torchs_to_the_last_bit_and_hooks_are_called(name):
    kind, torchs = getattr(optim, name), getattr(torch.optim, name)
    assert issubclass(kind, torchs)
    (ours, counted), (theirs, _) = (trained(k, KINDS[name]) for k in (kind, torchs))
    assert counted == 3
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not any(a.grad_fn for a in ours)


def test_the_compiler_is_not_imported():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
