"""Learning curves with the spread of their seeds, and paired differences with an interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.axes import linear, logarithmic
from lnlab.figures.style.palette import GREY, INK, TEMPLATE, lines, rank
from lnlab.figures.style.text import literal, signed

Curve = tuple[np.ndarray, np.ndarray]
"""The places of measurements (K,), and their values, one row a seed (S, K)."""

Panel = Mapping[str, Curve]
"""Curves by the name of their normalizer."""


def learning_curves(
    panels: Mapping[str, Panel],
    *,
    x: str,
    y: str,
    made_on: str,
    log_x: bool = False,
    log_y: bool = True,
) -> go.Figure:
    """Panels side by side on one scale: lines are means, bands go from least to greatest seed.

    What was measured at x = 0 has no place on a logarithmic axis and is left out there.

    Args:
        panels: the panels by their title.
        x: what the axis of x is, with its unit.
        y: likewise of y.
        made_on: the data's kind and the hardware, printed below.
    """
    titles = [literal(title) for title in panels]
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=titles)
    looks = lines(dict.fromkeys(name for panel in panels.values() for name in panel))
    named = set()
    for column, panel in enumerate(panels.values(), start=1):
        for name, (at, values) in panel.items():
            drawn = at > 0 if log_x else np.full(at.shape, True)
            curve = at[drawn], values[:, drawn]
            band = _band(name, curve, looks[name], first=name not in named)
            figure.add_traces(band, 1, column)
            named.add(name)
    all_of = [curve for panel in panels.values() for curve in panel.values()]
    figure.update_xaxes((logarithmic if log_x else linear)(at for at, _ in all_of))
    figure.update_yaxes(
        logarithmic(values for _, values in all_of) if log_y else {"type": "linear"}
    )
    figure.update_xaxes(title_text=literal(x)).update_yaxes(title_text=literal(y), col=1)
    figure.update_layout(template=TEMPLATE, height=460, legend={"y": 1.09}, margin={"t": 75})
    several = any(len(values) > 1 for _, values in all_of)
    said = " Line: mean; band: least to greatest of the seeds." if several else ""
    return signed(figure, f"{made_on}.{said}")


def _band(text: str, curve: Curve, look: Mapping[str, Any], *, first: bool) -> list[go.Scatter]:
    (x, y), name = curve, literal(text)
    low, high, middle = y.min(axis=0), y.max(axis=0), y.mean(axis=0)
    there = np.isfinite(middle)
    joined = (there[1:] & there[:-1]).any()
    band = go.Scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=look["color"],
        opacity=0.18,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        legendgroup=name,
    )
    mean = go.Scatter(
        x=x,
        y=middle,
        name=name,
        mode="lines" if joined else "markers",  # a line through one place is not seen
        line=look,
        marker={"color": look["color"], "size": 9},
        legendrank=rank(text),
        legendgroup=name,
        showlegend=first,
        hovertemplate=f"{name}<br>%{{x:.4g}}: %{{y:.3g}}<extra></extra>",
    )
    return [band, mean]


ROW = 30
"""The most letters of a label in one line."""


def _row(text: str) -> str:
    """The label of a row, "set: one − other", in two lines where one would be long."""
    label = literal(text)
    if len(text) <= ROW:
        return label
    end = ":" if ": " in label else " −"
    return label.replace(f"{end} ", f"{end}<br>", 1)


Difference = tuple[Sequence[float], tuple[float, float]]
"""A paired difference: one value a seed, and the interval of their mean."""


def paired_differences(
    differences: Mapping[str, Difference], *, x: str, made_on: str
) -> go.Figure:
    """A row for each comparison: its seeds as dots, its interval as a bar, and the zero.

    Where the bar reaches the zero, nobody has won.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for text, (values, (low, high)) in differences.items():
        name = _row(text)
        decided = low > 0 or high < 0
        color = INK if decided else GREY
        figure.add_scatter(
            x=[low, high],
            y=[name, name],
            mode="lines",
            line={"color": color, "width": 9},
            opacity=0.45,
            hovertemplate=f"interval: {low:.3g} to {high:.3g}<extra></extra>",
        )
        figure.add_scatter(
            x=list(values), y=[name] * len(values), mode="markers",
            marker={"color": color, "size": 9, "line": {"color": "white", "width": 1}},
            hovertemplate="a seed: %{x:.3g}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(0, line={"color": INK, "width": 1.5})
    drawn = np.array([0, *(v for values, bar in differences.values() for v in (*values, *bar))])
    drawn = drawn[np.isfinite(drawn)]
    room = 0.04 * np.ptp(drawn) or 1.0  # a bar that ends at the frame looks cut off
    figure.update_xaxes(title_text=literal(x), range=[drawn.min() - room, drawn.max() + room])
    figure.update_yaxes(autorange="reversed", tickfont={"size": 13})
    figure.update_layout(height=150 + 52 * len(differences))
    return signed(figure, f"{made_on}. Dots: seeds; bar: 95 % interval of the mean (t).")
