"""The hot start: the numbers of the authors' code, and its very steps."""

import pytest
import torch

from lnlab.training import stack
from lnlab.training.optim import (
    adam_without_bias_correction_,
    before_step,
    clip_grad_norm_per_tensor_,
    uncorrected_step_ratio,
)


@pytest.mark.parametrize(
    ("t", "times"),
    [(1, 3.51), (2, 4.29), (5, 5.80), (10, 6.53), (13, 6.56), (20, 6.24), (50, 4.5),
     (100, 3.24), (1000, 1.26), (5000, 1.00)],
)  # fmt: skip
def test_steps_are_as_many_times_as_long(t, times):
    assert uncorrected_step_ratio(t) == pytest.approx(times, abs=0.006 if times < 4.5 else 0.05)


def authors(p, slopes, rate):
    """``optim.adam`` of ivendrov/order-embedding, line by line; its epsilon is another."""
    b1, b2, e = 0.1, 0.001, 0.0
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate(slopes, start=1):
        fix1, fix2 = 1 - b1**t, 1 - b2**t
        m = b1 * g + (1 - b1) * m
        v = b2 * g**2 + (1 - b2) * v
        p = p - rate * fix2**0.5 / fix1 * m / (v.sqrt() + e)
    return p


def test_it_takes_the_authors_steps():
    start, slopes = torch.randn(5), [torch.randn(5) for _ in range(30)]
    p = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([p], lr=0.01, eps=0)
    before_step(optimizer, adam_without_bias_correction_)
    for slope in slopes:
        optimizer.param_groups[0]["lr"] = 0.01  # as training sets it before each update
        p.grad = slope
        optimizer.step()
    torch.testing.assert_close(p.detach(), authors(start, slopes, 0.01))


@pytest.mark.parametrize("count", [1, 2])
def test_each_tensor_of_each_model_is_cut_by_itself(count):
    together = stack([torch.nn.Linear(4, 3) for _ in range(count)])
    optimizer = torch.optim.SGD(together.parameters(), lr=1.0)
    for p in together.parameters():
        p.grad = torch.randn_like(p)
        p.grad.view(count, -1)[-1] *= 1e-3 if count > 1 else 1
    before = [p.grad.clone().view(count, -1) for p in together.parameters()]
    clip_grad_norm_per_tensor_(optimizer, 0.5, count)
    for p, was in zip(together.parameters(), before, strict=True):
        rows = p.grad.view(count, -1)
        expected = was * (0.5 / was.norm(dim=1, keepdim=True)).clamp(max=1)
        torch.testing.assert_close(rows, expected, rtol=1e-5, atol=0)  # the 1e-6 below
