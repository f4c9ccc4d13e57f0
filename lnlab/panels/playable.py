"""Figures that can be played with where no kernel runs: one picture for each choice."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from lnlab.figures.style import caption_lines, heading, literal, with_title

Figure = Mapping[str, Any]
"""A figure as plotly takes it: its traces (``data``) and its ``layout``."""

Position = tuple[int, ...]
"""The stop of every choice, in the order of the choices."""

BELOW = 90
"""Pixels below a figure for plotly's slider."""

SIZE = ("height", "margin")
"""Attributes of a layout that are the same at every stop: the figure keeps its place."""


@dataclass(frozen=True)
class Choice:
    """Something that the reader of a page can set.

    Attributes:
        name: what stands beside it.
        stops: what it can be set to, in words and in order.
        at: the index of the stop that the figure shows as it is.
        slides: whether the stops are places on a scale, to be dragged along; else they are
            a list to choose from.
    """

    name: str
    stops: Sequence[str]
    at: int
    slides: bool = True


class Frame(NamedTuple):
    """A figure at one stop of every choice, its title and the sentence about it."""

    figure: Figure
    title: str
    caption: str


def playable(
    choices: Sequence[Choice],
    frames: Mapping[Position, Frame],
    suggestions: Mapping[str, Position] | None = None,
) -> go.Figure:
    """Return one figure that holds all frames, with a slider for the first choice.

    A page of lnlab reads the choices and the frames (:func:`packed`) from ``layout.meta`` and
    has a control for each choice; everything else that draws plotly figures (JupyterLab where
    no kernel runs) has plotly's own slider over the first one. Arrays are stored in float32:
    half the size, and a picture shows no more.

    Args:
        choices: what can be set; the figure shows the frame at ``choice.at`` of each.
        frames: at every combination of stops, all with the same traces.
        suggestions: things to try, as texts with the combination of stops of each.

    Raises:
        ValueError: a combination of stops has no frame.
    """
    positions = [*product(*(range(len(choice.stops)) for choice in choices))]
    missing = [position for position in positions if position not in frames]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(positions)} frames are missing: {missing[0]}, ..."
        )
    shown = tuple(choice.at for choice in choices)
    figure = with_title(
        go.Figure(frames[shown].figure),
        frames[shown].title,
        frames[shown].caption,
        lines=max(caption_lines(frame.caption) for frame in frames.values()),
    )
    traces, layouts = moving_traces(frames), differing(padded_layouts(frames))
    for position, (_, title, caption) in frames.items():
        layouts[position] |= {
            "title": heading(title, caption),
            "meta": {"caption": literal(caption)},
        }
    kinds = [trace["type"] for trace in frames[shown].figure["data"]]
    figure.frames = [
        go.Frame(
            name=frame_name(position),
            data=[{"type": kinds[index], **new} for index, new in traces[position].items()],
            traces=[*traces[position]],
            layout=layouts[position],
        )
        for position in positions
        if position[1:] == shown[1:]
    ]
    stops = {
        frame_name(position): {"traces": traces[position], "layout": layouts[position]}
        for position in positions
    }
    layout: Any = figure.layout
    stored = [
        {
            "name": literal(choice.name),
            "stops": [literal(words) for words in choice.stops],
            "at": choice.at,
            "slides": choice.slides,
        }
        for choice in choices
    ]
    tries = [{"text": literal(text), "stops": at} for text, at in (suggestions or {}).items()]
    meta = {"choices": stored, "frames": packed(stops), "below": BELOW}
    return figure.update_layout(
        meta=layout.meta | meta | ({"suggestions": tries} if tries else {}),
        sliders=[slider(choices[0], shown)],
        height=layout.height + BELOW,
        margin={"b": (layout.margin.b or 80) + BELOW},
    )


def packed(frames: Mapping[str, Mapping[str, Any]]) -> str:
    """Return frames in few bytes: base64 of gzip of JSON, equal values stored once.

    The JSON has ``parts``, a list of values of attributes, and ``frames``, in which the number
    of a part stands for each value.

    Args:
        frames: by name, each with ``traces``, attributes by the number of a trace, and
            ``layout``, attributes.
    """
    parts: dict[str, int] = {}

    def numbers(attributes: Mapping[str, Any]) -> dict[str, int]:
        texts = {key: str(to_json_plotly(binary(each))) for key, each in attributes.items()}
        return {key: parts.setdefault(text, len(parts)) for key, text in texts.items()}

    short = {
        name: {
            "traces": {index: numbers(new) for index, new in frame["traces"].items()},
            "layout": numbers(frame["layout"]),
        }
        for name, frame in frames.items()
    }
    whole = f'{{"parts":[{",".join(parts)}],"frames":{json.dumps(short)}}}'
    return base64.b64encode(gzip.compress(whole.encode(), mtime=0)).decode()


def binary(value: Any) -> Any:
    """Return an array of float32 as plotly.js reads it in base64; anything else as it is."""
    if getattr(value, "dtype", None) != np.float32:
        return value
    data = base64.b64encode(value.tobytes()).decode()
    return {"dtype": "f4", "bdata": data, "shape": ",".join(map(str, value.shape))}


def frame_name(position: Position) -> str:
    """Return the name of the frame at a place."""
    return ",".join(map(str, position))


def slider(first: Choice, shown: Position) -> dict[str, Any]:
    """Return plotly's slider over the first choice, the others as they are shown."""
    # what is not drawn anew keeps its title, and a heat map its colours
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
    steps = [
        {
            "label": literal(label),
            "method": "animate",
            "args": [
                [frame_name((stop, *shown[1:]))],
                at_once | {"transition": {"duration": 0}},
            ],
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


def moving_traces(
    frames: Mapping[Position, Frame],
) -> dict[Position, dict[int, dict[str, Any]]]:
    """Return by frame and index of a trace the attributes that are not the same in all."""
    moving: dict[Position, dict[int, dict[str, Any]]] = {position: {} for position in frames}
    columns = zip(*(frame.figure["data"] for frame in frames.values()), strict=True)
    for index, traces in enumerate(columns):
        for position, new in differing(dict(zip(frames, traces, strict=True))).items():
            if new:
                moving[position][index] = {key: single(value) for key, value in new.items()}
    return moving


def padded_layouts(frames: Mapping[Position, Frame]) -> dict[Position, dict[str, Any]]:
    """Return the layout of each frame with as many annotations and shapes as the longest has.

    An animation of plotly writes one list over another: what is longer would keep its end.
    """
    layouts = {
        position: {
            key: value for key, value in frame.figure["layout"].items() if key not in SIZE
        }
        for position, frame in frames.items()
    }
    for kind in ("annotations", "shapes"):
        longest = max(len(layout.get(kind, ())) for layout in layouts.values())
        for layout in layouts.values() if longest else ():
            items = [{"visible": True, **item} for item in layout.get(kind, ())]
            layout[kind] = items + [{"visible": False}] * (longest - len(items))
    return layouts


def differing(each: Mapping[Position, Mapping[str, Any]]) -> dict[Position, dict[str, Any]]:
    """Return attributes without those that have the same value everywhere."""
    first = next(iter(each.values()))
    keys = dict.fromkeys(key for one in each.values() for key in one)
    fixed = {
        key
        for key in keys
        if key in first
        and all(key in one and same(one[key], first[key]) for one in each.values())
    }
    return {
        position: {key: value for key, value in one.items() if key not in fixed}
        for position, one in each.items()
    }


def same(one: Any, other: Any) -> bool:
    """Return True if two attributes are equal; NaN is equal to itself."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    return type(one) is type(other) and (one == other or (one != one and other != other))


def single(value: Any) -> Any:
    """Return an attribute, an array of float64 in float32."""
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value
