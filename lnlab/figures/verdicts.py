"""The ledger in pictures: how many claims of each verdict, and the intervals behind them."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from .palette import BLUE, GREEN, GREY, TEMPLATE, VERMILLION

COLORS = {
    "reproduced": GREEN,
    "same direction": BLUE,
    "not reproduced": VERMILLION,
    "not comparable": GREY,
    "not yet run": "#D8DBE0",
}


def verdicts(claims: pd.DataFrame) -> go.Figure:
    """A bar for each paper, cut into its verdicts.

    Args:
        claims: a row a claim, with ``source`` ("Ba et al. (2016), 6.6") and ``verdict``.
    """
    paper = claims.source.str.replace(r"^(.*?\)).*", r"\1", regex=True)
    counts = pd.crosstab(paper, claims.verdict)
    figure = go.Figure(layout={"template": TEMPLATE, "barmode": "stack"})
    for verdict, color in COLORS.items():
        if verdict in counts:
            number = counts[verdict]
            figure.add_bar(
                y=list(counts.index), x=list(number), name=verdict, orientation="h",
                marker_color=color, text=[n or "" for n in number], textposition="inside",
                hovertemplate=f"%{{y}}: %{{x}} {verdict}<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="claims")
    figure.update_yaxes(autorange="reversed", showline=False, ticks="")
    return figure.update_layout(height=130 + 55 * len(counts), legend_traceorder="normal")


def intervals(claims: pd.DataFrame) -> go.Figure:
    """A row for each measured comparison: its seeds, its interval, and the zero.

    Each is divided by the largest of its values, so that quantities of different units
    stand on one axis; left of zero is the side that the claim is on.

    Args:
        claims: a row a claim, by id, with ``interval``, ``values`` and ``verdict``.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for name, claim in claims.iterrows():
        ends, values = np.asarray(claim["interval"]), np.asarray(claim["values"])
        reach = np.abs(values).max() or 1.0
        color = COLORS[claim["verdict"]]
        hover = f"{claim['verdict']}<br>{claim['quantity']}<extra></extra>"
        figure.add_scatter(
            x=ends / reach,
            y=[name, name],
            mode="lines",
            opacity=0.45,
            hovertemplate=hover,
            line={"color": color, "width": 9},
        )
        figure.add_scatter(
            x=values / reach, y=[name] * len(values), mode="markers", hovertemplate=hover,
            marker={"color": color, "size": 9, "line": {"color": "white", "width": 1}},
        )  # fmt: skip
    figure.add_vline(0, line={"color": "#111827", "width": 1.5})
    figure.update_xaxes(
        title_text="difference, relative to the largest (claimed: below 0)"
    )
    figure.update_yaxes(autorange="reversed", tickfont={"size": 13})
    return figure.update_layout(height=120 + 46 * len(claims))
