"""Small matrices to be read number by number."""

import math
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.palette import SIGNED, TEMPLATE
from lnlab.figures.style.text import literal

ROOM = 808
"""Pixels that JupyterLab leaves a picture beside its file browser, in a window of 1280."""
GAP = 0.04
LETTERINGS = ((2, 12), (1, 12), (1, 10))
"""Decimals and pixels of the numbers, the first that fits first."""


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
        1, len(drawn), subplot_titles=titles, column_widths=widths, horizontal_spacing=GAP
    )
    cells = sum(widths) / (1 - GAP * (len(drawn) - 1))
    for digits, size in LETTERINGS:
        least = 2 + size * max(ems(f"{x:.{digits}f}") for a in drawn for x in a.flat)
        if least * cells <= ROOM:
            break
    for column, array in enumerate(drawn, start=1):
        reach = reaches[column - 1] if own_scale else max(reaches)
        heat = go.Heatmap(
            z=array, zmin=-reach, zmax=reach, colorscale=SIGNED, reversescale=True,
            texttemplate=f"%{{z:.{digits}f}}", textfont={"size": size}, xgap=1, ygap=1,
            showscale=False,
            hovertemplate=f"{rows} %{{y}}, {columns} %{{x}}: %{{z:.4g}}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(heat, 1, column)
    height = 130 + 34 * max(array.shape[0] for array in drawn)
    figure.update_xaxes(showticklabels=False, ticks="", showline=False, showgrid=False)
    figure.update_yaxes(
        showticklabels=False, ticks="", showline=False, showgrid=False, autorange="reversed"
    )
    return figure.update_layout(
        template=TEMPLATE, height=height, margin={"l": 20, "r": 20, "t": 50, "b": 20},
        meta={"width": math.ceil(40 + least * cells)},
    )  # fmt: skip


def ems(number: str) -> float:
    """The width of a printed number, in a wide font, as a multiple of the font's size."""
    return sum(0.35 if sign in ".-" else 0.65 for sign in number)
