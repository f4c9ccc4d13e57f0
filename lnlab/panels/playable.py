"""Figures that can be played with where no kernel runs: one picture for each choice."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from lnlab.figures.style import (
    add_title,
    count_wrapped_caption_lines,
    escape,
    title_with_caption,
)

Figure = Mapping[str, Any]
"""A plotly figure as a plain mapping with its traces (``data``) and its ``layout``."""

ValueIndices = tuple[int, ...]
"""The index of the chosen value of each page control, in the order of the controls."""

SIZE = ("height", "margin")
"""Attributes of a layout that no frame changes, so that the figure keeps its size."""

WORDS = {"title", "meta"}
"""Attributes of a layout stored in every frame, because the page reads them there."""


class TitledFigure(NamedTuple):
    """A figure with its title and a sentence about it.

    Attributes:
        figure: its traces have a name each.
        title: says what the figure shows, and of what.
        sentence: says the number that matters.
    """

    figure: Figure
    title: str
    sentence: str


class PageControl(NamedTuple):
    """A control of a panel that is there without a kernel too.

    Attributes:
        label: what stands beside it.
        value_labels: the words of what it can be set to, in order.
        current_index: the index of the value that the figure shows as it is.
        is_slider: whether the values are places on a scale, else a list.
    """

    label: str
    value_labels: Sequence[str]
    current_index: int
    is_slider: bool = True


def figure_with_page_controls(
    controls: Sequence[PageControl],
    frames: Mapping[ValueIndices, TitledFigure],
    suggestions: Mapping[str, ValueIndices] | None = None,
) -> go.Figure:
    """Return the figure of the present stops, which holds all others for a page of lnlab.

    The page reads choices and frames (:func:`pack_frames`) from ``layout.meta`` and has a
    control for each choice.

    Args:
        controls: what can be set; the figure shows the frame at the current value of each.
        frames: at every combination of stops. The names of the traces of each are among
            those of the frame that has most.
        suggestions: things to try, as texts with the combination of stops of each.
    """
    longest = max(count_wrapped_caption_lines(frame.sentence) for frame in frames.values())
    padded = dict(
        zip(
            frames, pad_to_same_traces([frame.figure for frame in frames.values()]), strict=True
        )
    )
    stops = {}
    for position, (_, title, sentence) in frames.items():
        layout = {k: v for k, v in padded[position]["layout"].items() if k not in SIZE}
        layout |= {
            "title": title_with_caption(title, sentence),
            "meta": (layout.get("meta") or {}) | {"caption": escape(sentence)},
        }
        stops[",".join(map(str, position))] = padded[position]["data"], layout
    meta: dict[str, Any] = {
        "choices": [
            {"name": escape(name), "stops": [*map(escape, words)], "at": at, "slides": slides}
            for name, words, at, slides in controls
        ],
        "frames": pack_frames(stops),
    }
    if suggestions:
        texts = suggestions.items()
        meta["suggestions"] = [{"text": escape(text), "stops": at} for text, at in texts]
    now = tuple(control.current_index for control in controls)
    figure = add_title(go.Figure(padded[now]), *frames[now][1:], min_caption_lines=longest)
    layout: Any = figure.layout
    return figure.update_layout(meta=layout.meta | meta)


def pad_to_same_traces(figures: Sequence[Figure]) -> list[Figure]:
    """Return figures of which all have the traces and axes that any has, some not seen."""
    longest = max((figure["data"] for figure in figures), key=len)
    kinds = {trace["name"]: trace["type"] for trace in longest}
    keys = {key for figure in figures for key in figure["layout"]}
    hidden = {key: {"visible": False} if "axis" in key else [] for key in keys}
    padded = []
    for figure in figures:
        own = {trace["name"]: {"visible": True, **trace} for trace in figure["data"]}
        rest = {"visible": False}
        data = [own.get(name, rest) | {"type": kinds[name], "name": name} for name in kinds]
        padded.append({"data": data, "layout": hidden | dict(figure["layout"])})
    return padded


def pack_frames(frames: Mapping[str, tuple[Sequence[Mapping], Mapping]]) -> str:
    """Return frames in few bytes: base64 of gzip of JSON, equal values stored once.

    The JSON has ``parts``, a list of values of attributes, and ``frames``, in which the number
    of a part stands for each value: by name ``traces``, attributes by the number of a trace,
    and ``layout``, attributes. What is the same in all frames is in none. Arrays are stored in
    float32: half the size, and a picture shows no more.

    Args:
        frames: by name the traces and the layout.
    """
    texts = [
        [
            {key: plotly_attribute_to_json(value) for key, value in item.items()}
            for item in (*traces, layout)
        ]
        for traces, layout in frames.values()
    ]
    parts: dict[str, int] = {}
    moving = []
    for items in zip(*texts, strict=True):
        keys = dict.fromkeys(key for item in items for key in item)
        vary = {key for key in keys if len({item.get(key) for item in items}) > 1} | WORDS
        moving.append([
            {k: parts.setdefault(text, len(parts)) for k, text in item.items() if k in vary}
            for item in items
        ])  # fmt: skip
    *traces, layouts = moving
    packed = {
        name: {
            "traces": {index: each[k] for index, each in enumerate(traces) if each[k]},
            "layout": layouts[k],
        }
        for k, name in enumerate(frames)
    }
    whole = f'{{"parts":[{",".join(parts)}],"frames":{json.dumps(packed)}}}'
    return base64.b64encode(gzip.compress(whole.encode(), mtime=0)).decode()


def plotly_attribute_to_json(value: Any) -> str:
    """Return an attribute as JSON, an array of floats as plotly.js reads it in base64."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        data = base64.b64encode(value.astype(np.float32).tobytes()).decode()
        value = {"dtype": "f4", "bdata": data, "shape": ",".join(map(str, value.shape))}
    return str(to_json_plotly(value))
