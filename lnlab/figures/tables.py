"""Small matrices to be read number by number.

``made_on`` is what data and hardware a figure is of, and is printed below it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from lnlab.figures.style import (
    SIGNED,
    SIZES,
    TEMPLATE,
    VERMILLION,
    add_footnote,
    escape,
    text_color_on,
)

ROOM = 754
"""The pixels beside the file browser in a JupyterLab window that is 1280 pixels wide."""
GAP = 0.04
LETTERINGS = ((2, 12), (1, 12), (1, 10))
"""Decimals and font size (pixels) of the numbers in cells; the first pair that fits is used."""


def matrices(
    arrays: Mapping[str, np.ndarray],
    *,
    rows: str = "example",
    columns: str = "unit",
    own_scale: bool = False,
) -> go.Figure:
    """Draw matrices side by side as heat maps, in a colour scale whose middle is 0.

    Args:
        arrays: arrays (B, H) by name, or arrays that broadcast to this shape: one value per
            example (B, 1) is drawn as a column, one per unit (1, H) or (H,) as a row.
        rows, columns: what a row and a column stand for.
        own_scale: whether each matrix gets its own colour scale, for values of very different
            sizes.

    Examples:
        >>> a = np.random.randn(4, 6)
        >>> lnlab.figures.matrices({"a": a, "mean": a.mean(1, keepdims=True)})
    """
    grids = [np.atleast_2d(array) for array in arrays.values()]
    reaches = [float(np.abs(a[np.isfinite(a)]).max(initial=1e-12)) for a in grids]
    widths = [max(array.shape[1], 2) for array in grids]
    titles = [escape(title) for title in arrays]
    rows, columns = escape(rows), escape(columns)
    figure = make_subplots(
        1, len(grids), subplot_titles=titles, column_widths=widths, horizontal_spacing=GAP
    )
    cells = sum(widths) / (1 - GAP * (len(grids) - 1))
    for digits, size in LETTERINGS:
        texts = (f"{number:.{digits}f}" for array in grids for number in array.flat)
        least = 2 + size * max(map(width_in_ems, texts))
        if least * cells <= ROOM:
            break
    for column, array in enumerate(grids, start=1):
        reach = reaches[column - 1] if own_scale else max(reaches)
        heat = go.Heatmap(
            z=array, zmin=-reach, zmax=reach, colorscale=SIGNED, reversescale=True,
            texttemplate=f"%{{z:.{digits}f}}", textfont={"size": size}, xgap=1, ygap=1,
            showscale=False,
            hovertemplate=f"{rows} %{{y}}, {columns} %{{x}}: %{{z:.4g}}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(heat, 1, column)
    height = 130 + 34 * max(array.shape[0] for array in grids)
    figure.update_xaxes(showticklabels=False, ticks="", showline=False, showgrid=False)
    figure.update_yaxes(
        showticklabels=False, ticks="", showline=False, showgrid=False, autorange="reversed"
    )
    figure.update_layout(
        template=TEMPLATE, height=height, margin={"l": 20, "r": 20, "t": 50, "b": 20}
    )
    meta = {"width": math.ceil(40 + least * cells)}
    if len(grids) > 1:
        narrow = {"below": meta["width"], "layout": _one_below_the_other(figure, grids, widths)}
        meta = {"width": math.ceil(40 + least * max(widths)), "narrow": narrow}
    return figure.update_layout(meta=meta)


def _one_below_the_other(
    figure: go.Figure, grids: Sequence[np.ndarray], widths: Sequence[int]
) -> dict[str, Any]:
    """Return the changes of layout that a phone needs to show matrices below each other."""
    row, title = 30, 34  # pixels
    height = sum(row * array.shape[0] + title for array in grids)
    layout: dict[str, Any] = {
        "height": height + 40,
        "margin": {"l": 20, "r": 20, "t": 20, "b": 20},
    }
    titles, top = [], 1.0
    for number, (array, width) in enumerate(zip(grids, widths, strict=True), start=1):
        suffix = "" if number == 1 else str(number)
        top -= title / height
        bottom = max(top - row * array.shape[0] / height, 0.0)
        layout[f"xaxis{suffix}"] = {"domain": (0, width / max(widths))}
        layout[f"yaxis{suffix}"] = {"domain": (bottom, top)}
        note = figure.layout.annotations[number - 1].to_plotly_json()
        titles.append(note | {"x": 0, "xanchor": "left", "y": top})
        top = bottom
    return layout | {"annotations": titles}


def width_in_ems(number: str) -> float:
    """Return the width of a printed number in a wide font, in multiples of its size."""
    return sum(0.35 if sign in ".-" else 0.65 for sign in number)


# Pictures in rows, as small as they are.


ZOOM = 1.5
"""Screen pixels per pixel of a picture."""


def picture_rows(examples: np.ndarray, *, rows: Sequence[str], made_on: str) -> go.Figure:
    """Draw pictures in rows, each with its name.

    Args:
        examples: (rows, columns, 3, height, width) in colours, or (rows, columns, height,
            width) in grey, from 0 to 1.
        rows: the name of each row.
    """
    if examples.ndim == 4:
        examples = np.repeat(examples[:, :, np.newaxis], 3, axis=2)
    count, columns, _, height, width = examples.shape
    edge = ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1))
    framed = np.pad(examples, edge, constant_values=1.0)  # white lines between them
    sheet = framed.transpose(0, 3, 1, 4, 2).reshape(count * (height + 2), -1, 3)
    figure = go.Figure(go.Image(z=np.rint(255 * sheet).astype(np.uint8), hoverinfo="skip"))
    middle = (np.arange(count) + 0.5) * (height + 2)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(
        tickvals=middle, ticktext=[escape(name) for name in rows], showgrid=False, ticks=""
    )
    figure.update_layout(
        template=TEMPLATE, height=110 + int(ZOOM * sheet.shape[0]), margin={"t": 10, "l": 90},
        meta={"width": 120 + int(ZOOM * columns * (width + 2))},
    )  # fmt: skip
    return add_footnote(figure, made_on)


# The 16 configurations of statistics at inference, each with its mean and its interval.


PAIRS = ("TT", "TF", "FT", "FF")
"""The sources of mean and deviation, in this order. T: population; F: current batch."""

MeanAndIntervalPerConfiguration = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Means, lower and upper ends of their intervals, each (16,), in the order TTTT to FFFF."""


def configuration_heatmaps(
    panels: Mapping[str, MeanAndIntervalPerConfiguration],
    *,
    value: str,
    made_on: str,
    outlined: Mapping[str, int] | None = None,
) -> go.Figure:
    """Draw squares side by side: rows say where batch statistics come from, columns the others.

    Where there is no number, the cell is grey: the configuration is impossible.

    Args:
        panels: the numbers of each square by its title.
        outlined: the place among the 16 that is outlined, by title.
    """
    titles = [escape(title) for title in panels]
    figure = make_subplots(
        1, len(panels), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04
    )
    known = np.concatenate([means[np.isfinite(means)] for means, _, _ in panels.values()])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    for column, (title, numbers) in enumerate(panels.items(), start=1):
        grid = [np.asarray(each, float).reshape(4, 4) for each in numbers]
        figure.add_trace(_configuration_heatmap(grid, value, low, high), 1, column)
        for row, cell in np.argwhere(~np.isfinite(grid[0])).tolist():
            figure.add_annotation(
                x=cell, y=row, text="impossible", showarrow=False, font={"size": 11},
                row=1, col=column,
            )  # fmt: skip
        if title in (outlined or {}):
            row, cell = divmod((outlined or {})[title], 4)
            figure.add_shape(
                type="rect", x0=cell - 0.46, x1=cell + 0.46, y0=row - 0.46, y1=row + 0.46,
                line={"color": VERMILLION, "width": 4}, row=1, col=column,
            )  # fmt: skip
    figure.update_xaxes(
        title_text="feature statistics: mean, deviation", tickvals=[0, 1, 2, 3], ticktext=PAIRS,
        range=[-0.5, 3.5], showgrid=False,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=[0, 1, 2, 3], ticktext=PAIRS, range=[3.5, -0.5], showgrid=False
    )
    figure.update_yaxes(title_text="batch statistics: mean, deviation", col=1)
    figure.update_layout(
        template=TEMPLATE, height=440, margin={"t": 50, "l": 70},
        plot_bgcolor="#D1D5DB", meta={"width": max(690, 120 + 370 * len(panels))},
    )  # fmt: skip
    several = any(np.isfinite(lowest).any() for _, lowest, _ in panels.values())
    numbers = " Numbers: mean and 95 % interval." if several else ""
    return add_footnote(
        figure,
        f"{made_on}. T: statistic of the population; F: statistic of the batch.{numbers}",
    )


def _configuration_heatmap(
    means_and_ends: list[np.ndarray], value: str, low: float, high: float
) -> go.Heatmap:
    """Return the colours of one square, and what is said of a cell that is pointed at."""
    mean, lowest, highest = means_and_ends
    high = high if high > low else low + 1.0
    names = [[f"{row}{column}" for column in PAIRS] for row in PAIRS]
    return go.Heatmap(
        z=mean, zmin=low, zmax=high, colorscale=SIZES,
        showscale=False, xgap=2, ygap=2, hoverongaps=False,
        text=_cell_texts_in_contrast_color(means_and_ends, low, high), texttemplate="%{text}",
        textfont={"size": 11},
        customdata=np.dstack([np.array(names, object), lowest, highest]),
        hovertemplate=f"%{{customdata[0]}}: {escape(value)} %{{z:.4f}}, "
        "%{customdata[1]:.4f} to %{customdata[2]:.4f}<extra></extra>",
    )  # fmt: skip


def _cell_texts_in_contrast_color(
    means_and_ends: list[np.ndarray], color_low: float, color_high: float
) -> list[list[str]]:
    """Return the mean and the interval of each cell, within its frame, in black or in white."""

    def mean_and_interval_text(mean: float, lowest: float, highest: float) -> str:
        if not np.isfinite(mean):
            return ""
        fraction = (mean - color_low) / (color_high - color_low)
        (ground,) = sample_colorscale(SIZES, [fraction])
        interval = f"<br>{lowest:.3f}<br>to {highest:.3f}" if np.isfinite(lowest) else ""
        color = text_color_on(str(ground))
        return f"<span style='color:{color}'><b>{mean:.3f}</b>{interval}</span>"

    return [
        [mean_and_interval_text(*cell) for cell in zip(*row, strict=True)]
        for row in zip(*means_and_ends, strict=True)
    ]


# Any table, as a figure.


def table(frame: pd.DataFrame) -> go.Figure:
    """Draw a data frame as a table, with numbers rounded to four digits.

    Examples:
        >>> lnlab.figures.table(lnlab.identify_norm(nn.LayerNorm(16)).to_frame())
    """
    texts = [
        [escape(f"{v:.4g}" if isinstance(v, float) else v) for v in frame[column]]
        for column in frame
    ]
    cells = {"align": "left", "height": 26, "font": {"size": 13}}
    figure = go.Figure(
        go.Table(header={"values": [escape(c) for c in frame], **cells},
                 cells={"values": texts, **cells})
    )  # fmt: skip
    return figure.update_layout(template=TEMPLATE, height=min(90 + 26 * len(frame), 900))
