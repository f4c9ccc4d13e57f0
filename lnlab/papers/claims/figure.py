"""The claims as one figure: a dot with its interval for each measured statement."""

from collections.abc import Sequence
from textwrap import wrap

import plotly.graph_objects as go

from lnlab.book.claims_page import MOST
from lnlab.figures.style import BLUE, GREEN, GREY, ORANGE, TEMPLATE, VERMILLION, escape
from lnlab.papers.claims.judge import (
    CONTRADICTED,
    INCONCLUSIVE,
    MIXED,
    NO_DIFFERENCE,
    NOT_TESTED,
    SUPPORTED,
)
from lnlab.papers.claims.results import Record

COLORS = {
    SUPPORTED: GREEN, CONTRADICTED: VERMILLION, MIXED: ORANGE, NO_DIFFERENCE: BLUE,
    INCONCLUSIVE: GREY, NOT_TESTED: GREY,
}  # fmt: skip
ROW, LETTERS, PALE = 50, 68, 0.6


def effects_figure(records: Sequence[Record]) -> go.Figure:
    """Draw the effects of measured statements in units of the smallest that matters.

    The claimed side is right; what lies between the dotted lines does not matter. An interval
    that leaves the axis ends at its edge; the number stands in the text of the dot.
    """
    shown = [one for one in records if one["axis"]]
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": bool(shown)})
    names = {one["id"]: "<br>".join(map(escape, wrap(one["says"], LETTERS))) for one in shown}
    for word, color in COLORS.items():
        of_word = [one for one in shown if one["word"] == word]
        if not of_word:
            continue
        middle, low, high = zip(
            *(_clip_to_axis_range(one["axis"]) for one in of_word), strict=True
        )
        figure.add_scatter(
            x=middle, y=[names[one["id"]] for one in of_word], mode="markers", name=word,
            # a shape of its own: to some readers orange and vermillion are one color
            marker={"color": color, "size": 9,
                    "symbol": "diamond" if word == MIXED else "circle",
                    "opacity": [PALE if one["size"] == "small" else 1 for one in of_word]},
            error_x={"type": "data", "symmetric": False, "color": color, "thickness": 2,
                     "width": 0, "array": [b - m for m, b in zip(middle, high, strict=True)],
                     "arrayminus": [m - a for m, a in zip(middle, low, strict=True)]},
            text=[escape(f"{one['verdict']}: {one['effect']}") for one in of_word],
            customdata=[escape(f"{one['id']}, {one['setting']}, n = {one['n']}")
                        for one in of_word],
            hovertemplate="%{text}<br>%{customdata}<extra></extra>",
        )  # fmt: skip
    for at, dash in ((0, "solid"), (-1, "dot"), (1, "dot")):
        line = {"color": GREY, "width": 1.5, "dash": dash}
        figure.add_vline(at, line=line, layer="below")
    title = "effect / smallest effect that matters<br>← the other way   as claimed →"
    figure.update_xaxes(title_text=title, range=[-MOST - 0.3, MOST + 0.3], side="top")
    order = [names[one["id"]] for one in shown]
    figure.update_yaxes(
        categoryorder="array", categoryarray=order[::-1], ticks="", tickfont={"size": 12},
        range=[-0.7, len(shown) - 0.3],
    )  # fmt: skip
    # the axis title stands on top: the legend goes above it, to the edge of the figure
    legend = {"yref": "container", "y": 1, "yanchor": "top"}
    return figure.update_layout(height=190 + ROW * len(shown), margin={"t": 130}, legend=legend)


def _clip_to_axis_range(coordinates: Sequence[float]) -> list[float]:
    return [max(-MOST, min(MOST, value)) for value in coordinates]
