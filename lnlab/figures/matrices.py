"""Small matrices to be read number by number."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .style.palette import SIGNED, TEMPLATE
from .style.text import literal


def matrices(
    arrays: Mapping[str, np.ndarray],
    *,
    rows: str = "case",
    columns: str = "unit",
    own_scale: bool = False,
) -> go.Figure:
    """Matrices side by side, cell by cell, in a scale of colours with 0 in its middle.

    Args:
        arrays: (B, H), or anything that broadcasts to such: a statistic of a case (B, 1) is
            drawn as one column, that of a unit (1, H) or (H,) as one row.
        rows: the word for what a row stands for.
        columns: the word for what a column stands for.
        own_scale: give the colours of each matrix to its own sizes, where those of all differ
            too much to be seen in one scale.
    """
    drawn = [np.atleast_2d(array) for array in arrays.values()]
    reaches = [float(np.abs(a[np.isfinite(a)]).max(initial=1e-12)) for a in drawn]
    widths = [max(array.shape[1], 2) for array in drawn]
    titles = [literal(title) for title in arrays]
    rows, columns = literal(rows), literal(columns)
    figure = make_subplots(
        1, len(drawn), subplot_titles=titles, column_widths=widths, horizontal_spacing=0.04
    )
    # more columns than these leave no room for two decimals
    digits = 2 if sum(widths) <= 26 else 1
    for column, array in enumerate(drawn, start=1):
        reach = reaches[column - 1] if own_scale else max(reaches)
        heat = go.Heatmap(
            z=array, zmin=-reach, zmax=reach, colorscale=SIGNED, reversescale=True,
            texttemplate=f"%{{z:.{digits}f}}", textfont={"size": 12}, xgap=1, ygap=1,
            showscale=False,
            hovertemplate=f"{rows} %{{y}}, {columns} %{{x}}: %{{z:.4g}}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(heat, 1, column)
    height = 130 + 34 * max(array.shape[0] for array in drawn)
    figure.update_xaxes(showticklabels=False, ticks="", showline=False, showgrid=False)
    figure.update_yaxes(
        showticklabels=False, ticks="", showline=False, showgrid=False, autorange="reversed"
    )
    # of a cell, so that no number covers another
    across = 60 + sum(widths) * (46 if digits == 2 else 34)
    return figure.update_layout(
        template=TEMPLATE, height=height, margin={"l": 20, "r": 20, "t": 50, "b": 20},
        meta={"width": across},
    )  # fmt: skip
