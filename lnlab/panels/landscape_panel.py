"""The panel of notebook 16: the loss around trained networks, by where statistics come from."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

from lnlab.analysis.landscape import (
    LossLandscape,
    evaluate_grid,
    random_filter_normalized_directions,
)
from lnlab.analysis.module_copy import find_weights
from lnlab.analysis.objective import Objective
from lnlab.figures.landscape import (
    LOSS,
    centre_marker,
    describe_statistics_sources,
    loss_surface_trace,
    scene_layout,
)
from lnlab.figures.style import (
    INK,
    band,
    base_layout,
    escape,
    format_number,
    line_colors_and_widths,
    log_axis,
    text_annotation,
    trace,
)
from lnlab.nn import BatchNormalizer
from lnlab.panels.controls import MODES, dropdown, log_slider, options_slider
from lnlab.panels.panel import FirstIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure

BN_STATS = {"batch": "batch", "frozen": "running", "recomputed": "recomputed"}
"""The argument ``bn_stats`` of :mod:`lnlab.analysis` for each choice of statistics."""

ACROSS, ALONG = 21, 25
"""The number of grid points of the plane along each direction, and of those of a line."""

EXTENTS = (0.25, 0.5, 1.0, 2.0)
SEEDS = tuple(range(5))
FOLLOW = {
    "follow": "as long as the rows of the re-scaled W",
    "stay": "as long as the rows of the trained W",
}
"""Lengths of the random directions when the hidden weights W are re-scaled."""

LOWEST, HIGHEST = 0.02, 100.0
"""The ends of the loss axis, in nats.

These ends are the same for all settings: if the axis were fitted to the losses of each, all
minima would look equally steep.
"""
HEIGHTS = float(np.log10(LOWEST)), float(np.log10(HIGHEST))
"""The ends of the loss axis as powers of 10."""


@dataclass(frozen=True)
class LandscapePanelSettings:
    """A trained network, and in which way one looks at the loss around it."""

    network: FirstIfNone[str] = None  # the name of the network
    statistics_source: Literal["batch", "frozen", "recomputed"] = "batch"  # of batch norm
    weight_scale: float = (
        1.0  # what the weights of the hidden layers are multiplied by; 0.1 to 10
    )
    # the lengths of the directions: "follow" W, by Li et al.'s filter normalization, or
    # "stay" as they were at size 1
    direction_lengths: Literal["follow", "stay"] = "follow"
    extent: float = 1.0  # how far the plane goes, in lengths of the directions
    seed: int = 0  # of the directions


class RescalableNetworks:
    """Trained networks whose hidden layers can have weights of any size.

    Args:
        networks: by name; they are copied, and give logits (N, classes) of ``x``.
        x: examples along the first axis.
        y: their classes (N,).
    """

    def __init__(self, networks: Mapping[str, nn.Module], x: Tensor, y: Tensor) -> None:
        if not networks:
            raise ValueError("there are no networks: give at least one, by name.")
        self.networks = {name: deepcopy(network) for name, network in networks.items()}
        self.hidden = {name: [*find_weights(net)][:-1] for name, net in self.networks.items()}
        for name, weights in self.hidden.items():
            if not weights:
                raise ValueError(
                    f"the network {name} has no hidden layer whose weights can be re-scaled."
                )
        self.x, self.y = x, y
        self.objective = lru_cache(maxsize=16)(self._make_objective)
        self.losses_on_plane = lru_cache(maxsize=200)(self._losses_on_plane)
        self.landscape_per_random_line = lru_cache(maxsize=500)(self._landscape_per_random_line)

    def uses_batch_statistics(self, name: str) -> bool:
        """Return True for a network with statistics over examples."""
        modules = self.networks[name].modules()
        return any(isinstance(module, BatchNormalizer | TorchBatchNorm) for module in modules)

    @torch.no_grad()
    def rescale_hidden_weights(self, name: str, weight_scale: float) -> nn.Module:
        """Return a copy of a network with its hidden weights times ``weight_scale``."""
        network = deepcopy(self.networks[name])
        for weight in self.hidden[name]:
            network.get_parameter(weight).mul_(weight_scale)
        return network

    def _make_objective(
        self, name: str, statistics_source: str, weight_scale: float
    ) -> Objective:
        return Objective(
            self.rescale_hidden_weights(name, weight_scale), self.x, self.y, F.cross_entropy,
            bn_stats=BN_STATS[statistics_source], dtype=torch.float64,
        )  # fmt: skip

    def sample_filter_normalized_directions(
        self, settings: LandscapePanelSettings, count: int
    ) -> Tensor:
        """Return random directions (count, P), as long as the settings say."""
        weight_scale = settings.weight_scale if settings.direction_lengths == "follow" else 1.0
        # the mode makes no difference to them
        objective = self.objective(settings.network, "frozen", weight_scale)
        return random_filter_normalized_directions(objective, count, seed=settings.seed)

    def losses_on_grid(
        self, settings: LandscapePanelSettings, directions: Tensor, points_per_direction: int
    ) -> LossLandscape:
        """Return the losses on the grid that the directions span: on a line, or on a plane."""
        at = torch.linspace(
            -settings.extent, settings.extent, points_per_direction, dtype=torch.float64
        )
        loss = self.objective(
            settings.network, settings.statistics_source, settings.weight_scale
        )
        return evaluate_grid(loss, directions, [at] * len(directions))

    def _losses_on_plane(self, settings: LandscapePanelSettings) -> LossLandscape:
        return self.losses_on_grid(
            settings, self.sample_filter_normalized_directions(settings, 2), ACROSS
        )

    def _landscape_per_random_line(
        self, settings: LandscapePanelSettings
    ) -> list[LossLandscape]:
        """Return the losses on five lines; the first is the plane's first direction."""
        directions = self.sample_filter_normalized_directions(settings, 5)
        return [
            self.losses_on_grid(settings, direction[None], ALONG) for direction in directions
        ]

    def loss_at_trained_weights(self, name: str) -> float:
        """Return the loss of the network as its training left it, in evaluation mode."""
        return self.objective(name, "frozen", 1.0).value()


def landscape(
    networks: Mapping[str, nn.Module], x: Tensor, y: Tensor, **settings: Any
) -> Panel:
    """Return the panel on the loss around trained networks whose weights can be rescaled.

    Args:
        networks: trained classifiers by name. They are copied; the weights of all layers but
            the last can be rescaled.
        x: the examples on which the loss is computed.
        y: their classes.
        settings: fields of :class:`LandscapePanelSettings` at the start; Reset restores them.

    Raises:
        ValueError: if there is no network, or one has no hidden layer.

    Examples:
        >>> panel = lnlab.panels.landscape({"my network": net}, x, y)
    """
    trained = RescalableNetworks(networks, x, y)

    def describe_settings(settings: LandscapePanelSettings) -> str:
        directions = f"directions: {FOLLOW[settings.direction_lengths]}"
        weights = f"{settings.network}, hidden weights W × {settings.weight_scale:g}"
        return f"{weights}, {directions}, seed {settings.seed}"

    def draw(settings: LandscapePanelSettings) -> TitledFigure:
        lines = trained.landscape_per_random_line(settings)
        depends = trained.uses_batch_statistics(settings.network)
        figure = loss_figure_of_random_lines(lines, settings.network, depends)
        largest = max(float(line.losses.max()) for line in lines)
        losses = (
            lines[0].centre_loss,
            trained.loss_at_trained_weights(settings.network),
            largest,
        )
        middle, end, largest = map(format_number, losses)
        sentence = (
            f"Loss in the middle, at the weights w: {middle} nats (at the trained weights, in "
            f"evaluation mode: {end}). Largest loss on the five random lines through w: "
            f"{largest} nats. {describe_loss_ranges_outside_picture(lines)}"
        )
        return TitledFigure(figure, describe_settings(settings), sentence.strip())

    def draw_plane(settings: LandscapePanelSettings) -> tuple[Figure, str]:
        # 441 losses take longer than one step of a slider may
        depends = trained.uses_batch_statistics(settings.network)
        return surface_figure_of_plane(
            trained.losses_on_plane(settings), depends
        ), describe_settings(settings)

    controls = {
        "network": dropdown("normalizer", networks.keys()),
        "statistics_source": dropdown(
            "statistics", {mode.value: name for name, mode in MODES.items()}
        ),
        "weight_scale": log_slider("W times", -1, 1),
        "direction_lengths": dropdown(
            "directions", {words: name for name, words in FOLLOW.items()}
        ),
        "extent": options_slider("extent", EXTENTS),
        "seed": options_slider("seed", SEEDS),
    }
    alt = {
        "lines": "The loss of a trained network along five random lines through its weights",
        "plane": "The loss of a trained network on a random plane through its weights",
    }

    def why_statistics_locked(settings: LandscapePanelSettings) -> str:
        taken = trained.uses_batch_statistics(settings.network)
        return "" if taken else "no effect: only batch norm uses statistics over examples"

    return Panel(
        make_settings(LandscapePanelSettings, settings), controls, draw, alt=alt,
        deferred={"plane": draw_plane}, notebook="16", on_page=["statistics_source"],
        locks={"statistics_source": why_statistics_locked},
    )  # fmt: skip


def loss_figure_of_random_lines(
    lines: Sequence[LossLandscape], network: str, uses_batch_statistics: bool
) -> Figure:
    """Return the losses along lines through w, in the colour of a normalizer."""
    at = np.asarray(lines[0].coordinates[0])
    losses = np.stack([np.asarray(cut.losses) for cut in lines])
    edge, color = float(np.abs(at).max()), line_colors_and_widths([network])[network]["color"]
    area: Any = band(at, losses.min(0), losses.max(0), color, 0.15)
    area["line"] = {"color": color, "width": 0}
    data = [trace("scatter", "band", **area)]
    for i, y in enumerate(losses):
        hover = f"direction {i + 1}, %{{x:.2f}}: %{{y:.3g}}<extra></extra>"
        data.append(trace(
            "scatter", f"line {i}", mode="lines", x=at, y=y, hovertemplate=hover,
            line={"color": color, "width": 1.5},
        ))  # fmt: skip
    data.append(trace(
        "scatter", "w", mode="markers", marker={"color": INK, "size": 10}, x=np.zeros(1),
        y=np.full(1, lines[0].centre_loss), hovertemplate="w: %{y:.3g}<extra></extra>",
    ))  # fmt: skip
    x = {
        "range": [-edge, edge],
        "title": {"text": "step along a random direction (0: the weights w)"},
    }
    y = log_axis([LOWEST, HIGHEST]) | {"range": list(HEIGHTS), "title": {"text": LOSS}}
    layout = base_layout(330, 60, 12, 44, 46) | {
        "xaxis": x,
        "yaxis": y,
        "annotations": [
            title_with_statistics_source(
                lines[0], "five lines through the weights w", uses_batch_statistics
            )
        ],
    }
    return {"data": data, "layout": layout}


def surface_figure_of_plane(surface: LossLandscape, uses_batch_statistics: bool) -> Figure:
    """Return the losses on a plane through w, as a surface that can be turned."""
    title = title_with_statistics_source(
        surface,
        "a plane through the weights w",
        uses_batch_statistics,
        describe_loss_ranges_outside_picture([surface]),
    )
    layout = base_layout(470, 8, 8, 44, 8) | {
        "scene": scene_layout(HEIGHTS),
        "annotations": [title],
    }
    traces = loss_surface_trace(surface, HEIGHTS), centre_marker(surface)
    return {"data": [trace.to_plotly_json() for trace in traces], "layout": layout}


def title_with_statistics_source(
    surface: LossLandscape, title: str, uses_batch_statistics: bool, second_line: str = ""
) -> dict[str, Any]:
    """Return a title; it names the source of statistics over examples, if there are any."""
    where = (
        escape(describe_statistics_sources([surface]))
        if uses_batch_statistics
        else "No statistics over examples."
    )
    text = f"<b>{title}</b> &nbsp; {where}<br>{escape(second_line)}".removesuffix("<br>")
    return text_annotation(text, 0, 1, 4, size=12) | {"align": "left"}


def describe_loss_ranges_outside_picture(surfaces: Sequence[LossLandscape]) -> str:
    """Return a sentence that says which losses lie outside the axis; empty where none do."""
    losses = np.concatenate([np.asarray(each.losses).ravel() for each in surfaces])
    ends = {
        f"below {LOWEST:g}": (losses < LOWEST).any(),
        f"above {HIGHEST:g}": (losses > HIGHEST).any(),
    }
    outside = " and ".join(end for end, is_reached in ends.items() if is_reached)
    return f"Losses {outside} nats are outside the picture." if outside else ""
