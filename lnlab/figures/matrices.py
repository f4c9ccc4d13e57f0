"""Small matrices to be read number by number."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .palette import SIGNED, TEMPLATE


def matrices(
    arrays: Mapping[str, np.ndarray], *, rows: str = "case", columns: str = "unit"
) -> go.Figure:
    """Matrices side by side, cell by cell in one scale of colours with 0 in its middle.

    Args:
        arrays: (B, H), or anything that broadcasts to such: a statistic of a case (B, 1) is
            drawn as one column, that of a unit (1, H) as one row.
        rows: what a row is.
        columns: what a column is.
    """
    reach = max(float(np.abs(a[np.isfinite(a)]).max(initial=1e-12)) for a in arrays.values())
    widths = [max(array.shape[1], 2) for array in arrays.values()]
    titles = list(arrays)
    figure = make_subplots(
        1, len(arrays), subplot_titles=titles, column_widths=widths, horizontal_spacing=0.04
    )
    for column, array in enumerate(arrays.values(), start=1):
        heat = go.Heatmap(
            z=array, zmin=-reach, zmax=reach, colorscale=SIGNED, reversescale=True,
            texttemplate="%{z:.2f}", textfont={"size": 12}, xgap=1, ygap=1,
            showscale=False,
            hovertemplate=f"{rows} %{{y}}, {columns} %{{x}}: %{{z:.4g}}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(heat, 1, column)
    height = 130 + 34 * max(array.shape[0] for array in arrays.values())
    figure.update_xaxes(showticklabels=False, ticks="", showline=False, showgrid=False)
    figure.update_yaxes(
        showticklabels=False, ticks="", showline=False, showgrid=False, autorange="reversed"
    )
    return figure.update_layout(
        template=TEMPLATE, height=height, margin={"l": 20, "r": 20, "t": 50, "b": 20}
    )
