"""Figures that can be played with where no kernel runs: one picture for each choice."""

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from lnlab.figures.style import add_title, caption_lines, escape, heading

Figure = Mapping[str, Any]
"""A figure as plotly takes it: its traces (``data``) and its ``layout``."""

Position = tuple[int, ...]
"""The stop of every choice, in the order of the choices."""

BELOW = 90
"""Pixels below a figure for plotly's slider."""

SIZE = ("height", "margin")
"""Attributes of a layout that are the same at every stop: the figure keeps its place."""


class Shown(NamedTuple):
    """The figure of a state, its title and the sentence about it.

    Attributes:
        figure: always with the same traces, by number, name and type; one that is not seen
            has ``visible=False``.
        title: says what the figure shows, and of what.
        sentence: says the number that matters.
    """

    figure: Figure
    title: str
    sentence: str


@dataclass(frozen=True)
class PageControl:
    """A control of a panel that is there without a kernel too.

    Attributes:
        name: what stands beside it.
        stops: what it can be set to, by words, in order.
        value: the one of ``stops`` that the state has.
        put: returns a state with another value.
        slides: whether the stops are places on a scale, else a list.
    """

    name: str
    stops: Mapping[str, Any]
    value: Any
    put: Callable[[Any, Any], Any]
    slides: bool = True

    @property
    def at(self) -> int:
        """The index of the stop that the figure shows as it is."""
        return [*self.stops.values()].index(self.value)


def playable(
    choices: Sequence[PageControl],
    frames: Mapping[Position, Shown],
    suggestions: Mapping[str, Position] | None = None,
) -> go.Figure:
    """Return one figure that holds all frames, with a slider for the first choice.

    A page of lnlab reads choices and frames (:func:`pack_frames`) from ``layout.meta`` and has
    a control for each choice; everything else that draws plotly figures (JupyterLab where
    no kernel runs) has plotly's own slider over the first one. Arrays are stored in float32:
    half the size, and a picture shows no more.

    Args:
        choices: what can be set; the figure shows the frame at ``choice.at`` of each.
        frames: at every combination of stops, all with the same traces.
        suggestions: things to try, as texts with the combination of stops of each.
    """
    positions = [*product(*(range(len(choice.stops)) for choice in choices))]
    shown = tuple(choice.at for choice in choices)
    first, title, sentence = frames[shown]
    longest = max(caption_lines(frame.sentence) for frame in frames.values())
    figure = add_title(go.Figure(first), title, sentence, lines=longest)
    traces, layouts = moving_traces(frames), drop_constant(pad_layouts(frames))
    for position, (_, title, sentence) in frames.items():
        caption = {"caption": escape(sentence)}
        layouts[position] |= {"title": heading(title, sentence), "meta": caption}
    kinds = [trace["type"] for trace in first["data"]]
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
    stored = [
        {
            "name": escape(choice.name),
            "stops": [*map(escape, choice.stops)],
            "at": choice.at,
            "slides": choice.slides,
        }
        for choice in choices
    ]
    meta = {"choices": stored, "frames": pack_frames(stops), "below": BELOW}
    if suggestions:
        texts = suggestions.items()
        meta["suggestions"] = [{"text": escape(text), "stops": at} for text, at in texts]
    layout: Any = figure.layout
    return figure.update_layout(
        meta=layout.meta | meta,
        sliders=[slider(choices[0], shown)],
        height=layout.height + BELOW,
        margin={"b": (layout.margin.b or 80) + BELOW},
    )


def pack_frames(frames: Mapping[str, Mapping[str, Any]]) -> str:
    """Return frames in few bytes: base64 of gzip of JSON, equal values stored once.

    The JSON has ``parts``, a list of values of attributes, and ``frames``, in which the number
    of a part stands for each value.

    Args:
        frames: by name, each with ``traces``, attributes by the number of a trace, and
            ``layout``, attributes.
    """
    parts: dict[str, int] = {}

    def numbers(attributes: Mapping[str, Any]) -> dict[str, int]:
        texts = {
            key: str(to_json_plotly(encode_float32(each))) for key, each in attributes.items()
        }
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


def encode_float32(value: Any) -> Any:
    """Return an array of float32 as plotly.js reads it in base64; anything else as it is."""
    if getattr(value, "dtype", None) != np.float32:
        return value
    data = base64.b64encode(value.tobytes()).decode()
    return {"dtype": "f4", "bdata": data, "shape": ",".join(map(str, value.shape))}


def frame_name(position: Position) -> str:
    return ",".join(map(str, position))


def slider(first: PageControl, shown: Position) -> dict[str, Any]:
    """Return plotly's slider over the first choice, the others as they are shown."""
    # what is not drawn anew keeps its title, and a heat map its colours
    at_once: dict[str, Any] = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
    at_once["transition"] = {"duration": 0}
    steps = [
        {
            "label": escape(label),
            "method": "animate",
            "args": [[frame_name((stop, *shown[1:]))], at_once],
        }
        for stop, label in enumerate(first.stops)
    ]
    prefix = {"prefix": f"{escape(first.name)} "}
    return {
        "active": first.at, "steps": steps, "currentvalue": prefix, "pad": {"t": 50},
        "ticklen": 4,
    }  # fmt: skip


def moving_traces(
    frames: Mapping[Position, Shown],
) -> dict[Position, dict[int, dict[str, Any]]]:
    """Return by frame and index of a trace the attributes that are not the same in all."""
    moving: dict[Position, dict[int, dict[str, Any]]] = {position: {} for position in frames}
    columns = zip(*(frame.figure["data"] for frame in frames.values()), strict=True)
    for index, traces in enumerate(columns):
        for position, new in drop_constant(dict(zip(frames, traces, strict=True))).items():
            if new:
                moving[position][index] = {key: to_float32(value) for key, value in new.items()}
    return moving


def to_float32(value: Any) -> Any:
    """Return an attribute, an array of float64 in float32."""
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value


def pad_layouts(frames: Mapping[Position, Shown]) -> dict[Position, dict[str, Any]]:
    """Return the layout of each frame with as many annotations and shapes as the longest has.

    An animation of plotly writes one list over another: what is longer would keep its end.
    """
    layouts = {
        position: {k: value for k, value in frame.figure["layout"].items() if k not in SIZE}
        for position, frame in frames.items()
    }
    for kind in ("annotations", "shapes"):
        longest = max(len(layout.get(kind, ())) for layout in layouts.values())
        for layout in layouts.values() if longest else ():
            items = [{"visible": True, **item} for item in layout.get(kind, ())]
            layout[kind] = items + [{"visible": False}] * (longest - len(items))
    return layouts


def drop_constant(each: Mapping[Position, Mapping[str, Any]]) -> dict[Position, dict[str, Any]]:
    """Return attributes without those that have the same value everywhere."""
    first, *others = each.values()
    fixed = {
        key
        for key, value in first.items()
        if all(key in other and is_equal(other[key], value) for other in others)
    }
    return {
        position: {key: value for key, value in one.items() if key not in fixed}
        for position, one in each.items()
    }


def is_equal(one: Any, other: Any) -> bool:
    """Return True if two attributes are equal; NaN is equal to itself."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    return type(one) is type(other) and (one == other or (one != one and other != other))
