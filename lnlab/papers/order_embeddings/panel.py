"""The panel of notebook 08: type a caption, and see where it lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
from torch import Tensor

from lnlab.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    grid,
    literal,
)
from lnlab.panels.old_controls import WIDTH, choice, in_columns, one_of
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.order_embeddings import evaluate
from lnlab.papers.order_embeddings.data import PER_IMAGE, SCENES, Captions, Meaning, parse

# The state of the order panel: a caption, and the net that reads it.


@dataclass(frozen=True)
class OrderState:
    """A caption as one net reads it.

    Attributes:
        caption: in words; empty: the first of the panel's own.
        net: by name; empty: the first.
    """

    caption: str = ""
    net: str = ""

    def saying(self, caption: str) -> "OrderState":
        """Another caption, read by the same net."""
        return replace(self, caption=caption)

    def read_by(self, net: str) -> "OrderState":
        """The same caption, read by another net."""
        return replace(self, net=net)


# A caption in the order: the pictures nearest to it, all pictures, and captions around it.


SLOTS = 8
"""Pictures that are drawn, four in a row."""
NEIGHBOURS = 5
"""Captions that are shown above, and below."""
PAINTS = {
    "red": "#D7263D", "pink": "#F49AC2", "yellow": "#F2C14E", "green": "#2E933C",
    "blue": "#1B6FC2", "purple": "#7B3FA0", "": GREY,
}  # fmt: skip
"""The colours of things; "" is a thing of which only the box is known."""
NAMED = 3
"""Things of a picture whose names are written, the largest."""


@dataclass(frozen=True)
class Thing:
    """A thing in a picture.

    Attributes:
        name: what such things are called.
        shape: circle, ring, heart, triangle, square or star; "" draws its box.
        paint: one of :data:`PAINTS`.
        place: left, top, right, bottom, as fractions of the picture's sides.
    """

    name: str
    shape: str
    paint: str
    place: tuple[float, float, float, float]


@dataclass(frozen=True)
class NearPicture:
    """A picture: its things, how far the caption lies beyond it, whether it is true of it."""

    things: Sequence[Thing]
    violation: float
    true: bool | None


@dataclass(frozen=True)
class Neighbour:
    """A caption above or below another, and the violation of the upper one by the lower one."""

    text: str
    violation: float


def order_figure(
    caption: str,
    nearest: Sequence[NearPicture],
    violations: np.ndarray,
    true: np.ndarray | None,
    above: Sequence[Neighbour],
    below: Sequence[Neighbour],
) -> go.Figure:
    """Eight pictures, the violation by every picture, and the captions above and below.

    Args:
        nearest: the first eight pictures.
        violations: how much each picture violates the order below the caption (P,).
        true: whether it is true of each (P,); None where nobody knows.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 640, "showlegend": False})
    figure.update_layout(meta={"light": True})  # "a red heart" is red on a dark page, too
    for paint, colour in PAINTS.items():
        figure.add_scatter(
            name=f"things {paint}", xaxis="x", yaxis="y", mode="lines", hoverinfo="skip",
            fill="toself" if paint else "none", fillcolor=colour,
            line={"color": colour, "width": 1.5},
        )  # fmt: skip
    # of pictures in one bin those that it is true of stand before the others, which are more
    for name, colour in (("false", VERMILLION), ("true", GREEN), ("unknown", GREY)):
        figure.add_scatter(
            name=f"frames {name}", xaxis="x", yaxis="y", mode="lines", hoverinfo="skip",
            line={"color": colour, "width": 2.5},
        )  # fmt: skip
        figure.add_histogram(
            name=f"pictures {name}", xaxis="x3", yaxis="y3", marker={"color": colour},
            opacity=0.75, hovertemplate="%{x:.3f}: %{y}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        name="words", xaxis="x", yaxis="y", mode="text", hoverinfo="skip",
        textfont={"size": 11, "color": INK},
    )  # fmt: skip
    for name, colour in (("above", ORANGE), ("below", BLUE)):
        figure.add_bar(
            name=name, xaxis="x2", yaxis="y2", orientation="h", width=0.55,
            marker={"color": colour}, textposition="none",
            hovertemplate="%{text}: %{x:.3f}<extra></extra>",
        )  # fmt: skip
    given = caption, nearest, violations, true, above, below
    fill(figure, order_traces(*given))
    return figure.update_layout(order_layout(*given))


def order_traces(
    caption: str,
    nearest: Sequence[NearPicture],
    violations: np.ndarray,
    true: np.ndarray | None,
    above: Sequence[Neighbour],
    below: Sequence[Neighbour],
) -> Traces:
    """The traces of :func:`order`."""
    traces: Traces = {}
    for paint in PAINTS:
        drawn = [
            corner(slot) + outline(thing)
            for slot, shown in enumerate(nearest)
            for thing in shown.things
            if thing.paint == paint
        ]
        traces[f"things {paint}"] = polygons(drawn)
    unknown = np.full(len(violations), true is None)
    known = unknown if true is None else true
    parts = {
        "true": (True, known & ~unknown), "false": (False, ~known), "unknown": (None, unknown)
    }  # fmt: skip
    for name, (wanted, mine) in parts.items():
        frames = [
            corner(slot) + FRAME for slot, one in enumerate(nearest) if one.true is wanted
        ]
        traces[f"frames {name}"] = polygons(frames)
        traces[f"pictures {name}"] = {"x": violations[mine], "xbins": _bins(violations)}
    traces["words"] = _words(nearest)
    for name, neighbours, sign in (("above", above, 1), ("below", below, -1)):
        traces[name] = {
            "x": np.array([one.violation for one in neighbours]),
            "y": sign * np.arange(1.0, len(neighbours) + 1),
            "text": [literal(one.text) for one in neighbours],
        }
    return traces


def order_layout(
    caption: str,
    nearest: Sequence[NearPicture],
    violations: np.ndarray,
    true: np.ndarray | None,
    above: Sequence[Neighbour],
    below: Sequence[Neighbour],
) -> dict[str, Any]:
    """The axes and the words of :func:`order`."""
    quiet, places = {"visible": False, "fixedrange": True}, _places()
    widest = max([0.01, *(one.violation for one in (*above, *below))])
    lines = [(0.0, f"<b>{literal(caption)}</b>")]
    lines += [(k + 1.0, literal(one.text)) for k, one in enumerate(above)]
    lines += [(-k - 1.0, literal(one.text)) for k, one in enumerate(below)]
    notes: list[dict[str, Any]] = [
        {"x": 0, "xref": "x2", "y": y + 0.42, "yref": "y2", "text": text, "showarrow": False,
         "xanchor": "left", "font": {"size": 11, "color": INK}}
        for y, text in lines
    ]  # fmt: skip
    heads = [
        (0.0, 1.05, "the nearest pictures, and how far the caption lies beyond them"),
        (0.6, 1.05, "says less ↑"), (0.6, -0.075, "says more ↓"),
    ]  # fmt: skip
    notes += [
        {"x": x, "xref": "paper", "y": y, "yref": "paper", "text": text, "showarrow": False,
         "xanchor": "left", "font": {"size": 13}}
        for x, y, text in heads
    ]  # fmt: skip
    return {
        "margin": {"l": 50, "r": 14, "t": 50, "b": 50},
        "barmode": "overlay",
        "xaxis": places["xaxis"] | quiet | {"range": [-0.05, 4.4]},
        "yaxis": places["yaxis"] | quiet | {"range": [2.62, -0.05]},
        "xaxis2": places["xaxis2"]
        | {"range": [0, 1.15 * widest], "title": {"text": "violation"}},
        "yaxis2": places["yaxis2"]
        | quiet | {"range": [-NEIGHBOURS - 0.6, NEIGHBOURS + 0.9]},
        "xaxis3": places["xaxis3"]
        | {"title": {"text": "violation of the caption by each picture"}},
        "yaxis3": places["yaxis3"]
        | {"type": "log", "title": {"text": "pictures"}, "dtick": 1},
        "annotations": notes,
    }  # fmt: skip


@cache
def _places() -> dict[str, dict[str, Any]]:
    """The pictures above their histogram, and right of both the captions."""
    return grid(
        2, 2, specs=[[{}, {"rowspan": 2, "b": 0.04}], [{}, None]],
        column_widths=[0.56, 0.4], horizontal_spacing=0.04,
        row_heights=[0.54, 0.34], vertical_spacing=0.12,
    )  # fmt: skip


FRAME = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], float)
"""The edge of a picture, across and down."""


def corner(slot: int) -> np.ndarray:
    """The top left of a picture (2,), in units of its side."""
    return np.array([1.1 * (slot % 4), 1.32 * (slot // 4)])


def polygons(parts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Polygons (K, 2) as one line that is broken between them."""
    gap = np.full((1, 2), np.nan)
    line = np.concatenate([piece for part in parts for piece in (part, gap)] or [gap])
    return {"x": line[:, 0], "y": line[:, 1]}


def outline(thing: Thing) -> np.ndarray:
    """The outline of a thing in its picture (K, 2), closed."""
    left, top, right, bottom = thing.place
    unit = OUTLINES.get(thing.shape, FRAME)
    return np.array([left, top]) + unit * np.array([right - left, bottom - top])


def _turned(radii: np.ndarray, start: float = -0.25) -> np.ndarray:
    """Points at distances from the middle of the unit square, once around, closed."""
    around = 2 * np.pi * (start + np.arange(len(radii)) / len(radii))
    points = 0.5 + 0.5 * radii[:, None] * np.stack([np.cos(around), np.sin(around)], 1)
    return np.concatenate([points, points[:1]])


def _heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 41)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([(x + 16) / 32, (y - y.min()) / np.ptp(y)], 1)


_CIRCLE = _turned(np.ones(32))
OUTLINES = {
    "circle": _CIRCLE,
    "ring": np.concatenate([_CIRCLE, 0.5 + 0.55 * (_CIRCLE[::-1] - 0.5), _CIRCLE[:1]]),
    "heart": _heart(),
    "triangle": np.array([[0.5, 0], [1, 1], [0, 1], [0.5, 0]]),
    "square": FRAME,
    "star": _turned(np.tile([1.0, 0.4], 5)),
}
"""Outlines of shapes in the unit square, across and down."""


def _words(nearest: Sequence[NearPicture]) -> dict[str, Any]:
    """The words below every picture, and in the boxes of which only the kind is known."""
    at, text = [], []
    for slot, shown in enumerate(nearest):
        at.append(corner(slot) + np.array([0.5, 1.09]))
        said = {True: "true", False: "not true", None: ""}[shown.true]
        text.append(f"{shown.violation:.3f} {said}".strip())
        large = sorted(shown.things, key=lambda thing: -_area(thing))[:NAMED]
        for thing in large:
            if not thing.shape:
                left, top, right, bottom = thing.place
                middle = np.array([(left + right) / 2, (top + bottom) / 2])
                at.append(corner(slot) + middle)
                text.append(literal(thing.name))
    places = np.array(at).reshape(-1, 2)
    return {"x": places[:, 0], "y": places[:, 1], "text": text}


def _area(thing: Thing) -> float:
    left, top, right, bottom = thing.place
    return (right - left) * (bottom - top)


def _bins(violations: np.ndarray) -> dict[str, float]:
    low, high = float(violations.min()), float(violations.max())
    return {"start": low, "end": high + 1e-9, "size": max((high - low) / 40, 1e-9)}


# The place of a caption among pictures and captions: a pure function of the panel's state.


EXAMPLES = (
    "a red heart", "a heart", "a small thing", "a large warm polygon", "a star and a ring",
    "a blue star left of a ring", "a green thing above a square", "a cool curve",
)  # fmt: skip
"""Captions to begin with, of scenes."""
FIRST = 8
"""Captions of photographs to begin with, each of another picture."""


class Embedded:
    """Trained nets, and the test pictures as each of them sees these.

    Args:
        nets: by name, of the task ``order_embeddings``; of one vocabulary.
        dataset: that they were trained on.

    Raises:
        ValueError: if there are none, or one was trained with another vocabulary.
    """

    def __init__(self, nets: Mapping[str, Any], dataset: Captions) -> None:
        if not nets:
            raise ValueError("there are no nets: train some order embeddings first.")
        for name, net in nets.items():
            if not net.has_vocabulary(dataset.vocabulary):
                raise ValueError(
                    f"{name} was trained with another vocabulary: its words have other numbers."
                )
        self.nets, self.dataset = dict(nets), dataset
        self.seen: dict[str, Tensor] = {}
        self.of_scenes = dataset.source is SCENES
        own = dataset.test.captions[: FIRST * PER_IMAGE : PER_IMAGE]
        self.examples = EXAMPLES if self.of_scenes else own

    def whole(self, state: OrderState) -> OrderState:
        """A state with a caption and a net.

        Raises:
            ValueError: for a net that is not there, or a caption that cannot be understood.
        """
        state = OrderState(
            state.caption or self.examples[0], state.net or next(iter(self.nets))
        )
        one_of("net", state.net, [*self.nets])
        self.said(state.caption)
        return state

    def said(self, caption: str) -> Meaning | None:
        """The meaning of a caption; None where nobody but its author knows.

        Raises:
            ValueError: if it has no words, or, of scenes, is not understood.
        """
        if self.of_scenes:
            return parse(caption)
        self.dataset.vocabulary.encode(caption)
        return None

    def pictures(self, net: str) -> Tensor:
        """The test pictures as a net sees them (P, H)."""
        if net not in self.seen:
            self.seen[net] = evaluate.embed_images(self.nets[net], self.dataset.test)
        return self.seen[net]

    def points(self, net: str, captions: tuple[str, ...]) -> Tensor:
        """Captions as a net reads them (C, H)."""
        return evaluate.embed_captions(self.nets[net], captions, self.dataset.vocabulary)

    def things(self, place: int) -> list[Thing]:
        """The things in a test picture."""
        boxes = self.dataset.test.boxes
        if not boxes:
            return []
        found = []
        for kind, where in zip(boxes[place].categories, boxes[place].corners, strict=True):
            name = self.dataset.categories[kind]
            paint, shape = name.split() if self.of_scenes else ("", "")
            left, top, right, bottom = map(float, where)
            found.append(Thing(name, shape, paint, (left, top, right, bottom)))
        return found


class OrderMeasurement(NamedTuple):
    """The place of a caption.

    Attributes:
        caption: as it was said.
        nearest: the first pictures.
        violations: by every test picture (P,).
        true: whether it is true of each (P,); None where nobody knows.
        above, below: captions that say less, and more.
        unknown: its words that the vocabulary does not have.
    """

    caption: str
    nearest: list[NearPicture]
    violations: np.ndarray
    true: np.ndarray | None
    above: list[Neighbour]
    below: list[Neighbour]
    unknown: tuple[str, ...]


def measure(there: Embedded, state: OrderState) -> OrderMeasurement:
    """The place of the caption of a state; the one way into this room for a move."""
    state = there.whole(state)
    said, dataset = there.said(state.caption), there.dataset
    own = there.points(state.net, (str(said) if said else state.caption.lower(),))
    violations = evaluate.order_violations(own, there.pictures(state.net))[0]
    true = dataset.truth([state.caption])
    first = violations.argsort()[:SLOTS].tolist()
    nearest = [
        NearPicture(
            there.things(place),
            float(violations[place]),
            None if true is None else bool(true[0, place]),
        )
        for place in first
    ]
    less = tuple(map(str, said.generalizations()))[:NEIGHBOURS] if said else ()
    more = specials(there, said) if said else ()
    above = [
        Neighbour(text, float((general - own[0]).relu().square().sum()))
        for text, general in _read(there, state.net, less)
    ]
    below = [
        Neighbour(text, float((own[0] - special).relu().square().sum()))
        for text, special in _read(there, state.net, more)
    ]
    unknown = tuple(w for w in state.caption.lower().split() if w not in dataset.vocabulary)
    return OrderMeasurement(
        state.caption, nearest, violations.numpy().astype(float),
        None if true is None else true[0], above, below, () if said else unknown,
    )  # fmt: skip


def specials(there: Embedded, said: Meaning) -> tuple[str, ...]:
    """Test captions that say more, the first that are found."""
    found: dict[str, None] = {}
    for text in there.dataset.test.captions:
        special = parse(text)
        if special != said and special.entails(said):
            found[text] = None
        if len(found) == NEIGHBOURS:
            break
    return (*found,)


def _read(there: Embedded, net: str, texts: tuple[str, ...]) -> list[tuple[str, Tensor]]:
    return [*zip(texts, there.points(net, texts), strict=True)] if texts else []


# The sentence of the order panel, of a caption.


def sentence(state: OrderState, measurement: OrderMeasurement) -> str:
    """The number of nearest pictures that it is true of, and how the captions around it lie."""
    said = [f"“{measurement.caption}”, read by {state.net}."]
    if measurement.unknown:
        unknown = ", ".join(measurement.unknown)
        said.append(f"Words that it never met, all read as one unknown word: {unknown}.")
    if measurement.true is None:
        said.append("Whether it is true of a picture, only the one who wrote it knows.")
    else:
        right = sum(bool(shown.true) for shown in measurement.nearest)
        said.append(
            f"It is true of {right} of the {len(measurement.nearest)} nearest pictures, and of "
            f"{int(measurement.true.sum())} of all {len(measurement.true)}."
        )
    for words, captions in (("less", measurement.above), ("more", measurement.below)):
        if captions:
            violation = mean(one.violation for one in captions)
            said.append(
                f"The order to captions that say {words} is violated by {violation:.3f}."
            )
    return " ".join(said)


ABOUT = {
    "order": (
        "The eight pictures nearest to a caption, framed by whether it is true of them; how "
        "far it lies beyond every picture; and captions that say less and more"
    ),
}


def order(
    nets: Mapping[str, Any], dataset: Captions, *, notebook: str = "08", **settings: Any
) -> Panel:
    """Type a caption, or choose one, and see the pictures below it and the captions around it.

    Args:
        nets: trained ones by name, of the task ``order_embeddings``.
        dataset: that they were trained on; its test pictures are shown.
        notebook: number of the one whose parameter ``panel`` takes the state; "": none.
        settings: fields of :class:`OrderState`: where the panel starts, and what Reset returns
            to.
    """
    there = Embedded(nets, dataset)
    state = there.whole(OrderState(**settings))
    controls = {
        "caption": ipywidgets.Combobox(
            options=there.examples, description="caption", continuous_update=False,
            placeholder="type a caption", style={"description_width": WIDTH},
            layout={"width": "476px"},
        ),
        "net": choice("net", [(name, name) for name in there.nets]),
    }  # fmt: skip
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: OrderState) -> dict[str, go.Figure]:
        return {"order": order_figure(*measure(there, state)[:6])}

    def look(state: OrderState) -> View:
        measurement = measure(there, state)
        shown = measurement[:6]
        drawing = Drawing(order_traces(*shown), order_layout(*shown))
        titles = {"order": f"{measurement.caption}, {state.net}"}
        return View(sentence(state, measurement), titles, {"order": drawing})

    def settable(state: OrderState) -> list[Settable]:
        captions = {text: text for text in dict.fromkeys((state.caption, *there.examples))}
        nets = {name: name for name in there.nets}
        return [
            Settable("caption", captions, state.caption, OrderState.saying, slides=False),
            Settable("net", nets, state.net, OrderState.read_by, slides=False),
        ]

    return Panel(
        "order", notebook, state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
