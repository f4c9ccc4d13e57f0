"""The cost of a step in the space of parameters, and how far a formula for it is off."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.curves import FLOOR
from lnlab.figures.style import (
    INK,
    TEMPLATE,
    Traces,
    axis_number,
    decades,
    fill,
    legend,
    lines,
    side_by_side,
    text_above,
)

SLOTS = 4
"""The number of normalizers that one picture holds."""

PARTS = {
    "turn": ("step of W", "W times", "curvature, nats"),
    "stretch": ("step of the gain, or ‖w‖", "x times", ""),
    "error": ("error of eq. 13", "units H", "relative error"),
}
"""The panels by the name of their traces: title, axis of x, axis of y."""


class CostCurve(NamedTuple):
    """A curve, and the place on it that is looked at.

    Attributes:
        at: (K,).
        values: (K,).
        here: where.
        value: what is there.
    """

    at: np.ndarray
    values: np.ndarray
    here: float
    value: float


Costs = Mapping[str, tuple[CostCurve, CostCurve, CostCurve]]
"""Curves by normalizer: the cost of a step of W, of the gain, and the error of eq. 13."""


def geometry(costs: Costs) -> go.Figure:
    """Three panels on logarithmic axes: a line and a dot for each normalizer."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for number, part in enumerate(PARTS, start=1):
        for kind in ("", " here"):
            for slot in range(SLOTS):
                figure.add_scatter(
                    name=f"{part} {slot}{kind}", mode="markers" if kind else "lines",
                    xaxis=f"x{number}", yaxis=f"y{number}", showlegend=False,
                    hovertemplate="× %{x:.3g}: %{y:.3g}<extra></extra>",
                )  # fmt: skip
    fill(figure, geometry_traces(costs))
    return figure.update_layout(geometry_layout(costs))


def geometry_traces(costs: Costs) -> Traces:
    """The traces of :func:`geometry`; what is 0 is drawn at the foot, 1e-17."""
    looks, names = lines(costs), list(costs)
    traces: Traces = {}
    for number, part in enumerate(PARTS):
        for slot in range(SLOTS):
            if slot >= len(names):
                traces[f"{part} {slot}"] = traces[f"{part} {slot} here"] = {"visible": False}
                continue
            curve, look = costs[names[slot]][number], looks[names[slot]]
            traces[f"{part} {slot}"] = {
                "x": curve.at,
                "y": np.maximum(curve.values, FLOOR),
                # the later a line, the thinner: none is hidden behind another
                "line": look | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
                "visible": True,
            }
            traces[f"{part} {slot} here"] = {
                "x": np.array([curve.here]),
                "y": np.maximum(np.array([curve.value]), FLOOR),
                "marker": {
                    "color": look["color"],
                    "size": 16 - 2.5 * slot,
                    "line": {"color": INK, "width": 1.5},
                },
                "visible": True,
            }
    return traces


def geometry_layout(costs: Costs) -> dict[str, Any]:
    """The axes, titles and names of :func:`geometry`."""
    layout: dict[str, Any] = {"margin": {"l": 60, "r": 12, "t": 62, "b": 46}}
    annotations = []
    for number, (part, (title, x, y)) in enumerate(PARTS.items()):
        (left, right), axis = side_by_side(len(PARTS), 0.1025)[number], axis_number(number)
        shown = [parts[number] for parts in costs.values()]
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "title": {"text": x},
        } | _x(part, shown)
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "title": {"text": y},
        } | _y(part, shown)
        look = {"color": INK, "size": 14}
        annotations.append(text_above(f"<b>{title}</b>", (left + right) / 2, 4, "center", look))
    annotations.append(text_above(legend(costs), 0, 32, "left", {"size": 14}))
    return layout | {"annotations": annotations}


def _x(part: str, shown: Sequence[CostCurve]) -> dict[str, Any]:
    at = shown[0].at if shown else np.array([0.1, 10.0])
    low, high = np.log10(at[0]) - 0.08, np.log10(at[-1]) + 0.08  # room for a dot at the end
    ticks: dict[str, Any] = {"dtick": 1}
    if part == "error":
        ticks = {"tickvals": at.tolist(), "ticktext": [f"{value:g}" for value in at]}
    return {"type": "log", "range": [low, high], "fixedrange": True} | ticks


def _y(part: str, shown: Sequence[CostCurve]) -> dict[str, Any]:
    low, high = (-18, 0) if part == "error" else decades([c.values for c in shown], -2, 2)
    return {
        "type": "log",
        "range": [low, high],
        "exponentformat": "power",
        "dtick": max(1, round((high - low) / 6)),
        "fixedrange": True,
    }
