"""A transformer at its start: gradients from layer to layer, and the loss behind a step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    EDGE,
    TEMPLATE,
    Traces,
    fill,
    legend,
    lines,
    logarithmic,
    text_above,
)

LEAST = 0.3
"""The power of ten at which the axis of losses begins: 2 nats, which no first step reaches."""

SLOTS = 4
"""The number of names that one picture holds."""

Spread = Mapping[str, np.ndarray]
"""Values by name, a row a draw (S, K)."""


def profile(norms: Spread) -> go.Figure:
    """The norms of gradients by layer (S, L): lines are means, bands reach over the draws."""
    figure = _slots("layer %{x}: %{y:.3g}")
    fill(figure, profile_traces(norms))
    return figure.update_layout(profile_layout(norms))


def profile_traces(norms: Spread) -> Traces:
    """The traces of :func:`profile`."""
    layers = max((values.shape[1] for values in norms.values()), default=1)
    return _traces(np.arange(1.0, layers + 1), norms)


def profile_layout(norms: Spread) -> dict[str, Any]:
    """The axes and names of :func:`profile`."""
    layers = max((values.shape[1] for values in norms.values()), default=1)
    low, high = _held(norms, -1, 0.5)
    return _layout(norms) | {
        "xaxis": {
            "title": {"text": "layer, from the bottom"},
            "range": [0.5, layers + 0.5],
            "dtick": max(1, layers // 6),
            "fixedrange": True,
        },
        "yaxis": _powers(low, high) | {"title": {"text": "‖∂L/∂W<sub>2</sub>‖"}},
    }


def first_steps(eta: np.ndarray, losses: Spread) -> go.Figure:
    """Losses (S, K) behind a first step of sizes eta (K,), in nats a character."""
    figure = _slots("η = %{x:.2g}: %{y:.3g} nats")
    fill(figure, first_steps_traces(eta, losses))
    return figure.update_layout(first_steps_layout(losses))


def first_steps_traces(eta: np.ndarray, losses: Spread) -> Traces:
    """The traces of :func:`first_steps`."""
    return _traces(eta, losses)


def first_steps_layout(losses: Spread) -> dict[str, Any]:
    """The axes and names of :func:`first_steps`."""
    _, high = _held(losses, LEAST, 1)
    return _layout(losses) | {
        "xaxis": {
            "title": {"text": "first step of Adam, η"},
            "type": "log",
            "dtick": 1,
            "exponentformat": "power",
            "fixedrange": True,
        },
        "yaxis": _powers(LEAST, high) | {"title": {"text": "loss behind it (nats)"}},
    }


def _slots(hover: str) -> go.Figure:
    figure = go.Figure(layout={"template": TEMPLATE, "height": 380})
    for slot in range(SLOTS):
        figure.add_scatter(
            name=f"band {slot}", mode="lines", fill="toself", opacity=0.18, showlegend=False,
            hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            name=f"mean {slot}", mode="lines+markers", showlegend=False,
            hovertemplate=f"{hover}<extra></extra>",
        )  # fmt: skip
    return figure


def _traces(at: np.ndarray, spread: Spread) -> Traces:
    looks, names = lines(spread), [*spread]
    traces: Traces = {}
    for slot in range(SLOTS):
        if slot >= len(names):
            traces[f"band {slot}"] = traces[f"mean {slot}"] = {"visible": False}
            continue
        name = names[slot]
        values = np.clip(spread[name], 10.0**-EDGE, 10.0**EDGE)
        color = looks[name]["color"]
        traces[f"band {slot}"] = {
            "x": np.concatenate([at, at[::-1]]),
            "y": np.concatenate([values.max(0), values.min(0)[::-1]]),
            "fillcolor": color,
            "line": {"width": 0, "color": color},
            "visible": True,
        }
        traces[f"mean {slot}"] = {
            "x": at,
            "y": values.mean(0),
            # the later a line, the thinner: none is hidden behind another
            "line": looks[name] | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
            "marker": {"color": color, "size": 7},
            "visible": True,
        }
    return traces


def _layout(spread: Spread) -> dict[str, Any]:
    return {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 46},
        "annotations": [text_above(legend(spread), 0, 10, "left", {"size": 14})],
    }


def _held(spread: Spread, low: float, high: float) -> tuple[float, float]:
    """Powers of ten that hold all values, whole ones beyond ``low`` and ``high``."""
    for values in spread.values():
        logs = np.log10(values[np.isfinite(values) & (values > 0)])
        if logs.size and logs.min() < low:
            low = float(max(np.floor(logs.min()), -EDGE))
        if logs.size and logs.max() > high:
            high = float(min(np.ceil(logs.max()), EDGE))
    return low, high


def _powers(low: float, high: float) -> dict[str, Any]:
    # plotly would print a bare 2 and 5 between powers
    labelled = logarithmic([10.0**low, 10.0**high])
    return {**labelled, "range": [low, high], "fixedrange": True}
