"""Small matrices to be read number by number."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from lnlab.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    SIGNED,
    SIZES,
    TEMPLATE,
    VERMILLION,
    add_footnote,
    canvas,
    escape,
    text_color_on,
)

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
    """Draw matrices side by side, cell by cell, in a scale of colours with 0 in its middle.

    Args:
        arrays: (B, H), or anything that broadcasts to such: a statistic of a case (B, 1) is
            drawn as one column, that of a unit (1, H) or (H,) as one row.
        rows: the word for what a row stands for.
        columns: the word for what a column stands for.
        own_scale: give the colours of each matrix to its own sizes, where those of all differ
            too much to be seen in one scale.

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
        least = 2 + size * max(map(ems, texts))
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
    return figure.update_layout(
        template=TEMPLATE, height=height, margin={"l": 20, "r": 20, "t": 50, "b": 20},
        meta={"width": math.ceil(40 + least * cells)},
    )  # fmt: skip


def ems(number: str) -> float:
    """Return the width of a printed number in a wide font, in multiples of its size."""
    return sum(0.35 if sign in ".-" else 0.65 for sign in number)


# Pictures in rows, as small as they are.


ZOOM = 1.5
"""Pixels of the screen a pixel of a picture."""


def pictures(cases: np.ndarray, *, rows: Sequence[str], made_on: str) -> go.Figure:
    """Draw coloured pictures in rows, each with its name.

    Args:
        cases: (rows, columns, 3, height, width), from 0 to 1.
        rows: the name of each row.
        made_on: the data's kind, printed below.
    """
    count, columns, _, height, width = cases.shape
    edge = ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1))
    framed = np.pad(cases, edge, constant_values=1.0)  # white lines between them
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
    """Draw squares side by side: rows say where batch statistics come from, columns the others.

    Where there is no number, the cell is grey: the configuration is impossible.

    Args:
        panels: the numbers of each square by its title.
        value: what they are, with their unit.
        made_on: data and hardware, printed below.
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
        figure.add_trace(_heat(grid, value, low, high), 1, column)
        for row, cell in np.argwhere(~np.isfinite(grid[0])).tolist():
            figure.add_annotation(
                x=cell, y=row, text="impossible", showarrow=False, font={"size": 11},
                row=1, col=column,
            )  # fmt: skip
        if title in (outlined or {}):
            row, cell = divmod((outlined or {})[title], 4)
            figure.add_shape(
                type="rect", x0=cell - 0.46, x1=cell + 0.46, y0=row - 0.46, y1=row + 0.46,
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
    several = any(np.isfinite(lowest).any() for _, lowest, _ in panels.values())
    numbers = " Mean and 95 % interval." if several else ""
    return add_footnote(figure, f"{made_on}. T: the population's, F: the batch's own.{numbers}")


def _heat(grid: list[np.ndarray], value: str, low: float, high: float) -> go.Heatmap:
    """Return the colours of one square, and what is said of a cell that is pointed at."""
    mean, lowest, highest = grid
    high = high if high > low else low + 1.0
    names = [[f"{row}{column}" for column in PAIRS] for row in PAIRS]
    return go.Heatmap(
        z=mean, zmin=low, zmax=high, colorscale=SIZES,
        showscale=False, xgap=2, ygap=2, hoverongaps=False,
        text=_texts(grid, low, high), texttemplate="%{text}", textfont={"size": 11},
        customdata=np.dstack([np.array(names, object), lowest, highest]),
        hovertemplate=f"%{{customdata[0]}}: {escape(value)} %{{z:.4f}}, "
        "%{customdata[1]:.4f} to %{customdata[2]:.4f}<extra></extra>",
    )  # fmt: skip


def _texts(grid: list[np.ndarray], low: float, high: float) -> list[list[str]]:
    """Return the mean and the interval of each cell, within its frame, in black or in white."""

    def cell_text(mean: float, lowest: float, highest: float) -> str:
        if not np.isfinite(mean):
            return ""
        (ground,) = sample_colorscale(SIZES, [(mean - low) / (high - low)])
        interval = f"<br>{lowest:.3f}<br>to {highest:.3f}" if np.isfinite(lowest) else ""
        color = text_color_on(str(ground))
        return f"<span style='color:{color}'><b>{mean:.3f}</b>{interval}</span>"

    return [
        [cell_text(*cell) for cell in zip(*row, strict=True)] for row in zip(*grid, strict=True)
    ]


# Pictures of the fused recurrence: what each thread does when, what the backward pass keeps.


WORK = {
    "input": ("W<sub>x</sub>x of many steps at once", BLUE),
    "recurrent": ("W<sub>h</sub>h of one step", VERMILLION),
    "rest": ("the rest of the step: LN, gates, c, h", GREEN),
}
OPERATORS = ("recurrent", "rest", "rest", "rest", "rest")
"""The operators of a step in a loop, by what they do; there are several times as many."""

WIDTHS = {"input": 0.55, "recurrent": 0.62, "rest": 0.3}


def timeline(slices: Sequence[int], steps: int = 4, chunk: int = 2) -> go.Figure:
    """Draw two ways through time, a lane for each thread; widths are not to scale.

    Args:
        slices: the number of cases of each slice of the batch, a thread each.
        steps: how many time steps are drawn.
        chunk: for how many steps W_x x is computed at once.
    """
    figure = _canvas(430)
    threads = len(slices)
    loop = {"input": 1.6 * WIDTHS["input"], "recurrent": WIDTHS["recurrent"], "rest": 0.11}
    looped = _boxes(["input", *OPERATORS * steps], loop, 0.07)
    call = []
    for step in range(steps):
        call += ["recurrent", "rest"] if step % chunk else ["input", "recurrent", "rest"]
    alone = _boxes(call, WIDTHS, 0.0)
    for lane in range(threads):
        number, above = f"thread {threads - lane}", threads + 1.2 + lane
        cases = f"{number}: {slices[threads - 1 - lane]} cases"
        for boxes, base, text in ((looped, above, number), (alone, lane, cases)):
            for left, width, work in boxes:
                _draw_box(figure, left, base, width, 0.72, "", WORK[work][1])
            _label(figure, -0.1, base + 0.36, text, anchor="right")
    for left, width, _ in looped:
        at = left + width + 0.035
        figure.add_shape(
            type="line", x0=at, x1=at, y0=threads + 1.05, y1=2 * threads + 1.1,
            line={"color": INK, "width": 1.5, "dash": "dot"},
        )  # fmt: skip
    top = 2 * threads + 1.45
    _label(figure, 0, top, "<b>A loop of operators.</b> At every dotted line all threads wait.")
    text = "Each thread takes its own cases through all steps and waits for nobody."
    _label(figure, 0, threads + 0.12, f"<b>One call.</b> {text}")
    _legend(figure, -0.75)
    end = max(left + width for left, width, _ in looped + alone)
    figure.update_xaxes(range=[-1.75, end + 0.1])
    return figure.update_yaxes(range=[-1.05, top + 0.4])


def _boxes(
    works: Sequence[str], widths: Mapping[str, float], gap: float
) -> list[tuple[float, float, str]]:
    """Return the boxes (left, width, work) of works one after the other."""
    lefts = accumulate((widths[work] + gap for work in works), initial=0.0)
    return [(left, widths[work], work) for left, work in zip(lefts, works, strict=False)]


def lstm_step() -> go.Figure:
    """Draw one time step of the LN-LSTM as the kernel computes it, and what it keeps of it."""
    figure = _canvas(400)
    saved, made = ORANGE, GREY
    blue, red, green = (WORK[work][1] for work in WORK)
    boxes = {
        "x": (0.0, 2.2, "x<sub>t</sub>", "white", made),
        "h_": (0.0, 1.1, "h<sub>t−1</sub>", "white", saved),
        "c_": (0.0, 0.0, "c<sub>t−1</sub>", "white", saved),
        "Wx": (1.3, 2.2, "W<sub>x</sub>x", blue, saved),
        "Wh": (1.3, 1.1, "W<sub>h</sub>h", red, saved),
        "LNx": (2.6, 2.2, "μ, σ", green, saved),
        "LNh": (2.6, 1.1, "μ, σ", green, saved),
        "gates": (3.9, 1.65, "f, i, o, g", green, made),
        "c": (5.2, 0.0, "c<sub>t</sub>", green, saved),
        "LNc": (6.5, 0.0, "μ, σ", green, saved),
        "h": (7.8, 1.1, "h<sub>t</sub>", green, saved),
    }
    for left, bottom, text, fill, line in boxes.values():
        _draw_box(figure, left, bottom, 0.9, 0.7, text, fill, line)
    arrows = "x Wx, Wx LNx, h_ Wh, Wh LNh, LNx gates, LNh gates, gates c, c_ c, c LNc, LNc h"
    for pair in [*arrows.split(", "), "gates h"]:
        (x0, y0, *_), (x1, y1, *_) = (boxes[name] for name in pair.split())
        figure.add_annotation(
            x=x1, y=y1 + 0.35, ax=x0 + 0.9, ay=y0 + 0.35, axref="x", ayref="y", text="",
            showarrow=True, arrowhead=2, arrowwidth=1.6, arrowcolor="#4B5563",
        )  # fmt: skip
    _legend(figure, -0.75)
    frame = f"<span style='color:{ORANGE}'>□</span>"
    text = f"{frame} kept for the backward pass; the gates are computed again there"
    _label(figure, 0.0, -1.15, text)
    figure.update_xaxes(range=[-0.2, 8.9])
    return figure.update_yaxes(range=[-1.35, 3.1])


def memory_bars(sizes: Mapping[str, float], *, unit: str) -> go.Figure:
    """Draw a bar for each: how much is kept for the backward pass."""
    names = [escape(name) for name in sizes]
    figure = go.Figure(layout={"template": TEMPLATE, "height": 90 + 55 * len(sizes)})
    figure.update_layout(margin={"r": 60})  # for the numbers behind the bars
    figure.add_bar(
        x=list(sizes.values()), y=names, orientation="h", marker={"color": BLUE},
        texttemplate="%{x:.3g}", textposition="outside", cliponaxis=False,
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text=escape(unit), rangemode="tozero")
    return figure.update_yaxes(autorange="reversed")


def _canvas(height: int) -> go.Figure:
    """Return a figure without axes, in which shapes are drawn."""
    # what stands in boxes does not shrink
    figure = go.Figure(layout=canvas(height, 10, 10, 10, 10) | {"meta": {"width": 840}})
    figure.update_xaxes(visible=False, fixedrange=True)
    return figure.update_yaxes(visible=False, fixedrange=True)


def _draw_box(
    figure: go.Figure,
    left: float,
    bottom: float,
    width: float,
    height: float,
    text: str,
    fill: str,
    line: str = "white",
) -> None:
    figure.add_shape(
        type="rect", x0=left, x1=left + width, y0=bottom, y1=bottom + height,
        fillcolor=fill, line={"color": line, "width": 4 if line == ORANGE else 1},
    )  # fmt: skip
    if text:
        color = INK if fill == "white" else "white"
        middle = left + width / 2, bottom + height / 2
        _label(figure, *middle, text, anchor="center", color=color, size=17)


def _label(figure: go.Figure, x: float, y: float, text: str, **look: Any) -> None:
    figure.add_annotation(
        text=text, x=x, y=y, xanchor=look.get("anchor", "left"), yanchor="middle",
        showarrow=False, font={"color": look.get("color", INK), "size": look.get("size", 14)},
    )  # fmt: skip


def _legend(figure: go.Figure, y: float) -> None:
    """Add the legend below the picture: what the colours mean."""
    words = [f"<span style='color:{color}'>■</span> {text}" for text, color in WORK.values()]
    _label(figure, 0.0, y, " &nbsp; &nbsp; ".join(words))


# Any table, as a figure.


def table(frame: pd.DataFrame) -> go.Figure:
    """Draw the rows of a data frame, numbers in four digits.

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
