"""A line as it is written, point by point, and where the window is on the text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    INK,
    MARK,
    NOTE_INK,
    SIZES,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
)

SLOTS = 3
"""The number of writers that one picture holds."""
HEIGHT = 270
"""Pixels of a writer: its ink, and the window below it."""
POINTS = {"text": "points of the pen, in their order", "standoff": 6, "font": {"size": 12}}
"""The name of the axis along which a window moves, below the last one."""


@dataclass(frozen=True)
class Penned:
    """A line in the hand of one writer.

    Attributes:
        strokes: the places of the pen, stroke by stroke, each (N, 2).
        phi: the weight of each character at each point (T, U).
        text: what stands above it.
    """

    strokes: Sequence[np.ndarray]
    phi: np.ndarray
    text: str


def writing(said: str, lines: Mapping[str, Penned], part: float = 1.0) -> go.Figure:
    """The ink of a text for each writer, and below it the window over its characters.

    Args:
        said: the text, U characters.
        lines: by writer, at most :data:`SLOTS`.
        part: how far the pen has come, from 0 to 1; what comes after is pale.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for slot in range(SLOTS):
        page, below = _axes(2 * slot), _axes(2 * slot + 1)
        for name, colour, width in (("rest", "#C9CED6", 1.2), ("ink", INK, 2.0)):
            figure.add_scatter(
                name=f"{name} {slot}", mode="lines+markers", hoverinfo="skip",
                line={"color": colour, "width": width}, marker={"size": width + 1}, **page,
            )  # fmt: skip
        figure.add_scatter(
            name=f"pen {slot}", mode="markers", hoverinfo="skip",
            marker={"size": 11, "color": VERMILLION}, **page,
        )  # fmt: skip
        figure.add_heatmap(
            name=f"window {slot}", colorscale=SIZES, zmin=0, showscale=False,
            hovertemplate="point %{x}: %{z:.2f}<extra></extra>", **below,
        )  # fmt: skip
        figure.add_scatter(
            name=f"now {slot}", mode="lines", hoverinfo="skip",
            line={"color": VERMILLION, "width": 2}, **below,
        )  # fmt: skip
    fill(figure, writing_traces(said, lines, part))
    return figure.update_layout(writing_layout(said, lines))


def writing_traces(said: str, lines: Mapping[str, Penned], part: float = 1.0) -> Traces:
    """The traces of :func:`writing`."""
    traces, shown = Traces(), [*lines.values()]
    for slot in range(SLOTS):
        names = [f"{name} {slot}" for name in ("rest", "ink", "pen", "window", "now")]
        if slot >= len(shown):
            traces |= {name: {"visible": False} for name in names}
            continue
        line = shown[slot]
        T, U = line.phi.shape
        now = round(part * T)
        whole = joined(line.strokes)
        written = whole[: _place(line.strokes, now) + 1]
        drawn = (
            {"x": whole[:, 0], "y": whole[:, 1]},
            {"x": written[:, 0], "y": written[:, 1]},
            {"x": written[-1:, 0], "y": written[-1:, 1]},
            {"z": line.phi.T, "x": np.arange(1.0, T + 1), "y": np.arange(float(U))},
            {"x": np.array([now, now], float), "y": np.array([-0.5, U - 0.5])},
        )
        traces |= {
            name: new | {"visible": True} for name, new in zip(names, drawn, strict=True)
        }
    return traces


def joined(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Strokes as one line (N, 2) with gaps between them."""
    gap = np.full((1, 2), np.nan)
    return np.concatenate([row for stroke in strokes for row in (stroke, gap)])[:-1]


def _place(strokes: Sequence[np.ndarray], point: int) -> int:
    """The row of :func:`joined` at which a point is, counted from 0 for the first."""
    ends = np.cumsum([len(stroke) for stroke in strokes])
    return int(point + np.searchsorted(ends, point, side="right"))


def _axes(number: int) -> dict[str, str]:
    end = str(number + 1) if number else ""
    return {"xaxis": f"x{end}", "yaxis": f"y{end}"}


def writing_layout(said: str, lines: Mapping[str, Penned]) -> dict[str, Any]:
    """The axes, names and height of :func:`writing`."""
    shown = [*lines.items()]
    height = HEIGHT * max(1, len(shown)) + 48
    layout: dict[str, Any] = {
        "height": height, "margin": {"l": 60, "r": 12, "t": 6, "b": 42, "autoexpand": False},
        "annotations": [],
    }  # fmt: skip
    every = [joined(line.strokes) for line in lines.values()]
    low, high = (
        (np.nanmin(np.concatenate(every), 0), np.nanmax(np.concatenate(every), 0))
        if every
        else (np.zeros(2), np.ones(2))
    )
    for slot in range(SLOTS):
        there = slot < len(shown)
        count = max(1, len(shown))
        top = 1 - slot / count if there else 0.02
        block = 1 / count if there else 0.02
        page, below = 2 * slot, 2 * slot + 1
        (x, y), (x_w, y_w) = (
            [f"{axis}axis{number + 1 if number else ''}" for axis in "xy"]
            for number in (page, below)
        )
        ends = [f"{axis}{number + 1 if number else ''}" for number in (page, below)
                for axis in "xy"]  # fmt: skip
        quiet = {"visible": False, "fixedrange": True}
        layout[x] = quiet | {"anchor": ends[1], "range": [low[0] - 1, high[0] + 1]}
        layout[y] = quiet | {
            "anchor": ends[0], "domain": [top - 0.49 * block, top - 0.12 * block],
            "range": [low[1] - 1, high[1] + 1], "scaleanchor": ends[0],
        }  # fmt: skip
        T, U = shown[slot][1].phi.shape if there else (1, max(1, len(said)))
        layout[x_w] = {"anchor": ends[3], "range": [0.5, T + 0.5], "visible": there,
                       "fixedrange": True, "showgrid": False,
                       "title": POINTS if slot == len(shown) - 1 else {"text": ""}}  # fmt: skip
        layout[y_w] = {
            "anchor": ends[2], "domain": [top - 0.87 * block, top - 0.52 * block],
            "range": [U - 0.5, -0.5], "visible": there, "fixedrange": True, "showgrid": False,
            "tickvals": [*range(U)], "ticktext": [literal(one) for one in said],
            "tickfont": {"size": 9},
        }  # fmt: skip
        if there:
            name, line = shown[slot]
            text = f"<b>{literal(name)}</b>  {literal(line.text)}"
            layout["annotations"].append(
                {"text": text, "x": 0, "y": top - 0.02 * block, "xref": "paper",
                 "yref": "paper", "xanchor": "left", "yanchor": "top", "showarrow": False,
                 "font": {"size": 14, "color": INK}}
            )  # fmt: skip
    return layout


def window(
    said: str, looks: Mapping[str, np.ndarray], places: np.ndarray | None, *, made_on: str
) -> go.Figure:
    """The window of several nets over the characters of a line that somebody else wrote.

    Args:
        said: the text, U characters.
        looks: by title, the weight of each character at each point (T, U).
        places: the true character of each point (T,), drawn as a line; None: nobody knows.
        made_on: what stands below.
    """
    count = len(looks)
    figure = go.Figure(layout={"template": TEMPLATE, "height": 90 + 190 * count})
    for slot, (title, phi) in enumerate(looks.items()):
        end = str(slot + 1) if slot else ""
        T, U = phi.shape
        top = 1 - slot / count
        figure.add_heatmap(
            z=phi.T.astype(float), x=np.arange(1.0, T + 1), y=np.arange(float(U)),
            colorscale=SIZES, zmin=0, showscale=False, xaxis=f"x{end}", yaxis=f"y{end}",
            hovertemplate="point %{x}: %{z:.2f}<extra></extra>",
        )  # fmt: skip
        if places is not None:
            figure.add_scatter(
                x=np.arange(1.0, T + 1), y=places.astype(float), mode="lines", hoverinfo="skip",
                line={"color": MARK, "width": 2, "shape": "hv"}, showlegend=False,
                xaxis=f"x{end}", yaxis=f"y{end}",
            )  # fmt: skip
        figure.update_layout({
            f"xaxis{end}": {"anchor": f"y{end}", "range": [0.5, T + 0.5],
                            "showticklabels": slot == count - 1,
                            "title": POINTS if slot == count - 1 else {"text": ""}},
            f"yaxis{end}": {
                "anchor": f"x{end}", "domain": [top - 0.86 / count, top],
                "range": [U - 0.5, -0.5], "tickvals": [*range(U)],
                "ticktext": [literal(one) for one in said], "tickfont": {"size": 9},
            },
        })  # fmt: skip
        figure.add_annotation(
            text=literal(title), x=0, y=top, xref="paper", yref="paper", xanchor="left",
            yanchor="bottom", showarrow=False, font={"size": 13},
        )  # fmt: skip
    figure.add_annotation(
        text=literal(made_on), x=0, y=0, yshift=-52, xref="paper", yref="paper",
        xanchor="left", showarrow=False, font={"size": 12, "color": NOTE_INK},
    )  # fmt: skip
    return figure.update_layout(margin={"l": 60, "r": 12, "t": 40, "b": 66})
