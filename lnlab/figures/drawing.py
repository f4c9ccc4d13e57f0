"""A picture and what nets have drawn of it: where they look, and where they write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import GREY, ORANGE, TEMPLATE, VERMILLION, Traces, fill, literal, note

SLOTS = 3
"""The number of nets that one figure holds."""
COLUMNS = ("looked", "canvas", "dreams")
SPAN = {"looked": (0.0, 0.27), "canvas": (0.31, 0.58), "dreams": (0.66, 1.0)}
"""The place of each column."""
ROW, GAP, HEAD = 260, 50, 24
"""Pixels of a net: its pictures, what is between it and the next, and what is above all."""
AROUND = 0.3
"""The part of a picture's side that is seen around it: windows reach out of pictures."""


@dataclass(frozen=True)
class Framed:
    """The N x N filters of a window, in pixels counted from 1.

    Attributes:
        x, y: its middle.
        stride: from one filter to the next.
        sigma: the deviation of a filter.
        count: N.
    """

    x: float
    y: float
    stride: float
    sigma: float
    count: int


@dataclass(frozen=True)
class Sketch:
    """The work of one net at one moment.

    Attributes:
        canvas: uint8 (height, width).
        look, write: the windows.
        dreams: pictures that nobody has seen, uint8 (N, height, width).
        text: what stands above: the bound.
    """

    canvas: np.ndarray
    look: Framed
    write: Framed
    dreams: np.ndarray
    text: str


def drawing(picture: np.ndarray, sketches: Mapping[str, Sketch]) -> go.Figure:
    """The picture and where a net looks, its canvas and where it writes, and pictures that it
    makes up: a column for each net.

    Args:
        picture: (height, width), 0 to 255.
        sketches: by net, at most three.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for slot in range(SLOTS):
        for column, name in enumerate(COLUMNS):
            number = len(COLUMNS) * slot + column + 1
            end = str(number) if number > 1 else ""
            axes = {"xaxis": f"x{end}", "yaxis": f"y{end}"}
            figure.add_heatmap(
                name=f"{name} {slot}", colorscale="Greys", zmin=0, zmax=255, showscale=False,
                hoverinfo="skip", **axes,
            )  # fmt: skip
            if name != "dreams":
                colour = VERMILLION if name == "looked" else ORANGE
                figure.add_scatter(
                    name=f"{name} window {slot}", mode="lines+markers", hoverinfo="skip",
                    line={"color": colour, "width": 2.5}, **axes,
                )  # fmt: skip
    fill(figure, drawing_traces(picture, sketches))
    return figure.update_layout(drawing_layout(picture, sketches))


def drawing_traces(picture: np.ndarray, sketches: Mapping[str, Sketch]) -> Traces:
    """The traces of :func:`drawing`."""
    shown, traces = [*sketches.values()], Traces()
    for slot in range(SLOTS):
        there = slot < len(shown)
        for name in COLUMNS:
            hidden = {"visible": False}
            traces[f"{name} {slot}"] = hidden
            if name != "dreams":
                traces[f"{name} window {slot}"] = hidden
        if there:
            one = shown[slot]
            traces[f"looked {slot}"] = _heat(picture)
            traces[f"canvas {slot}"] = _heat(one.canvas)
            traces[f"dreams {slot}"] = _heat(sheet(one.dreams))
            traces[f"looked window {slot}"] = frame(one.look)
            traces[f"canvas window {slot}"] = frame(one.write)
    return traces


def _heat(picture: np.ndarray) -> dict[str, Any]:
    height, width = picture.shape
    x, y = np.arange(1.0, width + 1), np.arange(1.0, height + 1)
    return {"z": np.asarray(picture, np.uint8), "x": x, "y": y, "visible": True}


def frame(on: Framed) -> dict[str, Any]:
    """The outline of a window, a deviation around its outer filters, and a dot for the middle
    of each filter, larger where it sees more."""
    reach = (on.count - 1) * on.stride / 2 + on.sigma
    corner = np.array([-1.0, 1, 1, -1, -1])
    places = (np.arange(on.count) - (on.count - 1) / 2) * on.stride
    across, down = (each.ravel() for each in np.meshgrid(places, places))
    # a gap before each dot, or a line would join them
    dots = np.full((2, 2 * on.count**2), np.nan)
    dots[:, 1::2] = on.x + across, on.y + down
    large = float(np.rint(np.clip(4 + 2 * on.sigma, 4, 14)))
    return {
        "x": np.r_[on.x + reach * corner, dots[0]],
        "y": np.r_[on.y + reach * corner[[0, 0, 2, 2, 0]], dots[1]],
        "marker": {"size": [0.0] * 5 + [large] * dots.shape[1], "opacity": 0.75},
        "visible": True,
    }


def sheet(pictures: np.ndarray) -> np.ndarray:
    """Pictures (N, height, width) in rows of equally many, a pixel of paper between them."""
    count, height, width = pictures.shape
    across = int(np.ceil(count**0.5))
    down = -(-count // across)
    framed = np.zeros((down * across, height + 1, width + 1), np.uint8)
    framed[:count, :height, :width] = pictures
    rows = framed.reshape(down, across, height + 1, width + 1).transpose(0, 2, 1, 3)
    return rows.reshape(down * (height + 1), -1)[:-1, :-1]


def drawing_layout(picture: np.ndarray, sketches: Mapping[str, Sketch]) -> dict[str, Any]:
    """The axes, names and height of :func:`drawing`."""
    count = max(1, len(sketches))
    inside = count * (ROW + GAP) + HEAD
    layout: dict[str, Any] = {
        "height": inside + 30, "margin": {"l": 12, "r": 12, "t": 20, "b": 10},
    }  # fmt: skip
    notes, edges, shown = [], [], [*sketches.items()]
    for slot in range(SLOTS):
        top = 1 - (HEAD + GAP - 26 + slot * (ROW + GAP)) / inside
        there = slot < len(shown)
        for column, name in enumerate(COLUMNS):
            number = len(COLUMNS) * slot + column + 1
            end = str(number) if number > 1 else ""
            large = sheet(shown[slot][1].dreams) if there and name == "dreams" else picture
            around = 0.02 if name == "dreams" else AROUND
            height, width = large.shape
            quiet = {"visible": False, "fixedrange": True}
            layout[f"xaxis{end}"] = quiet | {
                "domain": SPAN[name], "anchor": f"y{end}", "constrain": "domain",
                "range": [0.5 - around * width, width + 0.5 + around * width],
            }  # fmt: skip
            layout[f"yaxis{end}"] = quiet | {
                "domain": [max(0.0, top - ROW / inside), top] if there else [0, 0.01],
                "anchor": f"x{end}", "scaleanchor": f"x{end}", "constrain": "domain",
                "range": [height + 0.5 + around * height, 0.5 - around * height],
            }  # fmt: skip
            if there and name != "dreams":
                edges.append(_edge(f"x{end}", f"y{end}", picture.shape))
        if there:
            name, sketch = shown[slot]
            notes.append(note(f"<b>{literal(name)}</b>  {literal(sketch.text)}", 0, top, 4))
    if shown:
        words = ("looks", "writes", "draws when it is shown nothing")
        for name, text in zip(COLUMNS, words, strict=True):
            notes.append(note(text, SPAN[name][0], 1 - HEAD / inside, 4))
    return layout | {"annotations": notes, "shapes": edges}


def _edge(x: str, y: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The edge of a picture, for windows reach over it."""
    height, width = shape
    return {
        "type": "rect", "xref": x, "yref": y, "x0": 0.5, "x1": width + 0.5, "y0": 0.5,
        "y1": height + 0.5, "line": {"color": GREY, "width": 1},
    }  # fmt: skip
