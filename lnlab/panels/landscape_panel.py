"""The panel of notebook 16: the loss around a trained net, and where statistics come from."""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import ipywidgets
import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import lnlab.figures.landscape
from lnlab.analysis.loss_landscape import Surface, grid, random_directions
from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.figures.landscape import outside
from lnlab.figures.style import number
from lnlab.panels.controls import (
    MODES,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
    one_of,
)
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.papers import PermutationInvariantMNIST as Task
from lnlab.training import Batches
from lnlab.training.experiment import SGD
from lnlab.training.random_state import default_dtype

# The state of the landscape panel: a trained net, and a way to look at its loss.


NORMALIZERS = ("none", "layer", "batch", "weight", "rms")
EXTENTS = (0.25, 0.5, 1.0, 2.0)
SEEDS = tuple(range(5))
SMALLEST, LARGEST = 0.1, 10.0
FOLLOW = {
    "follow": "as long as the rows of W",
    "stay": "as long as the rows of W were before",
}
"""Rules for the lengths of the directions when W is re-scaled."""


@dataclass(frozen=True)
class LandscapeState:
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

    def by(self, statistics: str) -> "LandscapeState":
        """The same with statistics from somewhere else."""
        return replace(self, statistics=statistics)


# The loss around a trained net: pure functions of the panel's state.


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


# The sentence of the landscape panel, of a net and of the loss around it.


def conditions(state: LandscapeState) -> str:
    """The title: what is looked at, in short."""
    return (
        f"{state.normalizer}, W × {state.size:g}, directions {FOLLOW[state.lengths]}, "
        f"seed {state.seed}"
    )


def sentence(measurement: LandscapeMeasurement) -> str:
    """A sentence that says whether the plot is of the net that was trained."""
    greatest = max(float(line.losses.max()) for line in measurement.lines)
    here, there = number(measurement.lines[0].centre), number(measurement.trained)
    said = (
        f"The loss at w is {here} nats; the training ended at {there}. Along the five lines it "
        f"goes up to {number(greatest)}. {outside(measurement.lines)}"
    )
    return said.strip()


ABOUT = {
    "lines": "The loss of a trained net along five random lines through its weights",
    "plane": "The loss of a trained net on a plane through its weights, as a surface",
}


def landscape(**settings: Any) -> Panel:
    """The loss around a trained net: re-scale its weights, and choose whose statistics hold.

    Args:
        settings: fields of :class:`LandscapeState`: where the panel starts, and what Reset
            returns to.
    """
    state = LandscapeState(**settings)
    return Panel(
        "landscape", "16", state, *arranged(), ABOUT, look, drawn, settable, least_width=600
    )


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizer": choice("normalizer", [(name, name) for name in NORMALIZERS]),
        "statistics": choice("statistics", sources),
        "size": log_slider("W times", -1, 1),
        "lengths": choice("directions", [(words, name) for name, words in FOLLOW.items()]),
        "extent": choice_slider("extent", [(f"{extent:g}", extent) for extent in EXTENTS]),
        "seed": choice_slider("seed", [(str(seed), seed) for seed in SEEDS]),
    }

    def enable(change: dict[str, Any]) -> None:
        why = "" if over_cases(change["new"]) else "only batch norm takes them over cases"
        lock(controls["statistics"], why)

    widgets = [*controls.values()]
    columns = in_columns(widgets[:3], widgets[3:])
    controls["normalizer"].observe(enable, "value")
    enable({"new": controls["normalizer"].value})
    return columns, controls


def over_cases(normalizer: str) -> bool:
    """True for what takes statistics over cases, whose source is then a question."""
    return normalizer == "batch"


def look(state: LandscapeState) -> View:
    """The view of a state."""
    measurement = measure(state)
    lines = measurement.lines
    return View(
        sentence=sentence(measurement),
        titles=dict.fromkeys(("lines", "plane"), conditions(state)),
        drawings={
            "lines": Drawing(
                lnlab.figures.landscape.cuts_traces(lines, state.normalizer),
                lnlab.figures.landscape.cuts_layout(lines, over_cases(state.normalizer)),
            )
        },
        late={"plane": lambda: turned(state)},
    )


def turned(state: LandscapeState) -> Drawing:
    """The plane of a state: 441 losses take longer than one step of a slider may."""
    losses = plane(state)
    layout = lnlab.figures.landscape.plane_layout(losses, over_cases(state.normalizer))
    return Drawing(lnlab.figures.landscape.plane_traces(losses), layout)


def drawn(state: LandscapeState) -> dict[str, go.Figure]:
    """The figures of a state."""
    taken = over_cases(state.normalizer)
    lines = lnlab.figures.landscape.cuts(measure(state).lines, state.normalizer, taken)
    return {"lines": lines, "plane": lnlab.figures.landscape.plane(plane(state), taken)}


def settable(state: LandscapeState) -> list[Settable]:
    """The control that works without a kernel: where statistics over cases come from."""
    sources = {statistics.value: name for name, statistics in MODES.items()}
    at = MODES[state.statistics].value
    return [Settable("statistics", sources, at, LandscapeState.by, slides=False)]
