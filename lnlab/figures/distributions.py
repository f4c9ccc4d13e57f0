"""Distributions through the depth of a net at one moment, as ribbons of quantiles."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lnlab.figures.curves import DARK, LIGHT
from lnlab.figures.style import (
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    lines,
    literal,
    side_by_side,
    text_above,
)

SLOTS = 4
"""The number of nets that one picture holds."""

RIBBONS = {"wide": (*LIGHT, 0.18), "half": (*DARK, 0.35)}
"""The ribbons by the name of their traces: lower and upper edge, and opacity."""

Sections = Mapping[str, pd.DataFrame]
"""Quantiles by name: a row a layer, from first to last, with q05, q25, q50, q75 and q95."""


def distributions(sections: Sections, *, reach: float, y: str) -> go.Figure:
    """Panels side by side, one a net: median, middle half and nine tenths of every layer.

    Args:
        sections: the layers of each net; at most four nets.
        reach: where the axis ends: it goes from -reach to reach.
        y: what the quantiles are of, with its unit.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for slot in range(SLOTS):
        for name in (*RIBBONS, "median"):
            ribbon = name in RIBBONS
            figure.add_scatter(
                name=f"{name} {slot}", xaxis=f"x{slot + 1}", yaxis=f"y{slot + 1}",
                mode="lines" if ribbon else "lines+markers", showlegend=False,
                fill="toself" if ribbon else None, hoverinfo="skip" if ribbon else None,
                hovertemplate=None if ribbon else "layer %{x}: median %{y:.3g}<extra></extra>",
            )  # fmt: skip
    fill(figure, distributions_traces(sections))
    return figure.update_layout(distributions_layout(sections, reach=reach, y=y))


def distributions_traces(sections: Sections) -> Traces:
    """The traces of :func:`distributions`."""
    looks, names = lines(sections), list(sections)
    traces: Traces = {}
    for slot in range(SLOTS):
        if slot >= len(names):
            hidden = {f"{name} {slot}": {"visible": False} for name in (*RIBBONS, "median")}
            traces |= hidden
            continue
        frame, look = sections[names[slot]], looks[names[slot]]
        at = np.arange(1.0, len(frame) + 1)
        for name, (low, high, opacity) in RIBBONS.items():
            traces[f"{name} {slot}"] = {
                "x": np.concatenate([at, at[::-1]]),
                "y": np.concatenate([frame[high].to_numpy(), frame[low].to_numpy()[::-1]]),
                "fillcolor": look["color"],
                "opacity": opacity,
                "line": {"width": 0},
                "visible": True,
            }
        traces[f"median {slot}"] = {
            "x": at,
            "y": frame["q50"].to_numpy(),
            "line": look,
            "marker": {"color": look["color"], "size": 6},
            "visible": True,
        }
    return traces


def distributions_layout(sections: Sections, *, reach: float, y: str) -> dict[str, Any]:
    """The axes and titles of :func:`distributions`."""
    layout: dict[str, Any] = {"margin": {"l": 64, "r": 12, "t": 34, "b": 46}}
    looks, panels = lines(sections), side_by_side(max(1, len(sections)), 0.03)
    annotations = []
    for slot in range(SLOTS):
        axis, name = axis_number(slot), [*sections, *[None] * SLOTS][slot]
        left, right = panels[min(slot, len(panels) - 1)]
        layers = len(sections[name]) if name is not None else 1
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "range": [0.7, layers + 0.3],
            "dtick": 1 if layers <= 6 else 2,
            "title": {"text": "layer"},
            "fixedrange": True,
            "visible": name is not None,
        }
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "range": [-reach, reach],
            "showticklabels": slot == 0,
            "exponentformat": "power",
            "title": {"text": literal(y) if slot == 0 else ""},
            "fixedrange": True,
            "visible": name is not None,
        }
        if name is not None:
            color = {"color": looks[name]["color"], "size": 14}
            title = f"<b>{literal(name)}</b>"
            annotations.append(text_above(title, (left + right) / 2, 4, "center", color))
    return layout | {"annotations": annotations}
