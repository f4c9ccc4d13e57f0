"""Smoothness along the gradient, against closed forms and its own laws."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.analysis.smoothness import envelope, smoothness, steps
from lnlab.nn.table1 import Statistics


class Quadratic(nn.Module):
    """w -> w, so that a loss of it is any function of w."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(w)

    def forward(self, x):
        return self.w


def quadratic(A, w):
    loss = lambda out, y: 0.5 * out @ A @ out  # noqa: E731
    return Objective(Quadratic(w), torch.ones(2), None, loss, statistics=Statistics.FROZEN)


RATE: Any = 0.1  # where steps belong


def test_a_quadratic_is_as_smooth_as_its_matrix_says():
    A = torch.diag(torch.tensor([1.0, 3.0, 10.0]))
    w = torch.tensor([1.0, -2.0, 0.5])
    eta = steps(0.01)
    found = smoothness(quadratic(A, w), eta)
    g = A @ w
    torch.testing.assert_close(found.distances, eta * (A @ g).norm())
    expected = torch.stack([0.5 * (w - e * g) @ A @ (w - e * g) for e in eta])
    torch.testing.assert_close(found.losses, expected)
    assert found.beta == pytest.approx(float((A @ g).norm() / g.norm()))
    assert found.beta <= 10 + 1e-12  # the largest eigenvalue
    assert found.row()["spherical_beta"] == pytest.approx(found.beta * float(w @ w))


def test_along_an_eigenvector_beta_is_the_eigenvalue():
    A = torch.diag(torch.tensor([1.0, 3.0, 10.0]))
    found = smoothness(quadratic(A, torch.tensor([0.0, 0.7, 0.0])), steps(0.3))
    assert found.beta == pytest.approx(3)


def net(scale):
    module: Any = nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.LayerNorm(8, eps=0.0), nn.Linear(8, 3)
    )
    with torch.no_grad():
        module[0].weight.mul_(scale)
    return module


def test_longer_weights_look_smoother_and_are_not():
    x, y = torch.randn(30, 6), torch.randint(3, (30,))
    found = []
    for scale in (1.0, 4.0):
        torch.manual_seed(1)
        objective = Objective(
            net(scale), x, y, F.cross_entropy, statistics=Statistics.BATCH, names=["0.weight"]
        )
        # the same step on the sphere: g is as 1/scale, so eta goes with scale squared
        found.append(smoothness(objective, steps(0.01) * scale**2))
    short, long = found
    assert long.slope == pytest.approx(short.slope / 4)
    assert long.beta == pytest.approx(short.beta / 16)
    for name in ("spherical_beta", "relative_step", "relative_distance", "loss_high"):
        assert long.row()[name] == pytest.approx(short.row()[name])


def test_the_batch_is_the_same_and_no_step_is_taken():
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    x, y = torch.randn(30, 6), torch.randint(3, (30,))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    objective = Objective(module, x, y, F.cross_entropy, statistics=Statistics.BATCH)
    first, again = (smoothness(objective, steps(0.1)) for _ in range(2))
    assert torch.equal(first.losses, again.losses)
    assert all(torch.equal(before[n], tensor) for n, tensor in module.state_dict().items())


def test_the_range_is_that_of_the_paper():
    eta = steps(0.1)
    assert float(eta[0]) == pytest.approx(0.05)
    assert float(eta[-1]) == pytest.approx(0.4)
    ratios = eta[1:] / eta[:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios), rtol=1e-6, atol=0)


def test_envelope_is_over_runs():
    low, high = envelope([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
    assert low.tolist() == [3, 1, 1]
    assert high.tolist() == [3, 2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: smoothness(o, torch.tensor([0.1, -1.0])), "positive steps"),
        (lambda o: smoothness(o, RATE), r"steps\(learning_rate\)"),
        (lambda o: smoothness(o, steps(0.1), torch.zeros(3)), "has length 0.0"),
        (lambda o: steps(0.1, low=2, high=1), "0 < low < high"),
        (lambda o: envelope([[1.0]]), "two or more of one"),
        (lambda o: envelope([[1.0], [1.0, 2.0]]), "two or more of one"),
    ],
)
def test_wrong_input_says_what_to_give(call, message):
    with pytest.raises(ValueError, match=message):
        call(quadratic(torch.eye(3), torch.ones(3)))
