"""The ledger in pictures: claims by verdict, and measurements in units of their margins."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lnlab.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    TEMPLATE,
    VERMILLION,
    literal,
    shade,
    upon,
)

COLORS = {
    "holds": shade(GREEN, 1),
    "fails": shade(VERMILLION, 1),
    "reproduced": GREEN,
    "not reproduced": VERMILLION,
    "also seen": BLUE,
    "not seen": ORANGE,
    "inconclusive": GREY,
    "not yet run": "#D8DBE0",
}
"""The colour of each verdict; that of an equation is the darker one of a training's."""


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
                marker_color=color, text=text, textposition="inside", textangle=0,
                insidetextfont_color=upon(color),
                hovertemplate=f"%{{y}}: %{{x}} {verdict}<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title_text="claims")
    figure.update_layout(uniformtext={"minsize": 10, "mode": "hide"})  # on a phone
    figure.update_yaxes(autorange="reversed", showline=False, ticks="")
    return figure.update_layout(height=130 + 55 * len(counts), legend_traceorder="normal")


ABOVE, ROW, PHONE = 150, 32, 340
"""Pixels of legend and axis, of a row with its name, and of a figure's width on a phone."""
AGAIN = 16
"""Rows until the axis is said again: a screen shows that many and a few more."""

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
    for margin, dash in ((0, "solid"), (-1, "dot"), (1, "dot")):
        line = {"color": GREY, "width": 1.5, "dash": dash}
        figure.add_vline(np.arcsinh(margin), line=line, layer="below")
    title = "difference, in margins (claimed:<br>below 0, or 'the same': within ±1)"
    ticks = {"tickvals": np.arcsinh(TICKS), "ticktext": [f"{t:,}" for t in TICKS]}
    figure.update_xaxes(title_text=title, side="top", tickangle=0, **ticks)
    names = [literal(name) for name in claims.index]
    again = {at: f"axis {at}" for at in range(AGAIN, len(names), AGAIN)}
    rows = [row for at, name in enumerate(names) for row in (again.get(at), name) if row]
    ends = [len(rows) - 0.5, -0.9]  # without the twentieth that plotly leaves free
    figure.update_yaxes(
        categoryorder="array", categoryarray=rows, range=ends, showline=False, ticks="",
        showticklabels=False,
    )  # fmt: skip
    if names:  # above its row, where a name takes no width from a phone; clear of it by a dot
        left, right = _ends(claims)
        figure.update_xaxes(range=[left, right])
        figure.add_scatter(
            x=[left] * len(names), y=names, text=names, mode="markers+text",
            marker={"size": 6, "opacity": 0}, textposition="top right", textfont={"size": 12},
            hoverinfo="skip", showlegend=False, cliponaxis=False,
        )  # fmt: skip
        said = {at: f"{t:,}" for t in TICKS if left <= (at := float(np.arcsinh(t))) <= right}
        for row in again.values():
            figure.add_scatter(
                x=[*said], y=[row] * len(said), text=[*said.values()], mode="text",
                textposition="top center", textfont={"size": 12, "color": INK},
                hoverinfo="skip", showlegend=False, name="axis", cliponaxis=False,
            )  # fmt: skip
    figure.update_layout(legend={"yref": "container", "y": 1, "yanchor": "top"})
    figure.update_layout(margin={"l": 20, "t": ABOVE}, meta={"width": PHONE})
    return figure.update_layout(height=ABOVE + 40 + ROW * len(rows))


def _ends(claims: pd.DataFrame) -> tuple[float, float]:
    """The ends of the axis of margins, a little beyond all that is drawn."""
    drawn = [_in_margins(claims, which)["x"] for which in ("interval", "values")]
    finite = np.concatenate([[-1.0, 1.0], *drawn])
    finite = finite[np.isfinite(finite)]
    return finite.min() - 0.4, finite.max() + 0.4


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
