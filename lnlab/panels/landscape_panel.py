"""The panel of notebook 16: the loss around trained networks, by where statistics come from."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import ipywidgets
import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

import lnlab.figures.landscape
from lnlab.analysis.landscape import LossLandscape, evaluate_grid, random_directions
from lnlab.analysis.module_copy import find_weights
from lnlab.analysis.objective import Objective
from lnlab.figures.landscape import outside
from lnlab.figures.style import number
from lnlab.nn import OverCases
from lnlab.panels.old_controls import (
    MODES,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
    one_of,
)
from lnlab.panels.old_panel import Drawing, Panel, Settable, View

# The state of the landscape panel: a trained network, and a way to look at its loss.


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
    """A trained network, and in which way one looks at the loss around it.

    Attributes:
        normalizer: the name of the network, that of its normalizer; "" is the first.
        statistics: where BatchNorm's come from: "batch", "frozen" or "recomputed".
        size: the weights of the hidden layers are multiplied by it; 0.1 to 10.
        lengths: of the directions: "follow" W, by Li et al.'s filter normalization, or
            "stay" as they were at size 1.
        extent: how far the plane goes, in lengths of the directions.
        seed: of the directions.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizer: str = ""
    statistics: str = "batch"
    size: float = 1.0
    lengths: str = "follow"
    extent: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("statistics", self.statistics, MODES)
        one_of("lengths", self.lengths, FOLLOW)
        one_of("extent", self.extent, EXTENTS)
        one_of("seed", self.seed, SEEDS)
        if not SMALLEST <= self.size <= LARGEST:
            raise ValueError(f"size is {self.size}: give {SMALLEST:g} to {LARGEST:g}.")

    def by(self, statistics: str) -> "LandscapeState":
        """The same with statistics from somewhere else."""
        return replace(self, statistics=statistics)


# The loss around trained networks: a pure function of the panel's state.


BN_STATS = {"batch": "batch", "frozen": "running", "recomputed": "recomputed"}
"""The same sources by the names that analyses have for them."""

ACROSS, ALONG = 21, 25
"""Points of a surface along each direction, and of a line."""


class TrainedNetworks:
    """Trained networks, ready to be looked at with hidden layers of any size.

    Args:
        networks: by name; they are copied, and give logits (N, classes) of ``x``.
        x: cases along the first axis.
        y: their classes (N,).

    Raises:
        ValueError: where there is no network, or one has no hidden layer.
    """

    def __init__(self, networks: Mapping[str, nn.Module], x: Tensor, y: Tensor) -> None:
        if not networks:
            raise ValueError("there are no networks: give one at least, by name.")
        self.networks = {name: deepcopy(network) for name, network in networks.items()}
        self.hidden = {name: hidden(network) for name, network in self.networks.items()}
        for name, weights in self.hidden.items():
            if not weights:
                raise ValueError(f"{name} has no hidden layer whose weights can be re-scaled.")
        self.x, self.y = x, y
        self.objective = lru_cache(maxsize=16)(self._objective)
        self.plane = lru_cache(maxsize=200)(self._plane)
        self.cuts = lru_cache(maxsize=500)(self._cuts)

    def whole(self, state: LandscapeState) -> LandscapeState:
        """A state with its network named.

        Raises:
            ValueError: for one that is not there.
        """
        name = state.normalizer or next(iter(self.networks))
        one_of("normalizer", name, self.networks)
        return replace(state, normalizer=name)

    def over_cases(self, name: str) -> bool:
        """True for a network with statistics over cases, whose source is then a question."""
        parts = self.networks[name].modules()
        return any(isinstance(part, OverCases | TorchBatchNorm) for part in parts)

    @torch.no_grad()
    def rescaled(self, name: str, size: float) -> nn.Module:
        """A copy of a network with the weights of its hidden layers ``size`` times as large."""
        network = deepcopy(self.networks[name])
        for weight in self.hidden[name]:
            network.get_parameter(weight).mul_(size)
        return network

    def _objective(self, name: str, statistics: str, size: float) -> Objective:
        """The loss, a function of all weights."""
        return Objective(
            self.rescaled(name, size), self.x, self.y, F.cross_entropy,
            bn_stats=BN_STATS[statistics], dtype=torch.float64,
        )  # fmt: skip

    def loss(self, state: LandscapeState) -> Objective:
        """The loss of a state."""
        return self.objective(state.normalizer, state.statistics, state.size)

    def directions(self, state: LandscapeState, count: int) -> Tensor:
        """Random directions (count, P), as long as the state says."""
        size = state.size if state.lengths == "follow" else 1.0
        # the mode makes no difference to them
        whose = self.objective(state.normalizer, "frozen", size)
        return random_directions(whose, count, seed=state.seed)

    def _plane(self, state: LandscapeState) -> LossLandscape:
        """The losses on the plane of a state."""
        at = torch.linspace(-state.extent, state.extent, ACROSS, dtype=torch.float64)
        return evaluate_grid(self.loss(state), self.directions(state, 2), [at, at])

    def _cuts(self, state: LandscapeState) -> list[LossLandscape]:
        """The losses on five lines; the first is the first direction of the plane."""
        at = torch.linspace(-state.extent, state.extent, ALONG, dtype=torch.float64)
        loss = self.loss(state)
        return [evaluate_grid(loss, each[None], [at]) for each in self.directions(state, 5)]

    def training_loss(self, state: LandscapeState) -> float:
        """The loss of the network as its training left it, in evaluation mode."""
        return self.objective(state.normalizer, "frozen", 1.0).value()


def hidden(network: nn.Module) -> list[str]:
    """The names of the weights of all layers but the last, in the order of the modules."""
    return [*find_weights(network)][:-1]


class LandscapeMeasurement(NamedTuple):
    """The numbers that one move of a slider shows; the plane follows once the slider rests.

    Attributes:
        lines: the losses on five lines through the network.
        trained: the loss with which its training ended, in nats.
    """

    lines: list[LossLandscape]
    trained: float


def measure(networks: TrainedNetworks, state: LandscapeState) -> LandscapeMeasurement:
    """The losses of a state; the one way into this room for a slider."""
    return LandscapeMeasurement(networks.cuts(state), networks.training_loss(state))


# The sentence of the landscape panel, of a network and of the loss around it.


def conditions(state: LandscapeState) -> str:
    """The title: what is looked at, in short."""
    return (
        f"{state.normalizer}, W × {state.size:g}, directions {FOLLOW[state.lengths]}, "
        f"seed {state.seed}"
    )


def sentence(measurement: LandscapeMeasurement) -> str:
    """A sentence that says whether the plot is of the network that was trained."""
    greatest = max(float(line.losses.max()) for line in measurement.lines)
    here, there = number(measurement.lines[0].centre), number(measurement.trained)
    said = (
        f"The loss at w is {here} nats; the training ended at {there}. Along the five lines it "
        f"goes up to {number(greatest)}. {outside(measurement.lines)}"
    )
    return said.strip()


ABOUT = {
    "lines": "The loss of a trained network along five random lines through its weights",
    "plane": "The loss of a trained network on a plane through its weights, as a surface",
}


def landscape(
    networks: Mapping[str, nn.Module], x: Tensor, y: Tensor, **settings: Any
) -> Panel:
    """The loss around a trained network: re-scale it, and choose whose statistics hold.

    Args:
        networks: by name, trained to tell classes apart. What is re-scaled are the weights of
            all their layers but the last. They are copied, and stay as they are.
        x: the cases on which the loss is taken.
        y: their classes.
        settings: fields of :class:`LandscapeState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: where there is no network, or one has no hidden layer.
    """
    trained = TrainedNetworks(networks, x, y)
    state = trained.whole(LandscapeState(**settings))
    return Panel(
        "landscape", "16", state, *arranged(trained), ABOUT,
        partial(look, trained), partial(drawn, trained), settable, least_width=600,
    )  # fmt: skip


def arranged(networks: TrainedNetworks) -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizer": choice("normalizer", [(name, name) for name in networks.networks]),
        "statistics": choice("statistics", sources),
        "size": log_slider("W times", -1, 1),
        "lengths": choice("directions", [(words, name) for name, words in FOLLOW.items()]),
        "extent": choice_slider("extent", [(f"{extent:g}", extent) for extent in EXTENTS]),
        "seed": choice_slider("seed", [(str(seed), seed) for seed in SEEDS]),
    }

    def enable(change: dict[str, Any]) -> None:
        taken = networks.over_cases(change["new"])
        lock(controls["statistics"], "" if taken else "only batch norm takes them over cases")

    widgets = [*controls.values()]
    columns = in_columns(widgets[:3], widgets[3:])
    controls["normalizer"].observe(enable, "value")
    enable({"new": controls["normalizer"].value})
    return columns, controls


def look(networks: TrainedNetworks, state: LandscapeState) -> View:
    """The view of a state."""
    measurement = measure(networks, state)
    lines, taken = measurement.lines, networks.over_cases(state.normalizer)
    return View(
        sentence=sentence(measurement),
        titles=dict.fromkeys(("lines", "plane"), conditions(state)),
        drawings={
            "lines": Drawing(
                lnlab.figures.landscape.cuts_traces(lines, state.normalizer),
                lnlab.figures.landscape.cuts_layout(lines, taken),
            )
        },
        late={"plane": lambda: turned(networks, state)},
    )


def turned(networks: TrainedNetworks, state: LandscapeState) -> Drawing:
    """The plane of a state: 441 losses take longer than one step of a slider may."""
    losses, taken = networks.plane(state), networks.over_cases(state.normalizer)
    layout = lnlab.figures.landscape.plane_layout(losses, taken)
    return Drawing(lnlab.figures.landscape.plane_traces(losses), layout)


def drawn(networks: TrainedNetworks, state: LandscapeState) -> dict[str, go.Figure]:
    """The figures of a state."""
    taken = networks.over_cases(state.normalizer)
    lines = measure(networks, state).lines
    return {
        "lines": lnlab.figures.landscape.cuts(lines, state.normalizer, taken),
        "plane": lnlab.figures.landscape.plane(networks.plane(state), taken),
    }


def settable(state: LandscapeState) -> list[Settable]:
    """The control that works without a kernel: where statistics over cases come from."""
    sources = {statistics.value: name for name, statistics in MODES.items()}
    at = MODES[state.statistics].value
    return [Settable("statistics", sources, at, LandscapeState.by, slides=False)]
