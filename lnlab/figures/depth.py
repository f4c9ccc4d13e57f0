"""A quantity along the depth of a net."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style.axes import logarithmic
from lnlab.figures.style.palette import TEMPLATE, lines
from lnlab.figures.style.text import literal

LETTERS = 34
"""The most letters of a place that are written under the axis: its last ones."""


def over_depth(
    places: Sequence[str], values: Mapping[str, Sequence[float]], *, y: str
) -> go.Figure:
    """A line for each name over the parts of a net, in the order of the computation.

    Args:
        places: the names of the parts; of several calls of one, each.
        values: for each line one number a place; 0, which has no logarithm, is left out.
        y: what they are, with their unit.
    """
    figure = go.Figure()
    at, looks = list(range(len(places))), lines(values)
    names = [literal(place) for place in places]
    for name, each in values.items():
        figure.add_scatter(
            x=at, y=[number if number > 0 else None for number in each],
            name=literal(name), mode="lines+markers", line=looks[name],
            customdata=names, hovertemplate="%{customdata}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    every = -(-len(at) // 24)
    short = [
        literal(place if len(place) <= LETTERS else f"…{place[-LETTERS:]}") for place in places
    ]
    figure.update_xaxes(
        tickvals=at[::every], ticktext=short[::every], tickangle=-60, automargin=True,
        title_text="parts, in the order of the computation",
    )  # fmt: skip
    drawn = np.concatenate([np.asarray(each, float) for each in values.values()])
    decades = np.log10(drawn[np.isfinite(drawn) & (drawn > 0)])
    if not decades.size:
        decades = np.zeros(1)
    # whole decades: a spread of a few percent is not to look like a cliff
    ends = [float(np.floor(decades.min())), float(np.floor(decades.max())) + 1]
    # labelled for what the axis shows: for values that close there is no room
    axis = logarithmic([[10**end for end in ends]])
    figure.update_yaxes(axis, range=ends, title_text=literal(y))
    return figure.update_layout(
        template=TEMPLATE, height=440, showlegend=len(values) > 1, legend={"y": 1.09}
    )
