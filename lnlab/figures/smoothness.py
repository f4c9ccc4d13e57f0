"""Along a training: what lies between two ends of a band, and a level to compare with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.axes import logarithmic
from lnlab.figures.style.palette import INK, TEMPLATE, lines
from lnlab.figures.style.text import literal, signed

Ribbon = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Updates (K,), and the two ends of a band at each, one row a seed (S, K)."""


def smoothness_ribbons(
    rows: Mapping[str, Mapping[str, Ribbon]], *, made_on: str, x: str = "updates"
) -> go.Figure:
    """Ribbons between the ends of a band along a training, a panel for each normalizer.

    The ribbon goes from the mean of the lower ends over the seeds to that of the upper ones;
    the one around it from the least seed to the greatest.

    Args:
        rows: by what the bands are of, with its unit, those of each normalizer; all rows of
            the same normalizers, and on a scale of their own.
        made_on: the data's kind, printed below.
        x: what is counted.
    """
    names = [*next(iter(rows.values()))]
    figure = make_subplots(
        len(rows), len(names), shared_xaxes=True, shared_yaxes=True,
        subplot_titles=[literal(name) for name in names], vertical_spacing=0.08,
    )  # fmt: skip
    looks = lines(names)
    for row, (y, ribbons) in enumerate(rows.items(), start=1):
        for column, name in enumerate(names, start=1):
            figure.add_traces(_ribbon(ribbons[name], looks[name]["color"]), row, column)
        edges = logarithmic(edge for _, low, high in ribbons.values() for edge in (low, high))
        figure.update_yaxes(edges, row=row)
        figure.update_yaxes(title_text=literal(y), row=row, col=1)
    figure.update_xaxes(title_text=literal(x), row=len(rows))
    height = 150 + 250 * len(rows)
    figure.update_layout(template=TEMPLATE, height=height, showlegend=False, margin={"t": 50})
    return signed(
        figure, f"{made_on}. Inner band: mean of the seeds; outer: least to greatest."
    )


def _ribbon(ribbon: Ribbon, color: str) -> list[go.Scatter]:
    at, low, high = ribbon
    around = np.concatenate([at, at[::-1]])
    areas = [
        go.Scatter(
            x=around, y=np.concatenate([upper, lower[::-1]]), mode="lines", fill="toself",
            fillcolor=color, opacity=opacity, line={"width": 0, "color": color},
            hoverinfo="skip",
        )
        for lower, upper, opacity in (
            (low.min(0), high.max(0), 0.2),
            (low.mean(0), high.mean(0), 0.6),
        )
    ]  # fmt: skip
    edge = go.Scatter(
        x=at, y=high.mean(0), mode="lines", line={"color": color, "width": 1},
        hovertemplate="%{x}: up to %{y:.3g}<extra></extra>",
    )  # fmt: skip
    return [*areas, edge]


def level(figure: go.Figure, y: float, text: str, *, left: bool = False) -> go.Figure:
    """``figure`` with a dotted line at ``y`` in every panel, and what it is in the last: at its
    right end, or at its left where curves cover the right one."""
    look = {"color": INK, "width": 1.5, "dash": "dot"}
    figure.add_hline(y, line=look, row="all", col="all")
    drawn: Any = figure
    panels = len({trace.xaxis for trace in drawn.data})
    logarithmic = drawn.layout.yaxis.type == "log"
    return figure.add_annotation(
        x=0 if left else 1, xref="x domain" if panels == 1 else f"x{panels} domain",
        xanchor="left" if left else "right",
        y=np.log10(y) if logarithmic else y, yanchor="bottom", text=literal(text),
        showarrow=False, font={"size": 12}, yshift=2, bgcolor="rgba(255, 255, 255, 0.75)",
    )  # fmt: skip
