"""Oracle: maps that are no rule for (mu, sigma) against the papers' formulas."""

import pytest
import torch

from lnlab.nn import AdaNorm, Derf, DyT, inside_root, outside_root


@pytest.mark.parametrize("correction", [0, 1], ids=["paper", "code"])
@pytest.mark.parametrize("root", [inside_root, outside_root])
def test_ada_norm_holds_its_factor_constant(correction, root, outcome):
    a = torch.randn(6, 8, requires_grad=True)
    norm = AdaNorm(8, C=2.0, k=0.2, eps=0.3, root=root, correction=correction)
    centred = a - a.mean(1, keepdim=True)
    var = centred.square().sum(1, keepdim=True) / (8 - correction)
    n = centred / ((var + 0.3).sqrt() if root is inside_root else var.sqrt() + 0.3)
    y = 2.0 * (1 - 0.2 * n.detach()) * n
    torch.testing.assert_close(outcome(norm(a), a=a), outcome(y, a=a), rtol=0, atol=1e-12)
    free = outcome(2.0 * (1 - 0.2 * n) * n, a=a)
    assert (free["a"] - outcome(norm(a), a=a)["a"]).abs().max() > 0.01


@pytest.mark.parametrize("space", [0, 2])
@pytest.mark.parametrize("kind", [DyT, Derf])
def test_functions_of_each_value_are_their_equations(kind, space, randomize, outcome):
    norm = randomize(kind(8, space=space))
    a = torch.randn(6, 8, *(3, 4)[:space], requires_grad=True)
    g, b = (v.reshape(-1, *(1,) * space) for v in (norm.g, norm.b))
    leaves = {"a": a, **dict(norm.named_parameters())}
    squashed = torch.tanh(norm.alpha * a) if kind is DyT else torch.erf(norm.alpha * a + norm.s)
    expected = outcome(g * squashed + b, **leaves)
    torch.testing.assert_close(outcome(norm(a), **leaves), expected, rtol=0, atol=1e-12)


def test_they_start_as_the_papers_say():
    a = torch.randn(6, 8)
    n = (a - a.mean(1, keepdim=True)) / (a.std(1, correction=0, keepdim=True) + 1e-5)
    torch.testing.assert_close(AdaNorm(8)(a), (1 - 0.1 * n) * n)
    half = torch.full((2, 8), 0.5)
    torch.testing.assert_close(DyT(8)(torch.ones(2, 8)), half.tanh())
    torch.testing.assert_close(Derf(8)(torch.ones(2, 8)), half.erf())
