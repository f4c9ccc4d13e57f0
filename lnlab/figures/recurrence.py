"""A recurrent net step by step: summed inputs, hidden states and gradients over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    EDGE,
    INK,
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    legend,
    lines,
    side_by_side,
    text_above,
)

SLOTS = 4
"""The number of courses that one picture holds."""

PARTS = {
    "summed": "summed inputs",
    "hidden": "hidden state h<sub>t</sub>",
    "gradient": "gradient over the last step's",
}
POWERS = {"summed": (-2, 4), "hidden": (-2, 4), "gradient": (-12, 8)}
"""The powers of ten that each axis shows, whatever is drawn.

On an axis that follows a net which explodes, all others are flat.
"""

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


def leaving(courses: Courses) -> list[str]:
    """Return the names of those of which some line leaves its axis."""
    ends = [(10.0**low, 10.0**high) for low, high in POWERS.values()]
    return [
        name
        for name, parts in courses.items()
        if any(
            ((values < low) | (values > high)).any()
            for values, (low, high) in zip(parts, ends, strict=True)
        )
    ]


def recurrence_layout(courses: Courses) -> dict[str, Any]:
    """The axes, titles and names of :func:`recurrence`."""
    layout: dict[str, Any] = {"margin": {"l": 50, "r": 12, "t": 62, "b": 46}}
    annotations = []
    steps = max((len(parts[0]) for parts in courses.values()), default=1)
    for number, (part, title) in enumerate(PARTS.items()):
        (left, right), axis = side_by_side(len(PARTS), 0.0725)[number], axis_number(number)
        low, high = POWERS[part]
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
