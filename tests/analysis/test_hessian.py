"""Curvature by products alone is that of the dense Hessian, and keeps the law of scale."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.hessian import extreme_eigenvalues, hessian_spectrum, hessian_trace
from lnlab.analysis.objective import Objective
from lnlab.analysis.random import normal
from tests.analysis.models import loss_of_w

CURVES = torch.tensor([5.0, 3.0, 3.0, 1.0, 0.5, 0.0, -2.0], dtype=torch.float64)


def quadratic(curves=CURVES, *, turned=True):
    A, P = torch.diag(curves), len(curves)
    if turned:
        Q = torch.linalg.qr(torch.randn(P, P)).Q
        A = Q @ A @ Q.T
    return loss_of_w(lambda out, y: 0.5 * out @ A @ out + out.sum(), torch.randn(P))


def net(bn_stats: Any = "batch", dtype=None):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    model(2 * x + 1)
    return Objective(model, x, y, F.cross_entropy, bn_stats=bn_stats, dtype=dtype)


def dense(objective) -> Any:
    return torch.autograd.functional.hessian(objective, objective.start)


@pytest.mark.parametrize("bn_stats", ["batch", "running"])
def test_extreme_eigenvalues_are_those_of_the_dense_hessian(bn_stats):
    objective = net(bn_stats)
    values, vectors = torch.linalg.eigh(dense(objective))
    found = extreme_eigenvalues(objective, count=3, tolerance=1e-9)
    torch.testing.assert_close(found.largest, values[-3:].flip(0), rtol=0, atol=1e-8)
    assert found.smallest == pytest.approx(float(values[0]), abs=1e-8)
    overlap = (found.largest_eigenvectors @ vectors[:, -3:].flip(1)).abs()
    # an error of 1e-9 in the residual turns vectors by that, divided by their gap
    torch.testing.assert_close(overlap, torch.eye(3), rtol=0, atol=1e-6)
    assert found.to_frame()["eigenvalue"].tolist() == [*found.largest, found.smallest]


def test_errors_are_residuals_which_bound_how_far_the_nearest_eigenvalue_is():
    objective = net()
    H = dense(objective)
    for steps in (2, 4, 8, 12):
        found = extreme_eigenvalues(objective, count=2, steps=steps, tolerance=0.0)
        assert found.product_count == steps
        residuals = (
            found.largest_eigenvectors @ H - found.largest[:, None] * found.largest_eigenvectors
        ).norm(dim=1)
        torch.testing.assert_close(found.largest_errors, residuals, rtol=1e-6, atol=1e-12)
        nearest = (torch.linalg.eigvalsh(H) - found.smallest).abs().min()
        assert nearest <= found.smallest_error + 1e-12


@pytest.mark.parametrize("curves", [CURVES, torch.zeros(4), torch.ones(4)])
def test_the_whole_space_gives_the_whole_spectrum(curves):
    objective = quadratic(curves.double())  # one that is exhausted at once goes on
    found = extreme_eigenvalues(objective, count=len(curves), tolerance=0.0)
    torch.testing.assert_close(found.largest, curves.double(), rtol=0, atol=1e-12)  # rounding
    torch.testing.assert_close(
        found.largest_eigenvectors @ found.largest_eigenvectors.T, torch.eye(len(curves))
    )


def test_trace_and_spectrum_integrate_what_the_eigenvalues_do():
    objective = net()
    H = dense(objective)
    trace = hessian_trace(objective, draws=100)
    assert abs(trace.mean - float(H.trace())) < 4 * trace.standard_error
    assert trace.standard_error < 0.4 * abs(float(H.trace()))
    found = hessian_spectrum(objective, draws=50, steps=12)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(50))
    v = torch.stack([normal(0, number, len(H)) for number in range(50)])
    v = v / v.norm(dim=1, keepdim=True)
    # each draw's quadrature is exact of polynomials up to degree 2 * 12 - 1
    first, second = ((found.nodes**n * found.weights).sum(1) for n in (1, 2))
    torch.testing.assert_close(first, ((v @ H) * v).sum(1))
    torch.testing.assert_close(second, (v @ H).square().sum(1))
    assert found.standard_error == pytest.approx(float(first.std()) / 50**0.5)
    negative = float((torch.linalg.eigvalsh(H) < -1e-9).double().mean())
    for steps in (4, 12, 40):
        bounds = hessian_spectrum(objective, draws=50, steps=steps).negative_fraction_bounds
        assert bounds[0] < negative < bounds[1]


def test_density_of_a_quadratic_shows_its_eigenvalues():
    found = hessian_spectrum(quadratic(), draws=100)
    at = torch.linspace(-4, 7, 2201)
    blurred = found.density(at, 0.1)
    assert float(torch.trapezoid(blurred, at)) == pytest.approx(1, abs=1e-6)
    bells = torch.exp(-((at[:, None] - CURVES) / 0.1).square() / 2) / (0.1 * 6.283185307**0.5)
    # 100 draws: each eigenvalue has a mass of 1/7 within a fifth of that
    torch.testing.assert_close(blurred, bells.mean(1), rtol=0, atol=0.2)
    assert found.plot().data[0].y.max() == pytest.approx(float(blurred.max()), rel=0.5)


class Scaled(nn.Module):
    """A layer whose loss does not depend on the length of W (statistics permitting)."""

    def __init__(self, norm, scale):
        super().__init__()
        self.linear = nn.Linear(4, 5, bias=False)
        self.norm, self.readout = norm, nn.Linear(5, 3)
        with torch.no_grad():
            self.linear.weight.mul_(scale)

    def forward(self, x):
        return self.readout(torch.tanh(self.norm(self.linear(x))))


@pytest.mark.parametrize(
    ("norm", "bn_stats", "quarters"),
    [
        (nn.LayerNorm, None, True),
        (nn.BatchNorm1d, "batch", True),
        (nn.BatchNorm1d, "running", False),
    ],
)
def test_doubling_what_has_no_scale_quarters_the_hessian(norm, bn_stats, quarters):
    given = torch.randn(30, 4), torch.randint(3, (30,)), F.cross_entropy
    found = []
    for scale in (1.0, 2.0):
        torch.manual_seed(1)
        model, params = Scaled(norm(5, eps=1e-300), scale), ["linear.weight"]
        objective = Objective(model, *given, bn_stats=bn_stats, params=params)
        found.append(extreme_eigenvalues(objective, tolerance=1e-9).summary())
    one, two = found
    assert (two["largest"] == pytest.approx(one["largest"] / 4, rel=1e-6)) is quarters
    assert (two["scale_free"] == pytest.approx(one["scale_free"], rel=1e-6)) is quarters


@pytest.mark.parametrize(("curvatures", "ratio"), [((4.0, 1.0), 0.0), ((4.0, -1.0), 0.25)])
def test_only_a_negative_eigenvalue_has_a_negative_ratio(curvatures, ratio):
    objective = quadratic(torch.tensor(curvatures, dtype=torch.float64))
    found = extreme_eigenvalues(objective).summary()
    assert found["negative_ratio"] == pytest.approx(ratio, abs=1e-9)


def hand_made_hessian(objective, h=1e-5):
    """The Hessian by differences of gradients, which no second derivative enters."""
    w = objective.start
    steps = h * torch.eye(len(w)).to(w)
    rows = [objective.gradient(w + s)[1] - objective.gradient(w - s)[1] for s in steps]
    return torch.stack(rows) / (2 * h)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
@pytest.mark.parametrize(
    "weight_norm", [nn.utils.parametrizations.weight_norm, nn.utils.weight_norm]
)
def test_the_curvature_of_torchs_weight_norm_is_that_of_its_formula(weight_norm):
    model = nn.Sequential(weight_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 3))
    objective = Objective(model, torch.randn(20, 4), torch.randint(3, (20,)), F.cross_entropy)
    H = hand_made_hessian(objective)
    found = extreme_eigenvalues(objective, tolerance=1e-9)
    expected = torch.linalg.eigvalsh((H + H.T) / 2)
    assert float(found.largest[0]) == pytest.approx(float(expected[-1]), rel=1e-6)
    assert found.smallest == pytest.approx(float(expected[0]), rel=1e-6)


class WrongSecondDerivative(torch.autograd.Function):
    """The sum of v squared, with a gradient whose derivative is not symmetric."""

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v.square().sum()

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        return grad * (2 * v + (v.roll(1) - v.roll(1).detach()))


def test_a_second_derivative_that_is_not_symmetric_is_refused():
    objective = loss_of_w(lambda out, y: WrongSecondDerivative.apply(out), torch.randn(9))
    with pytest.raises(ValueError, match=r"is not symmetric .* no Hessian"):
        extreme_eigenvalues(objective)
    with pytest.raises(ValueError, match="is not symmetric"):
        hessian_spectrum(objective, steps=8)


def test_recomputed_statistics_whose_derivative_is_not_computed_are_refused():
    objective = net("recomputed")
    for analysis in (extreme_eigenvalues, hessian_trace, hessian_spectrum):
        with pytest.raises(ValueError, match="has no derivative here: give"):
            analysis(objective)
