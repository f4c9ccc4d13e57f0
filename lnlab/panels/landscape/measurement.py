"""The loss around a trained net: pure functions of the panel's state."""

from copy import deepcopy
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.loss_landscape import Surface, grid, random_directions
from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.panels.choices import MODES
from lnlab.panels.landscape.state import NORMALIZERS, LandscapeState
from lnlab.tasks import PermutationInvariantMNIST as Task
from lnlab.training import Batches
from lnlab.training.experiment import SGD
from lnlab.training.random_state import default_dtype

UNITS, CASES, BATCH, EPOCHS, RATE = (64, 64), 400, 100, 40, 0.1
ACROSS, ALONG = 21, 25
"""Points of a surface along each direction, and of a line."""


@lru_cache(maxsize=1)
def cases() -> tuple[Tensor, Tensor]:
    """Handwritten digits, always the same."""
    train = load("embedded").train
    return train.x[:CASES].double(), train.y[:CASES]


@lru_cache(maxsize=len(NORMALIZERS))
def trained(normalizer: str) -> nn.Module:
    """The net after its training, its normalizers torch's own operators."""
    x, y = cases()
    arm = "batch hidden" if normalizer == "batch" else normalizer
    task = Task.budget("notebook", norm=arm, units=UNITS)
    with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
        net = task.model(0, task.dataset())
    optimizer = SGD(net.parameters(), lr=RATE)
    batches = Batches(x, y, BATCH, [0])
    with torch.enable_grad():
        for epoch in range(EPOCHS):
            for some_x, some_y in batches.epoch(epoch):
                optimizer.zero_grad()
                F.cross_entropy(net(some_x[0]), some_y[0]).backward()
                optimizer.step()
    return net.eval()


@lru_cache(maxsize=8)
@torch.no_grad()
def rescaled(normalizer: str, size: float) -> nn.Module:
    """The trained net with the weights of its hidden layers ``size`` times as large."""
    net = deepcopy(trained(normalizer))
    for name, p in net.named_parameters():
        if p.dim() == 2 and not name.startswith(f"layers.{len(UNITS)}."):
            p.mul_(size)
    return net


@lru_cache(maxsize=16)
def objective(normalizer: str, statistics: str, size: float) -> Objective:
    """The loss, a function of all weights."""
    net = rescaled(normalizer, size)
    return Objective(net, *cases(), F.cross_entropy, statistics=MODES[statistics])


def directions(state: LandscapeState, count: int) -> Tensor:
    """Random directions (count, P), as long as the state says."""
    size = state.size if state.lengths == "follow" else 1.0
    # the mode makes no difference to them
    whose = objective(state.normalizer, "frozen", size)
    return random_directions(whose, count, seed=state.seed)


@lru_cache(maxsize=200)
def plane(state: LandscapeState) -> Surface:
    """The losses on the plane of a state."""
    at = torch.linspace(-state.extent, state.extent, ACROSS, dtype=torch.float64)
    loss = objective(state.normalizer, state.statistics, state.size)
    return grid(loss, directions(state, 2), [at, at])


@lru_cache(maxsize=500)
def cuts(state: LandscapeState) -> list[Surface]:
    """The losses on five lines; the first is the first direction of the plane."""
    at = torch.linspace(-state.extent, state.extent, ALONG, dtype=torch.float64)
    loss = objective(state.normalizer, state.statistics, state.size)
    return [grid(loss, each[None], [at]) for each in directions(state, 5)]


def training_loss(state: LandscapeState) -> float:
    """The loss of the net as the training left it, in evaluation mode."""
    return objective(state.normalizer, "frozen", 1.0).value()


class LandscapeMeasurement(NamedTuple):
    """The numbers that one move of a slider shows; the plane follows once the slider rests.

    Attributes:
        lines: the losses on five lines through the net.
        trained: the loss with which its training ended, in nats.
    """

    lines: list[Surface]
    trained: float


def measure(state: LandscapeState) -> LandscapeMeasurement:
    """The losses of a state; the one way into this room for a slider."""
    return LandscapeMeasurement(cuts(state), training_loss(state))
