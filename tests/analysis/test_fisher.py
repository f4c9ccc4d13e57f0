"""The Fisher metric of linear models and of networks, against its definition (eq. 9).

The printed equations are tested with the claims, in tests/papers/claims/test_equations.py.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, Normal, kl_divergence
from torch.func import functional_call
from torch.nn import functional as F

from lnlab.analysis.fisher import (
    BERNOULLI,
    CATEGORICAL,
    GAUSSIAN,
    GLM,
    actual_divergence,
    error_of_eq_13,
    fisher_information,
    fisher_metric,
    predicted_divergence,
)
from lnlab.nn import BatchNorm, Identity, LayerNorm, Linear, RMSNorm, WeightNorm

NORMS = [Identity, LayerNorm, BatchNorm, WeightNorm]
H, D, B = 3, 4, 5
SCALED = replace(GAUSSIAN, phi=0.7)


def glm(norm, family=BERNOULLI, units=H, inputs=D, cases=B):
    g = None if norm is Identity else 0.5 + torch.rand(units)
    return GLM(
        torch.randn(units, inputs), torch.randn(cases, inputs), norm, family,
        torch.randn(units), g,
    )  # fmt: skip


def outcomes(family, h):
    """Every y and its probability (case by case): all there are, or a quadrature.

    A Gaussian's two points of Gauss and Hermite are exact for what is quadratic in y.
    """
    if family is CATEGORICAL:
        for unit in range(h.shape[1]):
            yield torch.eye(h.shape[1])[unit].expand_as(h), h.softmax(-1)[:, unit]
        return
    for signs in product((0.0, 1.0), repeat=h.shape[1]):
        y = torch.tensor(signs).expand_as(h)
        if family is BERNOULLI:
            yield y, torch.where(y > 0, h.sigmoid(), (-h).sigmoid()).prod(-1)
        else:
            y = h + family.phi**0.5 * (2 * y - 1)
            yield y.detach(), torch.full(h.shape[:1], 0.5 ** h.shape[1])


def by_definition(model):
    """Eq. 9, an outcome at a time: the squared slopes of log P, weighed by P."""
    theta, family = model.theta.requires_grad_(), model.family
    total: Any = 0.0
    with torch.no_grad():
        all_outcomes = list(outcomes(family, model.h))
    for y, P in all_outcomes:
        for case in range(len(y)):
            h = model.natural_parameters(theta)[case]
            (score,) = torch.autograd.grad(
                (h @ y[case] - family.log_partition(h)) / family.phi, theta
            )
            total = total + P[case] * torch.einsum("ik,jl->ikjl", score, score) / len(y)
    return total


@pytest.mark.parametrize("family", [SCALED, BERNOULLI, CATEGORICAL], ids=lambda f: f.name)
@pytest.mark.parametrize("norm", NORMS)
def test_the_metric_is_its_definition(norm, family):
    model = glm(norm, family)
    torch.testing.assert_close(fisher_metric(model), by_definition(model))


def test_under_layer_norm_eq_13_is_off_by_one_over_h():
    """Derived: a foreign w_i moves output k by -(1 + ĥ_k ĥ_i)/H as much as its own."""
    gaps = {
        units: error_of_eq_13(glm(LayerNorm, GAUSSIAN, units, inputs=8, cases=64))
        for units in (8, 64)
    }
    assert gaps[8].own_block_error > 0.03
    assert gaps[8].relative_cross_block_size > 0.1
    for small, large in zip(gaps[8], gaps[64], strict=True):
        assert 4 < small / large < 16  # 8, up to what is random in W and x
    assert error_of_eq_13(glm(BatchNorm, GAUSSIAN)).own_block_error < 1e-14
    assert error_of_eq_13(glm(WeightNorm, GAUSSIAN)).relative_cross_block_size < 1e-14


@pytest.mark.parametrize(
    ("norm", "free"),
    [
        (Identity, set()), (WeightNorm, {"W", "w_1"}), (BatchNorm, {"W", "w_1"}),
        (LayerNorm, {"W", "shift"}), (RMSNorm, {"W"}),
    ],
)  # fmt: skip
def test_steps_along_an_invariance_cost_nothing(norm, free):
    model = glm(norm)
    F, W = fisher_metric(model), model.W
    for name, change in {"W": W, "w_1": W * torch.eye(len(W))[:, :1], "shift": W[:1]}.items():
        step = torch.zeros_like(model.theta)
        step[:, :D] = change
        predicted, happened = predicted_divergence(F, step), actual_divergence(model, step)
        for ds in (predicted, happened):
            assert abs(ds) < 1e-14 if name in free else ds > 1e-3


def test_divergences_are_torch_s():
    h, moved = torch.randn(2, B, H)
    theirs = {
        SCALED: lambda h: Independent(Normal(h, SCALED.phi**0.5), 1),
        BERNOULLI: lambda h: Independent(Bernoulli(logits=h), 1),
        CATEGORICAL: lambda h: Categorical(logits=h),
    }
    for family, made in theirs.items():
        expected = kl_divergence(made(h), made(moved))
        torch.testing.assert_close(family.kl(h, moved), expected)


# Networks: products with F.


def theirs(norm: Any = nn.LayerNorm) -> Any:
    return nn.Sequential(nn.Linear(D, 6), norm(6), nn.Tanh(), nn.Linear(6, H))


def ours(norm: Any = LayerNorm) -> Any:
    return nn.Sequential(Linear(D, 6, norm), nn.ReLU(), Linear(6, H, bias=True))


def of_network(model, x):
    """Eq. 9: the squared slopes of log P of every class, weighed by P."""
    total, parameters = torch.zeros(()), list(model.parameters())
    for case in range(len(x)):
        for unit in range(H):
            log_P = F.log_softmax(model(x), -1)[case, unit]  # of all cases: batch norm
            score = torch.cat([s.reshape(-1) for s in torch.autograd.grad(log_P, parameters)])
            total = total + log_P.exp().detach() * torch.outer(score, score) / len(x)
    return total


@pytest.mark.parametrize("bn_stats", ["batch", "running"])
@pytest.mark.parametrize(
    "make", [theirs, partial(theirs, nn.BatchNorm1d), ours, partial(ours, BatchNorm)]
)
def test_products_are_those_of_the_definition(make, bn_stats):
    model, x = make(), torch.randn(B, D)
    found = fisher_information(model, x, bn_stats=bn_stats)
    dense = of_network(model.train(bn_stats == "batch"), x)
    torch.testing.assert_close(found.matrix(), dense)
    v = torch.randn(len(found.start), 2)
    torch.testing.assert_close(found.product()(v), dense @ v)


def test_a_large_step_costs_torch_s_divergence_from_here_to_there():
    model, x = theirs(), torch.randn(B, D)
    found = fisher_information(model, x)
    assert found.value() == 0
    delta = torch.randn_like(found.start)
    # of a small step the next term of the expansion is of the step's size
    predicted = found.predicted_divergence(1e-4 * delta)
    assert found.actual_divergence(1e-4 * delta) == pytest.approx(predicted, rel=5e-3)
    here = Categorical(logits=model(x))
    there = Categorical(
        logits=functional_call(model, found.unflatten(found.start + delta), (x,))
    )
    forth, back = (kl_divergence(*pair).mean() for pair in ((here, there), (there, here)))
    assert found.actual_divergence(delta) == pytest.approx(forth.item())
    assert abs(forth / back - 1) > 0.01  # the other way round it is another one


@pytest.mark.parametrize("family", [CATEGORICAL, BERNOULLI, GAUSSIAN, SCALED])
def test_traces_are_those_of_the_blocks(family):
    found = fisher_information(theirs(), torch.randn(B, D), family=family)
    diagonal = found.matrix().diagonal()
    expected = [float(diagonal[place].sum()) for place in found.slices().values()]
    assert [*found.traces(draws=2000).values()] == pytest.approx(expected, rel=0.15)
    frame = found.to_frame()
    assert frame["parameter"].tolist() == found.names
    assert (frame["trace"] > 0).all()
    assert ((frame["trace"] - expected).abs() < 4 * frame["standard error"]).all()
    assert list(found.plot().data[0].customdata) == found.names


def test_what_has_no_fisher_information_is_refused():
    with pytest.raises(ValueError, match='"batch", which are statistics of x too'):
        fisher_information(theirs(nn.BatchNorm1d), torch.ones(B, D), bn_stats="recomputed")
    with pytest.raises(ValueError, match=r"delta has shape \(3,\)"):
        fisher_information(theirs(), torch.ones(B, D)).predicted_divergence(torch.ones(3))
