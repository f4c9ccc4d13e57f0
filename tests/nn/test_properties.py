"""Claim: nine properties of LayerNorm that hold for any numbers, with bounds derived from them.

``u`` is the unit roundoff, and kappa = 1 + max|a| / sqrt(var + eps) of a case: the relative
error of a - mu is about u kappa, as |a| may be far above sigma. A sum of H terms adds about
sqrt(H) roundings at random. So the bounds are 8 u sqrt(H) kappa; the worst seen in many more
examples than are run here is 2.1 u sqrt(H) kappa. No bound without kappa can hold: the units
of a case may be nearly equal.
"""

from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays
from torch.nn import functional as F

from lnlab.nn import LayerNorm

UNIT = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
any_numbers = settings(max_examples=100, deadline=None, derandomize=True)
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)

shapes = some.tuples(some.integers(1, 5), some.integers(2, 16))
# nearly equal ones too, but none whose square leaves float32
numbers = some.floats(-1000, 1000, width=32).map(lambda v: v if abs(v) > 1e-3 else 0.0)
cases = arrays.arrays("float64", shapes, elements=numbers).map(torch.from_numpy)
epsilons = some.sampled_from([1e-5, 1e-3, 1.0])
seeds = some.integers(0, 2**31)


class Affine(NamedTuple):
    g: torch.Tensor
    b: torch.Tensor


def layer_norm(a, eps, affine=None):
    """The reference, in the precision of ``a``."""
    norm = LayerNorm(a.shape[-1], eps=eps).to(a.dtype)
    if affine is not None:
        norm.load_state_dict(affine._asdict())
    return norm(a).detach()


def random_affine(H, seed):
    generator = torch.Generator().manual_seed(seed)
    return Affine(torch.randn(H, generator=generator), torch.randn(H, generator=generator))


def kappa(a, eps):
    a = a.double()
    sigma = (a.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return 1 + a.abs().amax(-1, keepdim=True) / sigma


def bound(a, eps, dtype=torch.float64):
    """B of every case, as a column."""
    return 8 * UNIT[dtype] * a.shape[-1] ** 0.5 * kappa(a, eps)


def assert_within(ours, theirs, allowed):
    missed = (ours.double() - theirs.double()).abs() - allowed
    assert (missed <= 0).all(), f"missed by {missed.max():.3g} of {allowed.max():.3g}"


@pytest.mark.parametrize("dtype", UNIT, ids=str)
@any_numbers
@given(a=cases, k=some.integers(-20, 20), eps=epsilons)
def test_power_of_two_is_removed_to_the_bit_with_its_eps(dtype, a, k, eps):
    if dtype is torch.float16:  # its range is narrow
        a, k = a / 1000, k % 14 - 3
    a = a.to(dtype)
    scaled = a * 2.0**k
    assume(torch.equal((scaled / 2.0**k), a))  # no underflow of the input
    assert torch.equal(layer_norm(scaled, eps * 4.0**k), layer_norm(a, eps))


@dtypes
@any_numbers
@given(a=cases, eps=epsilons)
def test_mean_is_zero_and_variance_nearly_one(dtype, a, eps):
    a = a.to(dtype)
    y = layer_norm(a, eps).double()
    var = a.double().var(1, correction=0)
    allowed = bound(a, eps, dtype)[:, 0]
    assert_within(y.mean(1), torch.zeros(len(a)), allowed)
    assert_within(y.var(1, correction=0), var / (var + eps), allowed)


@dtypes
@any_numbers
@given(a=cases, seed=seeds, eps=epsilons)
def test_reference_is_torchs(dtype, a, seed, eps):
    a = a.to(dtype)
    affine = random_affine(a.shape[1], seed)
    g, b = (v.to(dtype) for v in affine)
    theirs = F.layer_norm(a, a.shape[1:], g, b, eps)
    allowed = bound(a, eps, dtype) * g.abs().double() + 2 * UNIT[dtype] * theirs.abs()
    assert_within(layer_norm(a, eps, affine), theirs, allowed)


@dtypes
@any_numbers
@given(a=cases, seed=seeds, eps=epsilons)
def test_gradient_is_its_formula_and_sums_to_zero(dtype, a, seed, eps):
    a = a.to(dtype).requires_grad_()
    H = a.shape[1]
    norm, affine = LayerNorm(H, eps=eps).to(dtype), random_affine(H, seed)
    norm.load_state_dict(affine._asdict())
    direction = torch.randn(a.shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    da, db = torch.autograd.grad(norm(a), (a, norm.b), direction)  # type: ignore[arg-type]

    A, v = a.detach().double(), (direction * affine.g.to(dtype)).double()
    sigma = (A.var(1, correction=0, keepdim=True) + eps).sqrt()
    n = (A - A.mean(1, keepdim=True)) / sigma
    formula = (v - v.mean(1, keepdim=True) - n * (v * n).mean(1, keepdim=True)) / sigma
    allowed = bound(A, eps, dtype) * v.norm(dim=1, keepdim=True) / sigma
    assert_within(da, formula, allowed)
    assert_within(da.double().sum(1, keepdim=True), torch.zeros(len(a), 1), allowed)
    assert torch.equal(db, direction.sum(0))
