"""A recurrent net step by step: summed inputs, hidden states and gradients over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .palette import INK, TEMPLATE, lines
from .text import literal

SLOTS = 4
"""How many courses stand in one picture."""

PARTS = {
    "summed": "summed inputs",
    "hidden": "hidden state h<sub>t</sub>",
    "gradient": "gradient, relative to the last step's",
}
LEAST = {"summed": (-2, 2), "hidden": (-2, 2), "gradient": (-10, 2)}
"""The powers of ten that each axis shows at least."""

EDGE = 36
"""And at most; what is beyond is drawn at the edge. Float32 holds it."""

Courses = Mapping[str, Sequence[np.ndarray]]
"""By normalizer: summed inputs, hidden states, gradients; of each T root mean squares."""

Traces = dict[int | str, dict[str, Any]]


def dynamics(courses: Courses) -> go.Figure:
    """Three panels over the time steps, on logarithmic axes: a line for each normalizer."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for number, part in enumerate(PARTS, start=1):
        for slot in range(SLOTS):
            figure.add_scatter(
                name=f"{part} {slot}", mode="lines", xaxis=f"x{number}", yaxis=f"y{number}",
                hovertemplate="step %{x}: %{y:.3g}<extra></extra>", showlegend=False,
            )  # fmt: skip
    for name, new in dynamics_traces(courses).items():
        figure.update_traces(new, selector={"name": name})
    return figure.update_layout(dynamics_layout(courses))


def dynamics_traces(courses: Courses) -> Traces:
    """What :func:`dynamics` draws, trace by trace."""
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


def dynamics_layout(courses: Courses, also: Sequence[Courses] = ()) -> dict[str, Any]:
    """The axes, titles and names of :func:`dynamics`; the axes hold other courses ``also``."""
    layout: dict[str, Any] = {"margin": {"l": 50, "r": 12, "t": 62, "b": 46}}
    annotations = []
    width, gap = 0.285, 0.0725
    shown = [parts for each in (courses, *also) for parts in each.values()]
    steps = max((len(parts[0]) for parts in shown), default=1)
    for number, (part, title) in enumerate(PARTS.items()):
        start, axis = number * (width + gap), "" if number == 0 else str(number + 1)
        low, high = decades([parts[number] for parts in shown], *LEAST[part])
        layout[f"xaxis{axis}"] = {
            "domain": [start, start + width],
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
                f"<b>{title}</b>", start + width / 2, 4, "center", {"color": INK, "size": 14}
            )
        )
    annotations.append(text_above(legend(courses), 0, 32, "left", {"size": 14}))
    return layout | {"annotations": annotations}


def decades(values: Sequence[np.ndarray], low: int, high: int) -> tuple[int, int]:
    """Powers of ten around all ``values``: even ones, so that an axis does not follow each."""
    for each in values:
        finite = each[np.isfinite(each) & (each > 0)]
        if finite.size:
            low = min(low, 2 * int(np.floor(np.log10(finite.min()) / 2)))
            high = max(high, 2 * int(np.ceil(np.log10(finite.max()) / 2)))
    return max(low, -EDGE), min(high, EDGE)


def legend(names: Mapping[str, object]) -> str:
    """The names in the colours of their lines, each with a sample of its dash."""
    samples = {
        "solid": "━━━",
        "dash": "━ ━",
        "dot": "•••",
        "dashdot": "━•━",
        "longdash": "━━ ━",
    }
    return " &nbsp; &nbsp; ".join(
        f"<span style='color:{look['color']}'>{samples[look['dash']]} "
        f"<b>{literal(name)}</b></span>"
        for name, look in lines(names).items()
    )


def text_above(
    text: str, x: float, above: int, anchor: str, font: dict[str, Any]
) -> dict[str, Any]:
    """A line of text, some pixels above the panels."""
    return {
        "text": text,
        "x": x,
        "y": 1,
        "yshift": above,
        "xref": "paper",
        "yref": "paper",
        "xanchor": anchor,
        "yanchor": "bottom",
        "showarrow": False,
        "font": font,
    }
