"""Gradients of models side by side are cut one by one."""

import pytest
import torch

from lnlab.training import stack
from lnlab.training.optim import clip_grad_norm_


def test_gradients_are_cut_model_by_model():
    models = [torch.nn.Linear(4, 3) for _ in range(2)]
    together = stack(models)
    optimizer = torch.optim.SGD(together.parameters(), lr=1.0)
    for p in together.parameters():
        p.grad = torch.randn_like(p)
        p.grad[1] *= 1e-3
    before = [p.grad.clone() for p in together.parameters()]
    clip_grad_norm_(optimizer, 1.0, models=2)
    norms = (
        torch.stack([p.grad.flatten(1).square().sum(1) for p in together.parameters()])
        .sum(0)
        .sqrt()
    )
    assert float(norms[0]) == pytest.approx(1, rel=1e-5)
    for p, was in zip(together.parameters(), before, strict=True):
        assert torch.equal(p.grad[1], was[1])  # short enough
