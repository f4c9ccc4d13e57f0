"""A recurrent net step by step: summed inputs, hidden states and gradients over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .style.axes import EDGE, axis_number, decades, side_by_side
from .style.palette import INK, TEMPLATE, lines
from .style.text import legend, text_above
from .style.traces import Traces, fill

SLOTS = 4
"""The number of courses that one picture holds."""

PARTS = {
    "summed": "summed inputs",
    "hidden": "hidden state h<sub>t</sub>",
    "gradient": "gradient over the last step's",
}
LEAST = {"summed": (-2, 2), "hidden": (-2, 2), "gradient": (-10, 2)}
"""The powers of ten that each axis shows at least."""

Courses = Mapping[str, Sequence[np.ndarray]]
"""Courses by normalizer: T root mean squares of summed inputs, hidden states, gradients."""


def recurrence(courses: Courses) -> go.Figure:
    """Three panels over the time steps, on logarithmic axes: a line for each normalizer."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for number, part in enumerate(PARTS, start=1):
        for slot in range(SLOTS):
            figure.add_scatter(
                name=f"{part} {slot}", mode="lines", xaxis=f"x{number}", yaxis=f"y{number}",
                hovertemplate="step %{x}: %{y:.3g}<extra></extra>", showlegend=False,
            )  # fmt: skip
    fill(figure, recurrence_traces(courses))
    return figure.update_layout(recurrence_layout(courses))


def recurrence_traces(courses: Courses) -> Traces:
    """The traces of :func:`recurrence`."""
    looks, names = lines(courses), list(courses)
    traces: Traces = {}
    for number, part in enumerate(PARTS):
        for slot in range(SLOTS):
            if slot >= len(names):
                traces[f"{part} {slot}"] = {"visible": False}
                continue
            values = courses[names[slot]][number]
            traces[f"{part} {slot}"] = {
                "x": np.arange(1.0, len(values) + 1),
                "y": np.clip(values, 10.0**-EDGE, 10.0**EDGE),
                # the later a line, the thinner: none is hidden behind another
                "line": looks[names[slot]] | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
                "visible": True,
            }
    return traces


def recurrence_layout(courses: Courses, also: Sequence[Courses] = ()) -> dict[str, Any]:
    """The axes, titles and names of :func:`recurrence`; the axes hold those of ``also``."""
    layout: dict[str, Any] = {"margin": {"l": 50, "r": 12, "t": 62, "b": 46}}
    annotations = []
    shown = [parts for each in (courses, *also) for parts in each.values()]
    steps = max((len(parts[0]) for parts in shown), default=1)
    for number, (part, title) in enumerate(PARTS.items()):
        (left, right), axis = side_by_side(len(PARTS), 0.0725)[number], axis_number(number)
        low, high = decades([parts[number] for parts in shown], *LEAST[part])
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "range": [0, steps + 1],
            "title": {"text": "time step t"},
            "fixedrange": True,
        }
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "type": "log",
            "range": [low, high],
            "exponentformat": "power",
            "dtick": max(1, round((high - low) / 6)),
            "fixedrange": True,
        }
        annotations.append(
            text_above(
                f"<b>{title}</b>", (left + right) / 2, 4, "center", {"color": INK, "size": 14}
            )
        )
    annotations.append(text_above(legend(courses), 0, 32, "left", {"size": 14}))
    return layout | {"annotations": annotations}
