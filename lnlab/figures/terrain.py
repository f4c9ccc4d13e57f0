"""The loss around one net, to be moved in place: five lines, and a plane that can be turned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .landscape import (
    LOSS,
    Landscape,
    peg,
    peg_values,
    reach,
    scene,
    sheet,
    sheet_values,
    stamp,
)
from .palette import BLUE, INK, TEMPLATE, VERMILLION
from .text import literal

LEAST = (-1.5, 1.0)
"""The powers of ten that the axis of losses shows at least."""

Traces = dict[int | str, dict[str, Any]]


def cuts(several: Sequence[Landscape]) -> go.Figure:
    """The loss along a few lines through w, on a logarithmic axis."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 330, "showlegend": False})
    figure.add_scatter(
        name="band", mode="lines", fill="toself", fillcolor=BLUE, opacity=0.15,
        line={"width": 0, "color": BLUE}, hoverinfo="skip",
    )  # fmt: skip
    for number in range(len(several)):
        figure.add_scatter(
            name=f"line {number}", mode="lines", line={"color": BLUE, "width": 1.5},
            hovertemplate=f"direction {number + 1}, %{{x:.2f}}: %{{y:.3g}}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        name="w", mode="markers", marker={"color": VERMILLION, "size": 10},
        hovertemplate="w: %{y:.3g}<extra></extra>",
    )  # fmt: skip
    for name, new in cuts_traces(several).items():
        figure.update_traces(new, selector={"name": name})
    return figure.update_layout(cuts_layout(several))


def cuts_traces(several: Sequence[Landscape]) -> Traces:
    """What :func:`cuts` draws, trace by trace."""
    at = np.asarray(several[0].at[0])
    losses = np.stack([np.asarray(line.losses) for line in several])
    band = np.concatenate([losses.max(0), losses.min(0)[::-1]])
    here = np.full(1, several[0].centre)
    return {
        "band": {"x": np.concatenate([at, at[::-1]]), "y": band},
        **{f"line {i}": {"x": at, "y": values} for i, values in enumerate(losses)},
        "w": {"x": np.zeros(1), "y": here},
    }


def cuts_layout(several: Sequence[Landscape]) -> dict[str, Any]:
    """The axes and the stamp of :func:`cuts`; the axis of losses moves by whole steps."""
    low, high = reach(several)
    low, high = min(low, LEAST[0]), max(high, LEAST[1])
    edge = float(np.abs(np.asarray(several[0].at[0])).max())
    return {
        "margin": {"l": 60, "r": 12, "t": 44, "b": 46},
        "xaxis": {
            "range": [-edge, edge],
            "title": {"text": "along a random direction"},
            "fixedrange": True,
        },
        "yaxis": {
            "type": "log",
            "range": [np.floor(2 * low) / 2, np.ceil(2 * high) / 2],
            "title": {"text": LOSS},
            "exponentformat": "power",
            "fixedrange": True,
        },
        "annotations": [_stamped(several[0], "five lines through w")],
    }


def plane(landscape: Landscape) -> go.Figure:
    """The loss on a plane through w, to be turned."""
    layers = [sheet(landscape, reach([landscape])), peg(landscape)]
    figure = go.Figure(layers, layout={"template": TEMPLATE, "height": 470, "scene": scene()})
    return figure.update_layout(plane_layout(landscape))


def plane_traces(landscape: Landscape) -> Traces:
    """What :func:`plane` draws, trace by trace."""
    low, high = reach([landscape])
    return {
        "losses": {**sheet_values(landscape), "cmin": low, "cmax": high},
        "w": peg_values(landscape),
    }


def plane_layout(landscape: Landscape) -> dict[str, Any]:
    """The stamp of :func:`plane`. Nothing of its scene, which whoever turned it has set."""
    return {
        "margin": {"l": 8, "r": 8, "t": 44, "b": 8},
        "annotations": [_stamped(landscape, "a plane through w")],
    }


def _stamped(landscape: Landscape, title: str) -> dict[str, Any]:
    return {
        "text": f"<b>{title}</b> &nbsp; {literal(stamp([landscape]))}",
        "x": 0,
        "y": 1,
        "yshift": 10,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": INK, "size": 14},
    }
