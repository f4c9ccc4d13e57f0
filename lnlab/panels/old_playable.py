"""Figures that can be played with where no kernel runs: one picture stored for each choice."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from lnlab.figures.style import caption_lines, heading, literal, titled
from lnlab.panels.playable import Choice

Place = tuple[int, ...]
"""The stop of every choice, in the order of the choices."""


@dataclass(frozen=True)
class OldFrame:
    """A figure at one stop of every choice, and what is said of it.

    Attributes:
        title: what is shown, and of what.
        caption: the number that matters, in a sentence.
        traces: new attributes of traces by their names.
        layout: new attributes of the layout.
    """

    title: str
    caption: str
    traces: Mapping[int | str, Mapping[str, Any]]
    layout: Mapping[str, Any]


def playable(
    figure: go.Figure, choices: Sequence[Choice], frames: Mapping[Place, OldFrame]
) -> go.Figure:
    """``figure`` with its frames, under the title and over the slider of the first choice.

    A page of lnlab reads the choices and the frames (:func:`packed`) from ``layout.meta`` and
    has a control for each choice; everything else that draws plotly figures (JupyterLab where
    no kernel runs) has plotly's own slider over the first one. Arrays are stored in float32:
    half the size, and a picture shows no more.

    Args:
        figure: all traces are named; it shows the frame at ``choice.at`` of every choice.
        choices: what can be set.
        frames: at every combination of stops.

    Raises:
        ValueError: a combination of stops has no frame.
        KeyError: a frame has a trace that the figure does not have.
    """
    places = list(product(*(range(len(choice.stops)) for choice in choices)))
    missing = [place for place in places if place not in frames]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(places)} frames are missing: {missing[0]}, ..."
        )
    made: Any = figure.data  # pyright takes it for the names of its parts
    index = {trace.name: i for i, trace in enumerate(made)}
    kinds = {trace.name: trace.type for trace in made}
    shown = tuple(choice.at for choice in choices)
    figure = titled(
        figure,
        frames[shown].title,
        frames[shown].caption,
        lines=max(caption_lines(frame.caption) for frame in frames.values()),
    )
    traces, layouts = moving(frames)
    for place in places:
        title, caption = frames[place].title, frames[place].caption
        layouts[place]["title"] = heading(title, caption)
        layouts[place]["meta"] = {"caption": literal(caption)}
    figure.frames = [
        go.Frame(
            name=named(place),
            data=[{"type": kinds[name], **new} for name, new in traces[place].items()],
            traces=[index[name] for name in traces[place]],
            layout=layouts[place],
        )
        for place in places
        if place[1:] == shown[1:]
    ]
    stops = {
        named(place): {
            "traces": {index[name]: new for name, new in traces[place].items()},
            "layout": layouts[place],
        }
        for place in places
    }
    layout: Any = figure.layout
    return figure.update_layout(
        meta=layout.meta
        | {
            "choices": [stored(choice) for choice in choices],
            "frames": packed(stops),
            "below": BELOW,
        },
        sliders=[slider(choices, shown)],
        height=layout.height + BELOW,
        margin={"b": (layout.margin.b or 80) + BELOW},
    )


def stored(choice: Choice) -> dict[str, Any]:
    """A choice as a page reads it."""
    return {
        "name": literal(choice.name),
        "stops": [literal(words) for words in choice.stops],
        "at": choice.at,
        "slides": choice.slides,
    }


def packed(frames: Mapping[str, Mapping[str, Any]]) -> str:
    """Frames in few bytes: base64 of gzip of JSON, what is equal in several of them once.

    The JSON has ``parts``, a list of values of attributes, and ``frames``, in which the number
    of a part stands for each value.

    Args:
        frames: by name, each with ``traces``, attributes by the number of a trace, and
            ``layout``, attributes.
    """
    parts: dict[str, int] = {}

    def part(value: Any) -> int:
        return parts.setdefault(str(to_json_plotly(binary(value))), len(parts))

    def numbered(attributes: Mapping[str, Any]) -> dict[str, int]:
        return {key: part(value) for key, value in attributes.items()}

    short = {
        name: {
            "traces": {index: numbered(new) for index, new in frame["traces"].items()},
            "layout": numbered(frame["layout"]),
        }
        for name, frame in frames.items()
    }
    whole = f'{{"parts":[{",".join(parts)}],"frames":{json.dumps(short)}}}'
    return base64.b64encode(gzip.compress(whole.encode(), mtime=0)).decode()


def binary(value: Any) -> Any:
    """An array of float32 as plotly.js reads it in base64; anything else as it is."""
    if getattr(value, "dtype", None) != np.float32:
        return value
    data = base64.b64encode(value.tobytes()).decode()
    return {"dtype": "f4", "bdata": data, "shape": ",".join(map(str, value.shape))}


BELOW = 90
"""Pixels below a figure for plotly's slider."""


def named(place: Place) -> str:
    """The name of the frame at a place."""
    return ",".join(map(str, place))


def slider(choices: Sequence[Choice], shown: Place) -> dict[str, Any]:
    """Plotly's slider over the first choice, the others as they are shown."""
    first, *_ = choices
    # what is not drawn anew keeps its title, and a heat map its colours
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
    steps = [
        {
            "label": literal(label),
            "method": "animate",
            "args": [[named((stop, *shown[1:]))], at_once | {"transition": {"duration": 0}}],
        }
        for stop, label in enumerate(first.stops)
    ]
    return {
        "active": first.at,
        "steps": steps,
        "currentvalue": {"prefix": f"{literal(first.name)} "},
        "pad": {"t": 50},
        "ticklen": 4,
    }


def moving(
    frames: Mapping[Place, OldFrame],
) -> tuple[dict[Place, dict[int | str, dict[str, Any]]], dict[Place, dict[str, Any]]]:
    """The attributes of traces and layout of each frame that are not those of all."""
    names = dict.fromkeys(name for frame in frames.values() for name in frame.traces)
    traces: dict[Place, dict[int | str, dict[str, Any]]] = {place: {} for place in frames}
    for name in names:
        each = {place: frame.traces.get(name, {}) for place, frame in frames.items()}
        for place, new in differing(each).items():
            if new:
                traces[place][name] = {key: small(value) for key, value in new.items()}
    return traces, differing(padded(frames))


def differing(each: Mapping[Place, Mapping[str, Any]]) -> dict[Place, dict[str, Any]]:
    """Attributes without those that have the same value everywhere."""
    first = next(iter(each.values()))
    keys = dict.fromkeys(key for one in each.values() for key in one)
    moves = {
        key
        for key in keys
        if not all(
            key in one and key in first and same(one[key], first[key]) for one in each.values()
        )
    }
    return {place: {k: v for k, v in one.items() if k in moves} for place, one in each.items()}


def same(one: Any, other: Any) -> bool:
    """True if two attributes are equal; NaN is equal to itself."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    return type(one) is type(other) and (one == other or (one != one and other != other))


SIZE = ("height", "margin")
"""Attributes of a layout that are the same at every stop: the figure stands still."""


def padded(frames: Mapping[Place, OldFrame]) -> dict[Place, dict[str, Any]]:
    """The layout of each frame with as many annotations and shapes as the longest has.

    An animation of plotly writes one list over another: what is longer would keep its end.
    """
    layouts = {
        place: {key: value for key, value in frame.layout.items() if key not in SIZE}
        for place, frame in frames.items()
    }
    for kind in ("annotations", "shapes"):
        longest = max(len(frame.layout.get(kind, ())) for frame in frames.values())
        for layout in layouts.values() if longest else ():
            there = [{"visible": True, **item} for item in layout.get(kind, ())]
            layout[kind] = there + [{"visible": False}] * (longest - len(there))
    return layouts


def small(value: Any) -> Any:
    """An attribute, an array of float64 in float32."""
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value
