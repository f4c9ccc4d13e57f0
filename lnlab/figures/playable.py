"""Figures that can be played with where no kernel runs: a slider over stored frames."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .text import literal


def playable(
    figure: go.Figure,
    frames: Mapping[str, Mapping[int | str, Mapping[str, Any]]],
    prefix: str,
    active: int,
) -> go.Figure:
    """``figure`` with a slider below it, one step for each frame.

    Arrays of the frames are stored in float32: half the size, and a picture shows no more.

    Args:
        figure: all traces are named.
        frames: for each label of the slider, attributes of traces by their names.
        prefix: what stands before the label.
        active: the frame that the figure shows as it is.
    """
    made: Any = figure.data  # pyright takes it for the names of its parts
    places = {trace.name: i for i, trace in enumerate(made)}
    kinds = {trace.name: trace.type for trace in made}
    figure.frames = [
        go.Frame(
            name=literal(label),
            data=[{"type": kinds[name], **single(new)} for name, new in traces.items()],
            traces=[places[name] for name in traces],
        )
        for label, traces in frames.items()
    ]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}}
    steps = [
        {
            "label": literal(label),
            "method": "animate",
            "args": [[literal(label)], at_once | {"transition": {"duration": 0}}],
        }
        for label in frames
    ]
    slider = {
        "active": active,
        "steps": steps,
        "currentvalue": {"prefix": literal(prefix)},
        "pad": {"t": 50},
        "ticklen": 4,
    }
    height, bottom = figure.layout.height or 450, figure.layout.margin.b or 80
    return figure.update_layout(sliders=[slider], height=height + 90, margin={"b": bottom + 90})


def single(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a trace with their arrays of float64 in float32."""
    return {
        name: value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value
        for name, value in attributes.items()
    }
