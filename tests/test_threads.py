"""Small work takes one thread wherever lnlab does it, and the user's number is restored."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab import auditing, threads
from lnlab.analysis.hessian import extreme_eigenvalues, hessian_spectrum, hessian_trace
from lnlab.analysis.invariances import check_invariances
from lnlab.analysis.landscape import loss_landscape
from lnlab.analysis.objective import Objective
from lnlab.analysis.smoothness import gradient_smoothness, log_spaced_step_sizes
from lnlab.training import Batches
from lnlab.training.trainer import evaluate, fit

X = torch.linspace(-1, 1, 48, dtype=torch.float64).sin().view(12, 4)
Y = torch.arange(12) % 3
seen: list[int] = []


class Watched(nn.Sequential):
    """A network that notes in how many threads it is called."""

    def __init__(self, units: int = 5) -> None:
        super().__init__(nn.Linear(4, units), nn.LayerNorm(units), nn.Linear(units, 3))

    def forward(self, x):
        seen.append(torch.get_num_threads())
        return super().forward(x)


@pytest.fixture(autouse=True)
def two_threads():
    torch.set_num_threads(2)
    seen.clear()


def objective(net):
    return Objective(net, X, Y, F.cross_entropy, bn_stats="batch")


def losses(output, y):
    return F.cross_entropy(output.flatten(0, -2), y.flatten())[None]


def fitted(net):
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in fit(net, Batches(X, Y, 4, seeds=[0]), losses, sgd, 1):
        assert torch.get_num_threads() == 2, (
            "between two log_spaced_step_sizes it is the user's turn"
        )


WORK = {
    "gradient": lambda net: objective(net).gradient(),
    "surface": lambda net: loss_landscape(objective(net), points=3),
    "eigenvalues": lambda net: extreme_eigenvalues(objective(net), steps=3),
    "trace": lambda net: hessian_trace(objective(net), draws=2),
    "density": lambda net: hessian_spectrum(objective(net), draws=1, steps=3),
    "smoothness": lambda net: gradient_smoothness(
        objective(net), eta=log_spaced_step_sizes(0.1)
    ),
    "certificate": lambda net: check_invariances(net, X),
    "audit": lambda net: auditing.audit(net, X, only=["normalizers"]),
    "training": fitted,
    "evaluation": lambda net: evaluate(net, X, Y, losses),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_small_work_takes_one_thread(work):
    work(Watched())
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


def test_large_work_keeps_the_users_number():
    net = Watched(units=threads.LARGE // 7)
    assert objective(net).value() > 0
    assert set(seen) == {2}
    assert threads.is_worth_threads(torch.zeros(threads.LARGE + 1))
