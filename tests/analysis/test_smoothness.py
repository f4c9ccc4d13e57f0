"""Smoothness along the gradient, against closed forms and its own laws."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.analysis.smoothness import gradient_smoothness, log_spaced_step_sizes
from tests.analysis.models import loss_of_w


def quadratic(A, w):
    return loss_of_w(lambda out, y: 0.5 * out @ A @ out, w)


def test_a_quadratic_is_as_smooth_as_its_matrix_says():
    A = torch.diag(torch.tensor([1.0, 3.0, 10.0]))
    w, eta = torch.tensor([1.0, -2.0, 0.5]), log_spaced_step_sizes(0.01)
    found = gradient_smoothness(quadratic(A, w), eta=eta)
    g = A @ w
    torch.testing.assert_close(found.gradient_distances, eta * (A @ g).norm())
    expected = torch.stack([0.5 * (w - e * g) @ A @ (w - e * g) for e in eta])
    torch.testing.assert_close(found.losses, expected)
    assert found.beta == pytest.approx(float((A @ g).norm() / g.norm()))
    assert found.summary()["scale_free_beta"] == pytest.approx(found.beta * float(w @ w))
    along_an_eigenvector = quadratic(A, torch.tensor([0.0, 0.7, 0.0]))
    assert gradient_smoothness(along_an_eigenvector, eta=eta).beta == pytest.approx(3)


def net(scale):
    linear = nn.Linear(6, 8, bias=False)
    with torch.no_grad():
        linear.weight.mul_(scale)
    return nn.Sequential(linear, nn.LayerNorm(8, eps=0.0), nn.Linear(8, 3))


def test_longer_weights_look_smoother_and_are_not():
    x, y = torch.randn(30, 6), torch.randint(3, (30,))
    found = []
    for scale in (1.0, 4.0):
        torch.manual_seed(1)
        loss = Objective(net(scale), x, y, F.cross_entropy, params=["0.weight"])
        found.append(gradient_smoothness(loss))
    short, long = found
    # the same step on the sphere: g is as 1/scale, so eta goes with scale squared
    torch.testing.assert_close(long.eta, 16 * short.eta)
    assert short.summary()["relative_step"] == pytest.approx(0.04)
    assert long.gradient_norm == pytest.approx(short.gradient_norm / 4)
    assert long.beta == pytest.approx(short.beta / 16)
    for name in ("scale_free_beta", "relative_step", "relative_distance", "loss_high"):
        assert long.summary()[name] == pytest.approx(short.summary()[name])
