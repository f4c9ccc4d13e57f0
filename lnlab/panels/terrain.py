"""The loss around a trained net: the state of a panel, and pure functions of it."""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data import load
from lnlab.figures.table import number
from lnlab.kernels import fuse
from lnlab.norms import NORMS, Identity, Linear
from lnlab.probes.directions import random_directions
from lnlab.probes.landscape import Surface, grid
from lnlab.probes.objective import Objective
from lnlab.tasks.mnist import INITIALISATIONS, MLP
from lnlab.training import Batches

from .transformed import MODES, one_of

UNITS, CASES, BATCH, EPOCHS, RATE = (64, 64), 400, 100, 40, 0.1
NORMALIZERS = ("none", "layer", "batch", "weight", "rms")
EXTENTS = (0.25, 0.5, 1.0, 2.0)
SEEDS = tuple(range(5))
SMALLEST, LARGEST = 0.1, 10.0
FOLLOW = {
    "follow": "as long as the rows of W",
    "stay": "as long as the rows of W were before",
}
"""What the lengths of the directions do when W is re-scaled."""
ACROSS, ALONG = 21, 25
"""Points of a surface along each direction, and of a line."""


@dataclass(frozen=True)
class Terrain:
    """A trained net, and in which way one looks at the loss around it.

    Attributes:
        normalizer: of the hidden layers, one of :data:`NORMALIZERS`.
        statistics: where BatchNorm's come from: "batch", "frozen" or "recomputed".
        size: the weights of the hidden layers are multiplied by it; 0.1 to 10.
        lengths: of the directions: "follow" W, by Li et al.'s filter normalization, or
            "stay" as they were at size 1.
        extent: how far the plane goes, in lengths of the directions.
        seed: of the directions.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizer: str = "batch"
    statistics: str = "batch"
    size: float = 1.0
    lengths: str = "follow"
    extent: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("normalizer", self.normalizer, NORMALIZERS)
        one_of("statistics", self.statistics, MODES)
        one_of("lengths", self.lengths, FOLLOW)
        one_of("extent", self.extent, EXTENTS)
        one_of("seed", self.seed, SEEDS)
        if not SMALLEST <= self.size <= LARGEST:
            raise ValueError(f"size is {self.size}: give {SMALLEST:g} to {LARGEST:g}.")

    def by(self, statistics: str) -> "Terrain":
        """The same with statistics from somewhere else."""
        return replace(self, statistics=statistics)


@lru_cache(maxsize=1)
def cases() -> tuple[Tensor, Tensor]:
    """Handwritten digits, always the same."""
    train = load("embedded").train
    return train.x[:CASES].double(), train.y[:CASES]


@lru_cache(maxsize=len(NORMALIZERS))
def trained(normalizer: str) -> nn.Module:
    """The net after its training, its normalizers torch's own operators."""
    x, y = cases()
    net = MLP((x.shape[1], *UNITS, 10), NORMS[normalizer], Identity).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in net.layers:
            assert isinstance(layer, Linear)
            layer.W.copy_(INITIALISATIONS["modern"](layer.W.clone(), generator))
            layer.norm.start(layer.W)
    if normalizer != "weight":  # has no operator of torch's
        net = fuse(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
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


def directions(state: Terrain, count: int) -> Tensor:
    """Random directions (count, P), as long as the state says."""
    size = state.size if state.lengths == "follow" else 1.0
    # the mode makes no difference to them
    whose = objective(state.normalizer, "frozen", size)
    return random_directions(whose, count, seed=state.seed)


@lru_cache(maxsize=200)
def plane(state: Terrain) -> Surface:
    """The losses on the plane of a state."""
    at = torch.linspace(-state.extent, state.extent, ACROSS, dtype=torch.float64)
    loss = objective(state.normalizer, state.statistics, state.size)
    return grid(loss, directions(state, 2), [at, at])


@lru_cache(maxsize=500)
def cuts(state: Terrain) -> list[Surface]:
    """The losses on five lines; the first is the first direction of the plane."""
    at = torch.linspace(-state.extent, state.extent, ALONG, dtype=torch.float64)
    loss = objective(state.normalizer, state.statistics, state.size)
    return [grid(loss, each[None], [at]) for each in directions(state, 5)]


def training_loss(state: Terrain) -> float:
    """The loss of the net as the training left it, in evaluation mode."""
    return objective(state.normalizer, "frozen", 1.0).value()


def conditions(state: Terrain) -> str:
    """What is looked at, in short."""
    return (
        f"{state.normalizer}, W × {state.size:g}, directions {FOLLOW[state.lengths]}, "
        f"seed {state.seed}"
    )


def sentence(state: Terrain) -> str:
    """Whether the plot is of the net that was trained."""
    lines = cuts(state)
    greatest = max(float(line.losses.max()) for line in lines)
    here, there = lines[0].centre, training_loss(state)
    return (
        f"The loss at w is {number(here)} nats; the training ended at {number(there)}. Along "
        f"the five lines it goes up to {number(greatest)}."
    )
