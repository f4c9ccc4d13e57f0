"""The ledger in pictures: claims by verdict, and measurements in units of their margins."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from .style.palette import BLUE, GREEN, GREY, ORANGE, TEMPLATE, VERMILLION
from .style.text import literal

COLORS = {
    "holds": GREEN,
    "fails": VERMILLION,
    "reproduced": GREEN,
    "not reproduced": VERMILLION,
    "also seen": BLUE,
    "not seen": ORANGE,
    "inconclusive": GREY,
    "not yet run": "#D8DBE0",
}


def verdicts(claims: pd.DataFrame) -> go.Figure:
    """A bar for each paper, cut into its verdicts.

    Args:
        claims: a row a claim, with ``source`` ("Ba et al. (2016), 6.6") and ``verdict``.
    """
    paper = claims.source.str.replace(r"^(.*?\)).*", r"\1", regex=True)
    counts = pd.crosstab(paper, claims.verdict)
    papers = [literal(name) for name in counts.index]
    least = counts.sum(axis=1).max() / 40  # a shorter part of a bar has no room for its number
    figure = go.Figure(layout={"template": TEMPLATE, "barmode": "stack"})
    for verdict, color in COLORS.items():
        if verdict in counts:
            number = counts[verdict]
            text = [n if n > least else "" for n in number]
            figure.add_bar(
                y=papers, x=list(number), name=verdict, orientation="h",
                marker_color=color, text=text, textposition="inside",
                hovertemplate=f"%{{y}}: %{{x}} {verdict}<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="claims")
    figure.update_yaxes(autorange="reversed", showline=False, ticks="")
    return figure.update_layout(height=130 + 55 * len(counts), legend_traceorder="normal")


TICKS = (-1000, -100, -10, -3, -1, 0, 1, 3, 10, 100, 1000)
"""Margins that are named on the axis."""


def margins(claims: pd.DataFrame) -> go.Figure:
    """A row for each measurement: its seeds and its interval, in units of its margin.

    Left of zero is the side that most claims are on; an interval between the dotted lines says
    that there is no effect as large as would matter, which is what "the same" claims. The axis
    is linear about zero and logarithmic far from it (arsinh), as some differences are hundreds
    of margins.

    Args:
        claims: a row a claim, by id, with ``interval``, ``values``, ``margin``, ``verdict``
            and ``quantity``; maybe none.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": not claims.empty})
    for verdict, color in COLORS.items():
        rows = claims.loc[claims.verdict == verdict]
        if not rows.empty:
            figure.add_scatter(
                **_in_margins(rows, "interval", gap=True), mode="lines", opacity=0.45,
                line={"color": color, "width": 9}, showlegend=False, legendgroup=verdict,
            )  # fmt: skip
            figure.add_scatter(
                **_in_margins(rows, "values"), mode="markers", name=verdict,
                marker={"color": color, "size": 8, "line": {"color": "white", "width": 1}},
                legendgroup=verdict,
            )  # fmt: skip
    figure.add_vline(0, line={"color": "#111827", "width": 1.5})
    for margin in (-1, 1):
        figure.add_vline(
            np.arcsinh(margin), line={"color": "#111827", "width": 1, "dash": "dot"}
        )
    title = "difference, in margins (claimed: below 0, or 'the same': within ±1)"
    ticks = {"tickvals": np.arcsinh(TICKS), "ticktext": [f"{t:,}" for t in TICKS]}
    figure.update_xaxes(title_text=title, side="top", **ticks)
    names = [literal(name) for name in claims.index]
    ends = [len(names) - 0.5, -0.5]  # without the twentieth that plotly leaves free
    figure.update_yaxes(
        categoryorder="array", categoryarray=names, range=ends, tickfont={"size": 12}
    )
    figure.update_layout(legend={"yref": "container", "y": 1, "yanchor": "top"}, margin_t=110)
    return figure.update_layout(height=150 + 24 * len(claims))


def _in_margins(claims: pd.DataFrame, which: str, *, gap: bool = False) -> dict:
    """Places of all numbers of a column, and what is told of them; a gap behind each row."""
    table = claims.assign(number=claims[which].map(lambda n: [*n, None] if gap else [*n]))
    table = table.explode("number")
    number = table.number.astype(float) / table.margin.astype(float)
    told = "%{customdata:.3g} margins<br>%{text}<extra>%{y}</extra>"
    return {
        "x": np.arcsinh(number).to_numpy(),
        "y": [literal(name) for name in table.index],
        "customdata": number,
        "text": [
            f"{v}<br>{literal(q)}" for v, q in zip(table.verdict, table.quantity, strict=True)
        ],
        "hovertemplate": told,
    }
