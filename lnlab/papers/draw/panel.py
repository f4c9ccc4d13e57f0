"""The panel of notebook 11: how nets draw a picture, glimpse by glimpse, while they learn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import GREY, ORANGE, TEMPLATE, VERMILLION, Traces, fill, literal, note
from lnlab.panels.old_controls import choice, choice_slider, in_columns, looks
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.draw.evaluate import stills
from lnlab.training.runs import Run

# The state of the drawing panel: a picture after a glimpse, at one moment of the training.


LAST = -1


@dataclass(frozen=True)
class DrawingState:
    """One picture after one of its glimpses, at one moment of the training.

    Attributes:
        picture: which one, from 0.
        glimpse: how many there were; -1 is all.
        update: of the training; the nearest at which drawings were kept. -1 is the last.
    """

    picture: int = 0
    glimpse: int = LAST
    update: int = LAST

    def at(self, update: int) -> "DrawingState":
        """The same at another moment."""
        return replace(self, update=update)

    def after(self, glimpse: int) -> "DrawingState":
        """The same after another glimpse."""
        return replace(self, glimpse=glimpse)

    def of(self, picture: int) -> "DrawingState":
        """Another picture at the same moment."""
        return replace(self, picture=picture)


# A picture and what nets have drawn of it: where they look, and where they write.


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


def drawing_figure(picture: np.ndarray, sketches: Mapping[str, Sketch]) -> go.Figure:
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


# The drawings of nets in their training: a pure function of the panel's state.


class Drawers:
    """Several trainings that kept what they drew, and the pictures.

    Args:
        runs: by name, of the task ``draw``; of several seeds the first counts.
        pictures: the validation pictures of their data (N, height, width), 0 to 255.

    Raises:
        ValueError: where a run kept no drawings, there is none, there are too many, or one
            has other glimpses than the rest.
    """

    def __init__(self, runs: Mapping[str, Run], pictures: np.ndarray) -> None:
        if len(runs) > SLOTS:
            raise ValueError(f"{len(runs)} runs: show at most {SLOTS} at once.")
        self.rows, self.kept = looks(runs, "nets")
        self.configs = {name: run.config for name, run in runs.items()}
        lengths = {config["glimpses"] for config in self.configs.values()}
        if len(lengths) > 1:
            raise ValueError(
                f"these runs have {sorted(lengths)} glimpses: show those of one T."
            )
        self.glimpses = tuple(t + 1 for t in stills(*lengths))
        first = next(iter(self.kept.values()))
        self.updates = tuple(sorted(first))
        self.pictures = pictures[: first[self.updates[0]]["canvas"].shape[1]]

    def whole(self, state: DrawingState) -> DrawingState:
        """A state after a glimpse and an update that were kept.

        Raises:
            ValueError: for a picture that is not there.
        """
        if not 0 <= state.picture < len(self.pictures):
            raise ValueError(f"picture is {state.picture}: give 0 to {len(self.pictures) - 1}.")
        return state.at(nearest(self.updates, state.update)).after(
            nearest(self.glimpses, state.glimpse)
        )


def nearest(stops: tuple[int, ...], wanted: int) -> int:
    """The stop that is nearest to what is wanted; the last for -1."""
    if wanted == LAST:
        return stops[-1]
    return min(stops, key=lambda stop: abs(stop - wanted))


class DrawingMeasurement(NamedTuple):
    """The drawings of a picture by several nets, at one moment.

    Attributes:
        picture: (height, width), 0 to 255.
        sketches: by net.
        bounds: by net, nats a picture on validation.
    """

    picture: np.ndarray
    sketches: dict[str, Sketch]
    bounds: dict[str, float]


def measure(drawers: Drawers, state: DrawingState) -> DrawingMeasurement:
    """The measurement of a state, as it was kept; the one way in for a slider."""
    sketches, bounds = {}, {}
    k, at = drawers.glimpses.index(state.glimpse), state.picture
    for name, rows in drawers.rows.items():
        update = nearest(tuple(sorted(drawers.kept[name])), state.update)
        kept, config = drawers.kept[name][update], drawers.configs[name]
        row: Any = rows[rows["update"] == update].iloc[-1]
        bounds[name] = float(row.valid_bound)
        look, write = (
            Framed(*(float(number) for number in window[:, k, at]), count=config[which])
            for which, window in zip(("read_size", "write_size"), kept["windows"], strict=True)
        )
        text = f"{row.valid_bound:.1f} nats a picture, {row.valid_kl:.1f} of them for z"
        sketches[name] = Sketch(kept["canvas"][k, at], look, write, kept["dreams"], text)
    return DrawingMeasurement(drawers.pictures[at], sketches, bounds)


# The sentence of the drawing panel.


def sentence(state: DrawingState, measurement: DrawingMeasurement) -> str:
    """A sentence that says when it is, and how good each net is then."""
    bounds = "; ".join(f"{name} {nats:.1f}" for name, nats in measurement.bounds.items())
    return (
        f"After update {state.update}, glimpse {state.glimpse}. "
        f"Bound on validation, nats a picture: {bounds}."
    )


ABOUT = {
    "drawing": (
        "For each net the picture with the window through which it looks, its canvas with the"
        " window in which it writes, and sixteen pictures that it makes up"
    ),
}


def drawing(runs: Mapping[str, Run], pictures: np.ndarray, **settings: Any) -> Panel:
    """Drag through the glimpses of a drawing, and through the training of several nets.

    Args:
        runs: by name, at most three, of the task ``draw``.
        pictures: the validation pictures of their data (N, height, width), 0 to 255.
        settings: fields of :class:`DrawingState`: where the panel starts, and what Reset
            returns to.
    """
    there = Drawers(runs, pictures)
    state = there.whole(DrawingState(**settings))
    shown = {f"number {k + 1}": k for k in range(len(there.pictures))}
    glimpses = {str(glimpse): glimpse for glimpse in there.glimpses}
    updates = {str(update): update for update in there.updates}
    controls = {
        "glimpse": choice_slider("glimpse", [*glimpses.items()]),
        "update": choice_slider("update", [*updates.items()]),
        "picture": choice("picture", [*shown.items()]),
    }
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: DrawingState) -> dict[str, go.Figure]:
        measurement = measure(there, state)
        return {"drawing": drawing_figure(measurement.picture, measurement.sketches)}

    def look(state: DrawingState) -> View:
        measurement = measure(there, state)
        parts = measurement.picture, measurement.sketches
        made = Drawing(
            drawing_traces(*parts),
            drawing_layout(*parts),
        )
        titles = {"drawing": f"update {state.update}, glimpse {state.glimpse}"}
        return View(sentence(state, measurement), titles, {"drawing": made})

    def settable(state: DrawingState) -> list[Settable]:
        return [
            Settable("glimpse", glimpses, str(state.glimpse), DrawingState.after),
            Settable("update", updates, str(state.update), DrawingState.at),
            Settable("picture", shown, [*shown][state.picture], DrawingState.of,
                     slides=False),
        ]  # fmt: skip

    return Panel(
        "drawing", "11", state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
