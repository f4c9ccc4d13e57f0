"""A quantity against the size of a change, over many decades of both."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style.palette import TEMPLATE, lines, rank
from lnlab.figures.style.text import literal

FLOOR = 1e-17
"""The height at which a value of exactly 0 is drawn: below the rounding of float64."""


def sweeps(at: np.ndarray, curves: Mapping[str, np.ndarray], *, x: str, y: str) -> go.Figure:
    """Curves by name over ``at`` (K,), both axes logarithmic.

    What is exactly 0 is drawn at 1e-17, the foot of the axis; what is not a number is left out.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 420})
    looks = lines(curves)
    for text, values in curves.items():
        name = literal(text)
        figure.add_scatter(
            x=at, y=np.where(values == 0, FLOOR, values), name=name, mode="lines",
            legendrank=rank(text),
            line=looks[text], hovertemplate=f"{name}<br>%{{x:.3g}}: %{{y:.2e}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text=literal(x))
    figure.update_yaxes(title_text=literal(y), range=[np.log10(FLOOR), 1], dtick=4)
    for_both = {"type": "log", "exponentformat": "power"}
    return figure.update_layout(xaxis=for_both, yaxis=for_both)
