"""The panel of notebook 15: distributions through depth, at every step of a training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from lnlab.figures.curves import DARK, LIGHT
from lnlab.figures.style import (
    QUIET,
    band,
    base_layout,
    escape,
    format_number,
    line_colors_and_widths,
    side_by_side_domains,
    subplot_axes,
    subplot_title,
    trace,
)
from lnlab.panels.controls import MultiSelectButtons, check_option, dropdown, options_slider
from lnlab.panels.panel import FirstIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure

WHAT = {"activations": "inputs of the activation f", "gradients": "gradient w.r.t. inputs of f"}
SLOTS = 4
RIBBONS = {"wide": (*LIGHT, 0.18), "half": (*DARK, 0.35)}
"""Ribbons by the name of their traces: the quantiles at their two edges, and their opacity."""

RecordsByNetAndArm = Mapping[str, Mapping[str, pd.DataFrame]]
"""Recorded quantiles, by network and then by arm."""
QuantilesByArm = Mapping[str, pd.DataFrame]
"""Quantiles q05, q25, q50, q75 and q95 by arm, a row for each layer from first to last."""


@dataclass(frozen=True)
class DistributionsPanelSettings:
    """Recorded nets at one moment."""

    net: FirstIfNone[str] = None  # which of the recorded kinds
    arms: tuple[str, ...] = ()  # of that net, at most four; none: the first four
    quantity: str = "activations"  # or gradients
    step: FirstIfNone[int] = None  # one of those that were recorded


def distributions(frames: RecordsByNetAndArm, **settings: Any) -> Panel:
    """Return the panel on the distributions in all layers, step by step during training.

    Args:
        frames: tables of :meth:`~lnlab.analysis.recorder.Recorder.to_frame`, by kind of network
            and by arm, of activations and perhaps of gradients. The arms of one kind must have
            the same steps and layers.
        settings: fields of :class:`DistributionsPanelSettings` at the start; Reset restores
            them.

    Raises:
        ValueError: if a quantity was not recorded, or the steps of two arms differ.

    Examples:
        >>> with lnlab.record(net) as recorder:
        ...     for _ in range(3):
        ...         F.cross_entropy(net(x), y).backward()
        >>> panel = lnlab.panels.distributions({"my network": {"layer": recorder.to_frame()}})
    """
    if not frames or not all(frames.values()):
        raise ValueError("nothing was recorded: give a frame for each arm of each network.")
    records = [frame for arms in frames.values() for frame in arms.values()]
    every = {tuple(sorted(frame["step"].unique().tolist())) for frame in records}
    if len(every) > 1:
        raise ValueError(
            "the networks were recorded at different steps: record all at the same steps."
        )
    steps = [*every.pop()]

    @lru_cache(maxsize=1000)
    def quantiles_by_arm(
        net: str, arms: tuple[str, ...], quantity: str, step: int
    ) -> QuantilesByArm:
        known = {arm: frames[net][arm] for arm in arms if arm in frames[net]}
        return {arm: layer_quantiles(frame, quantity, step) for arm, frame in known.items()}

    def y_limit(settings: DistributionsPanelSettings) -> float:
        """Return the limit of the axis, for activations over all steps."""
        choice = settings.net, settings.arms, settings.quantity
        edges = [
            np.abs(frame[["q05", "q95"]].to_numpy()).max(initial=0.0)
            for step in (steps if settings.quantity == "activations" else [settings.step])
            for frame in quantiles_by_arm(*choice, step).values()
        ]
        return 1.05 * max(edges, default=0.0) or 1.0

    def draw_layer_quantiles(settings: DistributionsPanelSettings) -> TitledFigure:
        shown = quantiles_by_arm(settings.net, settings.arms, settings.quantity, settings.step)
        title = f"{settings.net}: {WHAT[settings.quantity]}, step {settings.step}"
        figure = distributions_over_layers_figure(
            shown, y_limit(settings), WHAT[settings.quantity]
        )
        widths = ", ".join(
            f"{arm} {format_number(last_over_first_layer_spread(frame))}"
            for arm, frame in shown.items()
            if len(frame)
        )
        text = (
            "Width of the range from the 5 % to the 95 % quantile in the last layer, divided "
            f"by its width in the first layer: {widths}."
        )
        if not settings.arms:
            text = "Choose a normalizer to see the distributions in its layers."
        elif not widths:
            text = "Nothing was recorded for this network with these normalizers."
        return TitledFigure(figure, title, f"{title}. {text}")

    initial = make_settings(DistributionsPanelSettings, settings)
    net = initial.net or next(iter(frames))
    check_option("net", net, frames)
    for arm in initial.arms:
        check_option("an arm", arm, frames[net])
    initial = replace(initial, arms=tuple(initial.arms or [*frames[net]][:SLOTS]))
    all_arms = dict.fromkeys(arm for arms in frames.values() for arm in arms)
    controls = {
        "arms": MultiSelectButtons("normalizers", all_arms, SLOTS),
        "step": options_slider("step", steps),
        "net": dropdown("net", frames.keys()),
        "quantity": dropdown("shown", {words: name for name, words in WHAT.items()}),
    }
    last = "Drag step from the last to the first: in which layers do distributions change most?"
    suggestions: dict[str, dict[str, Any]] = {last: {"step": steps[-1]}}
    for other in (name for name in frames if name != net):
        text = (
            f"Network {other}, last step: how much do the distributions of its layers differ?"
        )
        suggestions[text] = {"net": other, "step": steps[-1]}
    text = "Gradients before training: do they grow from the last layer back to the first?"
    suggestions[text] = {"quantity": "gradients", "step": steps[0]}
    if {"none", "weight"} <= {*frames[net]}:
        text = "Normalizers none and weight before training: do their distributions differ?"
        suggestions[text] = {"arms": ("none", "weight"), "step": steps[0]}
    alt = (
        "Quantiles of the inputs of the activation function f, or of the loss gradients with "
        "respect to them, in every layer of a network at one step of its training, a subplot "
        "for each normalizer"
    )
    return Panel(
        initial, controls, draw_layer_quantiles, alt={"distributions": alt}, notebook="15",
        on_page=["step", "net", "quantity"], suggestions=suggestions,
    )  # fmt: skip


def layer_quantiles(frame: pd.DataFrame, quantity: str, step: int) -> pd.DataFrame:
    """Return the quantiles of one arm at one step, a row for each layer."""
    recorded: Any = frame
    layers = recorded.loc[recorded["what"] == "activations", "name"].unique()
    here = recorded[(recorded["step"] == step) & (recorded["what"] == quantity)]
    by_name = here.drop_duplicates("name").set_index("name")  # of several calls the first
    return by_name.reindex(sorted(layers, key=layer_sort_key)).dropna(subset=["q50"])


def layer_sort_key(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts layer 10 behind layer 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def last_over_first_layer_spread(quantiles: pd.DataFrame) -> float:
    """Return the width of the last layer's distribution over that of the first."""
    widths = (quantiles["q95"] - quantiles["q05"]).to_numpy()
    return float(widths[-1] / widths[0]) if widths[0] else np.nan


def distributions_over_layers_figure(
    quantiles_by_arm: QuantilesByArm, y_limit: float, y_title: str
) -> Figure:
    """Return subplots, one a network: median, middle half and nine tenths of every layer.

    Args:
        quantiles_by_arm: the layers of each network; at most four networks.
        y_limit: the axis goes from minus this to this.
        y_title: what the quantiles are of, with its unit.
    """
    styles, data, notes = line_colors_and_widths(quantiles_by_arm), [], []
    layout = base_layout(400, 64, 12, 34, 46)
    if not quantiles_by_arm:
        layout |= subplot_axes(0, QUIET, QUIET)
    domains = side_by_side_domains(max(1, len(quantiles_by_arm)), 0.03)
    for slot, ((name, frame), domain) in enumerate(
        zip(quantiles_by_arm.items(), domains, strict=False)
    ):
        color, layers = styles[name]["color"], len(frame)
        at = np.arange(1.0, layers + 1)
        for ribbon, (low, high, opacity) in RIBBONS.items():
            area = band(at, frame[low].to_numpy(), frame[high].to_numpy(), color, opacity)
            data.append(trace("scatter", f"{ribbon} {slot}", slot, **area))
        data.append(trace(
            "scatter", f"median {slot}", slot, x=at, y=frame["q50"].to_numpy(),
            mode="lines+markers", line=styles[name], marker={"color": color, "size": 6},
            hovertemplate="layer %{x}: median %{y:.3g}<extra></extra>",
        ))  # fmt: skip
        notes.append(subplot_title(escape(name), domain, color))
        x = {
            "domain": [*domain], "range": [0.7, layers + 0.3],
            "dtick": 1 if layers <= 6 else 2, "title": {"text": "layer"},
        }  # fmt: skip
        y_axis = {
            "range": [-y_limit, y_limit], "showticklabels": slot == 0,
            "exponentformat": "power", "title": {"text": escape(y_title) if slot == 0 else ""},
        }  # fmt: skip
        layout |= subplot_axes(slot, x, y_axis)
    return {"data": data, "layout": layout | {"annotations": notes}}
