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


def margins(claims: pd.DataFrame) -> go.Figure:
    """A row for each measurement: its seeds and its interval, in units of its margin.

    Left of zero is the side that most claims are on; an interval between the dotted lines says
    that there is no effect as large as would matter, which is what "the same" claims.

    Args:
        claims: a row a claim, by id, with ``interval``, ``values``, ``margin``, ``verdict``
            and ``quantity``; maybe none.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for identity, claim in claims.iterrows():
        name = literal(identity)
        color = COLORS[str(claim["verdict"])]
        hover = f"{claim['verdict']}<br>{literal(claim['quantity'])}<extra></extra>"
        ends, values = (
            np.asarray(claim[which], dtype=float) / claim["margin"]
            for which in ("interval", "values")
        )
        figure.add_scatter(
            x=ends, y=[name, name], mode="lines", opacity=0.45, hovertemplate=hover,
            line={"color": color, "width": 9},
        )  # fmt: skip
        figure.add_scatter(
            x=values, y=[name] * len(values), mode="markers", hovertemplate=hover,
            marker={"color": color, "size": 9, "line": {"color": "white", "width": 1}},
        )  # fmt: skip
    figure.add_vline(0, line={"color": "#111827", "width": 1.5})
    for margin in (-1, 1):
        figure.add_vline(margin, line={"color": "#111827", "width": 1, "dash": "dot"})
    figure.update_xaxes(
        title_text="difference, in margins (claimed: below 0, or 'the same': within ±1)"
    )
    figure.update_yaxes(autorange="reversed", tickfont={"size": 13})
    return figure.update_layout(height=160 + 46 * len(claims))
