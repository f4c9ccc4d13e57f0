"""Distributions that change with time, as ribbons of quantiles."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.palette import TEMPLATE, line
from lnlab.figures.style.text import literal

LIGHT, DARK = ("q05", "q95"), ("q25", "q75")


def ribbons(
    frames: Mapping[str, pd.DataFrame], *, x: str = "updates", y: str = ""
) -> go.Figure:
    """One ribbon a panel, all on one scale: median, the middle half, the middle nine tenths.

    Args:
        frames: by name, a row a step with ``step``, ``q05``, ``q25``, ``q50``, ``q75`` and
            ``q95``.
        x: what the steps count.
        y: what the quantiles are of, with its unit.
    """
    titles = [literal(title) for title in frames]
    figure = make_subplots(1, len(frames), shared_yaxes=True, subplot_titles=titles)
    for column, (name, frame) in enumerate(frames.items(), start=1):
        look = line(name)
        for (low, high), opacity in ((LIGHT, 0.18), (DARK, 0.35)):
            around = np.concatenate([frame["step"], frame["step"][::-1]])
            edge = np.concatenate([frame[high], frame[low][::-1]])
            figure.add_scatter(
                x=around, y=edge, mode="lines", fill="toself", fillcolor=look["color"],
                opacity=opacity, line={"width": 0}, hoverinfo="skip", row=1, col=column,
            )  # fmt: skip
        figure.add_scatter(
            x=frame["step"], y=frame["q50"], mode="lines", line=look,
            hovertemplate="%{x}: median %{y:.3g}<extra></extra>", row=1, col=column,
        )  # fmt: skip
    figure.update_xaxes(title_text=literal(x))
    figure.update_yaxes(title_text=literal(y), col=1)
    return figure.update_layout(template=TEMPLATE, height=400, showlegend=False)
