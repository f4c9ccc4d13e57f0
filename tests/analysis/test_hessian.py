"""Curvature by products alone is that of the dense Hessian, and keeps the law of scale."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.arguments import normal
from lnlab.analysis.hessian import density, ends, trace
from lnlab.analysis.objective import Objective
from lnlab.nn.table1 import Statistics

CURVES = torch.tensor([5.0, 3.0, 3.0, 1.0, 0.5, 0.0, -2.0], dtype=torch.float64)


class Itself(nn.Module):
    """w -> w, so that a loss of it is any function of w."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(w)

    def forward(self, x):
        return self.w


def quadratic(curves=CURVES):
    rotation = torch.linalg.qr(torch.randn(len(curves), len(curves))).Q
    A = rotation @ torch.diag(curves) @ rotation.T
    loss = lambda out, y: 0.5 * out @ A @ out + out.sum()  # noqa: E731
    w = Itself(torch.randn(len(curves)))
    return Objective(w, torch.ones(2), None, loss, statistics=Statistics.FROZEN)


def net(norm=nn.BatchNorm1d, statistics=Statistics.BATCH, dtype=None):
    module = nn.Sequential(nn.Linear(4, 5), norm(5), nn.Tanh(), nn.Linear(5, 3))
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    module(2 * x + 1)
    return Objective(module, x, y, F.cross_entropy, statistics=statistics, dtype=dtype)


def dense(objective) -> Any:
    return torch.autograd.functional.hessian(objective, objective.start)


@pytest.mark.parametrize("statistics", Statistics)
def test_ends_are_those_of_the_dense_hessian(statistics):
    objective = net(statistics=statistics)
    places, vectors = torch.linalg.eigh(dense(objective))
    found = ends(objective, 3, tolerance=1e-9)
    torch.testing.assert_close(found.largest, places[-3:].flip(0), rtol=0, atol=1e-8)
    assert found.least == pytest.approx(float(places[0]), abs=1e-8)
    overlap = (found.vectors @ vectors[:, -3:].flip(1)).abs()
    # an error of 1e-9 in the residual turns vectors by that, divided by their gap
    torch.testing.assert_close(overlap, torch.eye(3), rtol=0, atol=1e-6)


def test_errors_bound_how_far_the_nearest_eigenvalue_is():
    objective = net()
    places = torch.linalg.eigvalsh(dense(objective))
    for steps in (2, 4, 8, 12):
        found = ends(objective, 2, steps=steps, tolerance=0.0)
        assert found.products == steps
        for place, error in zip(found.largest, found.errors, strict=True):
            assert (places - place).abs().min() <= error + 1e-12
        assert (places - found.least).abs().min() <= found.least_error + 1e-12


def test_the_whole_space_gives_the_whole_spectrum():
    found = ends(quadratic(), len(CURVES), tolerance=0.0)
    torch.testing.assert_close(found.largest, CURVES, rtol=0, atol=1e-12)  # rounding


@pytest.mark.parametrize("curve", [0.0, 1.0])
def test_a_space_that_is_exhausted_at_once_goes_on(curve):
    curves = torch.full((4,), curve)
    found = ends(quadratic(curves), 4, tolerance=0.0)
    torch.testing.assert_close(found.largest, curves, rtol=0, atol=1e-12)  # rounding
    assert density(quadratic(curves), 2).mean == pytest.approx(curve, abs=1e-12)  # rounding


def test_trace_is_within_its_error():
    objective = net()
    found, expected = trace(objective, 400), float(dense(objective).trace())
    assert abs(found.mean - expected) < 4 * found.error  # four standard errors
    assert found.error < 0.2 * abs(expected)
    assert trace(quadratic(), 5).values.shape == (5,)


def test_the_trace_of_a_diagonal_needs_one_draw():
    A = torch.diag(CURVES)
    loss = lambda out, y: 0.5 * out @ A @ out  # noqa: E731
    w = Itself(torch.randn(len(CURVES)))
    objective = Objective(w, torch.ones(2), None, loss, statistics=Statistics.FROZEN)
    one = trace(objective, 1)
    assert one.mean == pytest.approx(float(CURVES.sum()))
    assert math.isnan(one.error)
    assert math.isnan(density(objective, 1).error)


def test_density_integrates_what_the_spectrum_does():
    objective = net()
    H = dense(objective)
    places = torch.linalg.eigvalsh(H)
    found = density(objective, 200, steps=12)
    torch.testing.assert_close(found.masses.sum(1), torch.ones(200))
    v = torch.stack([normal(0, number, len(H)) for number in range(200)])
    v = v / v.norm(dim=1, keepdim=True)
    # each draw's quadrature is exact of polynomials up to degree 2 * 12 - 1
    first, second = ((found.places**n * found.masses).sum(1) for n in (1, 2))
    torch.testing.assert_close(first, ((v @ H) * v).sum(1))
    torch.testing.assert_close(second, (v @ H).square().sum(1))
    assert abs(found.mean - float(places.mean())) < 4 * found.error
    assert found.error < 0.5 * abs(float(places.mean()))
    assert found.negative == pytest.approx(float((places < -1e-9).double().mean()), abs=0.1)


def test_density_of_a_quadratic_shows_its_places():
    found = density(quadratic(), 300)
    at = torch.linspace(-4, 7, 2201)
    blurred = found.on(at, 0.1)
    assert float(torch.trapezoid(blurred, at)) == pytest.approx(1, abs=1e-6)
    bells = torch.exp(-((at[:, None] - CURVES) / 0.1).square() / 2) / (0.1 * 6.283185307**0.5)
    # 300 draws: each eigenvalue has a mass of 1/7 within a tenth of that
    torch.testing.assert_close(blurred, bells.mean(1), rtol=0, atol=0.1)


class Scaled(nn.Module):
    """A layer whose loss does not see the length of W (statistics permitting)."""

    def __init__(self, norm, scale):
        super().__init__()
        self.linear = nn.Linear(4, 5, bias=False)
        self.norm, self.readout = norm, nn.Linear(5, 3)
        with torch.no_grad():
            self.linear.weight.mul_(scale)

    def forward(self, x):
        return self.readout(torch.tanh(self.norm(self.linear(x))))


@pytest.mark.parametrize(
    ("norm", "statistics", "quarters"),
    [
        (nn.LayerNorm, Statistics.FROZEN, True),
        (nn.BatchNorm1d, Statistics.BATCH, True),
        (nn.BatchNorm1d, Statistics.RECOMPUTED, True),
        (nn.BatchNorm1d, Statistics.FROZEN, False),
    ],
)
def test_doubling_what_has_no_scale_quarters_the_hessian(norm, statistics, quarters):
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    tops = []
    for scale in (1.0, 2.0):
        torch.manual_seed(1)
        module = Scaled(norm(5, eps=1e-300), scale)
        objective = Objective(
            module, x, y, F.cross_entropy, statistics=statistics, names=["linear.weight"]
        )
        tops.append(ends(objective, tolerance=1e-9).row())
    one, two = tops
    assert (two["largest"] == pytest.approx(one["largest"] / 4, rel=1e-6)) is quarters
    assert (two["spherical"] == pytest.approx(one["spherical"], rel=1e-6)) is quarters


def test_gradient_descent_is_stable_up_to_the_rate_it_says():
    objective = quadratic(torch.tensor([4.0, 1.0, 0.5]))
    rate = ends(objective).row()["largest_rate"]
    for factor, grows in ((0.98, False), (1.02, True)):
        w, slopes = objective.start.clone(), []
        for _ in range(300):
            _, g = objective.gradient(w)
            w = w - factor * rate * g
            slopes.append(float(g.norm()))
        assert (slopes[-1] > slopes[0]) is grows


def test_nothing_is_left_behind():
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).train()
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    objective = Objective(module, x, y, F.cross_entropy, statistics=Statistics.BATCH)
    for probe in (ends, partial(trace, draws=2), partial(density, draws=2, steps=5)):
        probe(objective)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[n], tensor) for n, tensor in module.state_dict().items())
    assert module.training
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


@pytest.fixture
def interrupted(monkeypatch):
    """Makes products with the Hessian end in an interrupt after so many."""

    def after(objective, count):
        real = objective.hessian_product

        def hessian_product(w=None):
            product, calls = real(w), []

            def counted(v):
                calls.append(1)
                if len(calls) > count:
                    raise KeyboardInterrupt
                return product(v)

            return counted

        monkeypatch.setattr(objective, "hessian_product", hessian_product)
        return objective

    return after


def test_an_interrupt_leaves_what_there_is(interrupted):
    with pytest.warns(UserWarning, match="interrupted: 4 products of at most 100"):
        assert ends(interrupted(net(), 4), 2).products == 4
    with pytest.warns(UserWarning, match="interrupted: 3 draws of 30"):
        assert len(trace(interrupted(net(), 3)).values) == 3
    with pytest.warns(UserWarning, match="interrupted: 2 draws of 9"):
        assert len(density(interrupted(net(), 11), 9, steps=5).places) == 2


@pytest.mark.parametrize("probe", [ends, trace, density])
def test_an_interrupt_before_there_is_anything_goes_on(interrupted, probe):
    with pytest.raises(KeyboardInterrupt):
        probe(interrupted(net(), 0))


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        return 2 * grads[0]


class Never(Once):
    @staticmethod
    def backward(ctx, *grads):
        if torch.is_grad_enabled():
            raise RuntimeError("no second derivative here")
        return 2 * grads[0]


def once(part=Once):
    loss = lambda out, y: part.apply(out).square().sum() + out.pow(4).sum()  # noqa: E731
    w = Itself(torch.ones(3))
    return Objective(w, torch.ones(2), None, loss, statistics=Statistics.FROZEN)


def overwritten():
    def loss(out, y):
        out = out.exp()
        power = out.exp()
        power.mul_(2)  # the way back of exp needs what it made
        return power.sum()

    w = Itself(torch.ones(3))
    return Objective(w, torch.ones(2), None, loss, statistics=Statistics.FROZEN)


def sharp():
    loss = lambda out, y: out.abs().pow(1.5).sum()  # noqa: E731
    w = Itself(torch.zeros(3))
    return Objective(w, torch.ones(2), None, loss, statistics=Statistics.FROZEN)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_where_every_direction_is_exhausted_at_once_others_are_drawn(size):
    found = ends(quadratic(torch.ones(size)), size)
    torch.testing.assert_close(found.largest, torch.ones(size))
    torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(size))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ends(net(), 0), "give a count of 1 to 53"),
        (lambda: ends(net(), 54), "give a count of 1 to 53"),
        (lambda: trace(net(), 0), "give 1 or more"),
        (lambda: density(net(), 0), "give 1 or more"),
        (lambda: ends(once()), "once and not twice"),
        (lambda: ends(overwritten()), "at all; nor can it be trained. one of the variables"),
        (lambda: trace(once(Never)), "no second derivative here"),
        (lambda: trace(sharp()), "not finite"),
        (lambda: ends(net(), w=torch.zeros(3)), r"give \(53,\)"),
    ],
)
def test_wrong_input_says_what_to_give(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_float32_is_enough_for_three_digits():
    tops = []
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(1)
        tops.append(ends(net(dtype=dtype)).row()["largest"])
    assert tops[1] == pytest.approx(tops[0], rel=2e-3)  # both are asked for to a thousandth
