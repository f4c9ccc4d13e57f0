"""The 16 configurations of statistics at inference, each with its mean and its interval."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from lnlab.figures.style.palette import SIZES, TEMPLATE, upon
from lnlab.figures.style.text import literal, signed

PAIRS = ("TT", "TF", "FT", "FF")
"""The letters of a mean and of a deviation; T: of the population, F: of the batch at hand."""

Means = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Means and both ends of their intervals, each (16,), from TTTT, TTTF, ... to FFFF."""


def configurations(
    panels: Mapping[str, Means],
    *,
    value: str,
    made_on: str,
    outlined: Mapping[str, int] | None = None,
) -> go.Figure:
    """Squares side by side: rows say where batch statistics come from, columns feature ones.

    Where there is no number, the cell is grey: the configuration is impossible.

    Args:
        panels: the numbers of each square by its title.
        value: what they are, with their unit.
        made_on: data and hardware, printed below.
        outlined: the place among the 16 that is outlined, by title.
    """
    titles = [literal(title) for title in panels]
    figure = make_subplots(
        1, len(panels), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04
    )
    known = np.concatenate([means[np.isfinite(means)] for means, _, _ in panels.values()])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    for column, (title, numbers) in enumerate(panels.items(), start=1):
        grid = [np.asarray(each, float).reshape(4, 4) for each in numbers]
        figure.add_trace(_heat(grid, value, low, high), 1, column)
        for row, place in np.argwhere(~np.isfinite(grid[0])).tolist():
            figure.add_annotation(
                x=place, y=row, text="impossible", showarrow=False, font={"size": 11},
                row=1, col=column,
            )  # fmt: skip
        if title in (outlined or {}):
            row, place = divmod((outlined or {})[title], 4)
            figure.add_shape(
                type="rect", x0=place - 0.46, x1=place + 0.46, y0=row - 0.46, y1=row + 0.46,
                line={"color": "#D55E00", "width": 4}, row=1, col=column,
            )  # fmt: skip
    figure.update_xaxes(
        title_text="features: mean, deviation", tickvals=[0, 1, 2, 3], ticktext=PAIRS,
        range=[-0.5, 3.5], showgrid=False,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=[0, 1, 2, 3], ticktext=PAIRS, range=[3.5, -0.5], showgrid=False
    )
    figure.update_yaxes(title_text="batch: mean, deviation", col=1)
    figure.update_layout(
        template=TEMPLATE, height=440, margin={"t": 50, "l": 70},
        plot_bgcolor="#D1D5DB", meta={"width": max(690, 120 + 370 * len(panels))},
    )  # fmt: skip
    return signed(  # in lines of at most 90 letters, for which the figure is wide enough
        figure,
        f"{made_on}. T: the population's, F: the batch's own.{of_cells(panels)}",
    )


def of_cells(panels: Mapping[str, Means]) -> str:
    """The names of the numbers of a cell, where there are more than one."""
    some = any(np.isfinite(lowest).any() for _, lowest, _ in panels.values())
    return " Mean and 95 % interval." if some else ""


def _heat(grid: list[np.ndarray], value: str, low: float, high: float) -> go.Heatmap:
    """The colours of one square, and what is said of a cell that is pointed at."""
    mean, lowest, highest = grid
    high = high if high > low else low + 1.0
    names = [[f"{row}{column}" for column in PAIRS] for row in PAIRS]
    return go.Heatmap(
        z=mean, zmin=low, zmax=high, colorscale=SIZES,
        showscale=False, xgap=2, ygap=2, hoverongaps=False,
        text=_texts(grid, low, high), texttemplate="%{text}", textfont={"size": 11},
        customdata=np.dstack([np.array(names, object), lowest, highest]),
        hovertemplate=f"%{{customdata[0]}}: {literal(value)} %{{z:.4f}}, "
        "%{customdata[1]:.4f} to %{customdata[2]:.4f}<extra></extra>",
    )  # fmt: skip


def _texts(grid: list[np.ndarray], low: float, high: float) -> list[list[str]]:
    """The mean and the interval of each cell, within its frame, in black or in white."""

    def said(mean: float, lowest: float, highest: float) -> str:
        if not np.isfinite(mean):
            return ""
        (ground,) = sample_colorscale(SIZES, [(mean - low) / (high - low)])
        interval = f"<br>{lowest:.3f}<br>to {highest:.3f}" if np.isfinite(lowest) else ""
        return f"<span style='color:{upon(str(ground))}'><b>{mean:.3f}</b>{interval}</span>"

    return [[said(*cell) for cell in zip(*row, strict=True)] for row in zip(*grid, strict=True)]
