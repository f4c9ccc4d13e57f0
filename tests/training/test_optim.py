"""Optimizers are torch's without its compiler; gradients are clipped model by model."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from lnlab.training import optim, stack
from lnlab.training.optim import (
    call_before_each_step,
    clip_by_sqrt_of_norm_,
    clip_grad_norm_,
    clip_grad_norm_per_tensor_,
    uncorrected_step_ratio,
    undo_bias_correction_in_lr_,
)

SETTINGS = {
    "Adam": {"fused": True},
    "AdamW": {"weight_decay": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_are_torchs_to_the_last_bit(name):
    parameters = []
    for kind in (getattr(optim, name), getattr(torch.optim, name)):
        generator = torch.Generator().manual_seed(0)
        w = [torch.randn(4, 3, generator=generator).requires_grad_() for _ in range(2)]
        optimizer = kind(w, **SETTINGS[name])
        for update in range(6):
            if update == 3:  # a loaded optimizer goes on
                state = optimizer.state_dict()
                optimizer = kind(w, **SETTINGS[name])
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            (w[0] * w[1]).sum().cos().backward()
            optimizer.step()
        parameters.append(w)
    assert all(map(torch.equal, *parameters))


def test_the_compiler_is_not_imported():
    code = """
import sys, torch
from lnlab.training.optim import Adam
w = torch.ones(3, requires_grad=True)
adam = Adam([w], fused=True)
w.square().sum().backward()
adam.step(), adam.zero_grad(), adam.load_state_dict(adam.state_dict())
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def reader_scale(parameters, max_norm):
    """Scale as the published attentive reader does: by the root of a norm that is too long."""
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
    for p in parameters:
        p.grad *= max_norm / norm.sqrt() if norm > max_norm else 1


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("clip", "reference", "each"),
    [
        (clip_grad_norm_, nn.utils.clip_grad_norm_, False),
        (clip_grad_norm_per_tensor_, nn.utils.clip_grad_norm_, True),
        (clip_by_sqrt_of_norm_, reader_scale, False),
    ],
)
def test_gradients_are_clipped_model_by_model(clip, reference, each, count):
    models = [nn.Linear(4, 3) for _ in range(count)]
    together = stack(models)
    for p in together.parameters():
        p.grad = torch.randn_like(p)
        p.grad.view(count, -1)[1:] *= 1e-3  # short enough
    for index, model in enumerate(models):
        for p, stacked in zip(model.parameters(), together.parameters(), strict=True):
            p.grad = stacked.grad.view(count, *p.shape)[index].clone()
        parameters = [*model.parameters()]
        for group in [[p] for p in parameters] if each else [parameters]:
            reference(group, 0.5)
    clip(torch.optim.SGD(together.parameters()), 0.5, count)
    for p, *ones in zip(together.parameters(), *(m.parameters() for m in models), strict=True):
        expected = torch.stack([one.grad for one in ones])
        # torch adds 1e-6 below, as we do
        torch.testing.assert_close(p.grad.view_as(expected), expected, rtol=1e-5, atol=0)


def published_steps(p, grads, rate):
    """``optim.adam`` of ivendrov/order-embedding, line by line; its epsilon is another."""
    b1, b2, e = 0.1, 0.001, 0.0
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate(grads, start=1):
        fix1, fix2 = 1 - b1**t, 1 - b2**t
        m = b1 * g + (1 - b1) * m
        v = b2 * g**2 + (1 - b2) * v
        p = p - rate * fix2**0.5 / fix1 * m / (v.sqrt() + e)
    return p


def test_adam_without_bias_correction_takes_the_published_steps():
    start, grads = torch.randn(5), [torch.randn(5) for _ in range(30)]
    p = nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([p], lr=0.01, eps=0)
    call_before_each_step(optimizer, undo_bias_correction_in_lr_)
    for grad in grads:
        optimizer.param_groups[0]["lr"] = 0.01  # as training sets it before each update
        p.grad = grad
        optimizer.step()
    torch.testing.assert_close(p.detach(), published_steps(start, grads, 0.01))
    ratios = [uncorrected_step_ratio(t) for t in (1, 13, 5000)]
    assert ratios == pytest.approx([3.51, 6.56, 1.00], abs=0.006)
