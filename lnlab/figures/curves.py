"""Curves beside each other: a quantity against time, or against a setting."""

from collections.abc import Collection, Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.axes import linear, logarithmic
from lnlab.figures.style.palette import GREY, PREDICTED, TEMPLATE, lines, rank
from lnlab.figures.style.text import literal

Curve = tuple[np.ndarray, np.ndarray]
"""Places and values, each (K,)."""


def curves(
    panels: Mapping[str, Mapping[str, Curve]],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = True,
    dots: Collection[str] = (),
    predicted: Collection[str] = (),
    mark: tuple[float, str] | None = None,
) -> go.Figure:
    """Panels side by side on one scale, a line for each name.

    Args:
        panels: the curves of each panel by its title.
        x: what the axis of x is, with its unit.
        y: likewise of y.
        dots: names whose values are drawn as dots and not as a line.
        predicted: names whose values were not measured; their lines are dashed.
        mark: a place on the axis of x, and what is there.
    """
    titles = [literal(title) for title in panels]
    figure = make_subplots(
        1, len(panels), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.06
    )
    looks = lines(dict.fromkeys(name for panel in panels.values() for name in panel))
    named = set()
    for column, panel in enumerate(panels.values(), start=1):
        for text, (at, values) in panel.items():
            name, look = literal(text), looks[text] | (PREDICTED if text in predicted else {})
            figure.add_scatter(
                x=at, y=values, name=name, legendgroup=name, showlegend=text not in named,
                mode="markers" if text in dots else "lines", line=look, legendrank=rank(text),
                marker={"size": 9}, row=1, col=column,
                hovertemplate=f"{name}<br>%{{x:.4g}}: %{{y:.3g}}<extra></extra>",
            )  # fmt: skip
            named.add(text)
    if mark:
        figure.add_vline(
            mark[0], line={"color": GREY, "width": 1.5, "dash": "dot"}, row="all", col="all",
            annotation={"text": literal(mark[1]), "font": {"color": "#4B5563"}},
            annotation_position="top right",
        )  # fmt: skip
    all_of = [curve for panel in panels.values() for curve in panel.values()]
    figure.update_xaxes((logarithmic if log_x else linear)(at for at, _ in all_of))
    figure.update_yaxes(
        logarithmic(values for _, values in all_of) if log_y else {"type": "linear"}
    )
    figure.update_xaxes(title_text=literal(x)).update_yaxes(title_text=literal(y), col=1)
    return figure.update_layout(
        template=TEMPLATE, height=430, legend={"y": 1.09}, margin={"t": 75}
    )
