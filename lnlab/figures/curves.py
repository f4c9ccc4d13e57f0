"""Curves beside each other: a quantity against time, or against a setting.

``made_on`` is what data and hardware a figure is of, and is printed below it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style import (
    GREY,
    INK,
    PREDICTED,
    TEMPLATE,
    add_footnote,
    band,
    escape,
    legend_rank,
    line_colors_and_widths,
    linear_axis_avoiding_fractional_ticks,
    log_axis,
)

Curve = tuple[np.ndarray, np.ndarray]
"""Values of x (K,), and values of y: (K,), or (S, K) of several seeds."""


def line_chart(
    panels: Mapping[str, Mapping[str, Curve]],
    *,
    x: str,
    y: str,
    made_on: str = "",
    log_x: bool = False,
    log_y: bool = True,
    dots: Collection[str] = (),
    predicted: Collection[str] = (),
    mark: tuple[float, str] | None = None,
) -> go.Figure:
    """Draw one line chart per panel, side by side and on the same scale.

    If a curve has values of several seeds, the line is their mean, and a band reaches from the
    smallest to the largest. On a logarithmic axis, values at x = 0 are left out.

    Args:
        panels: for each panel, by its title, the curves by name: x (K,) and values (K,) or (S,
            K).
        x, y: the titles of the axes, with units.
        made_on: what the curves were computed from; the caption of the figure.
        log_x, log_y: whether the axis is logarithmic.
        dots: the names of curves to draw as dots.
        predicted: the names of curves that were not measured; they are drawn dashed.
        mark: an x value to mark with a vertical line, and its label.

    Examples:
        >>> steps, losses = np.arange(1, 11), np.random.rand(3, 10)
        >>> curves = {"none": (steps, 1 / steps), "layer": (steps, losses)}
        >>> lnlab.figures.line_chart({"": curves}, x="updates", y="loss", made_on="3 seeds")
    """
    if not all(isinstance(panel, Mapping) for panel in panels.values()):
        raise TypeError("panels must be a dictionary of dictionaries: {title: {name: (x, y)}}.")
    titles = [escape(title) for title in panels]
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=titles)
    every = [curve for panel in panels.values() for curve in panel.values()]
    figure.update_xaxes(
        (log_axis if log_x else linear_axis_avoiding_fractional_ticks)(at for at, _ in every)
    )
    heights = (values for _, values in every)
    figure.update_yaxes(log_axis(heights) if log_y else {"type": "linear"})
    figure.update_xaxes(title_text=escape(x)).update_yaxes(title_text=escape(y), col=1)
    styles = line_colors_and_widths(name for panel in panels.values() for name in panel)
    for column, panel in enumerate(panels.values(), start=1):
        for name, (at, values) in panel.items():
            at, values = np.asarray(at), np.asarray(values)
            shown = at > 0 if log_x else np.full(at.shape, True)
            line_style = styles[name] | (PREDICTED if name in predicted else {})
            traces = mean_and_range_traces(name, at[shown], values[..., shown], line_style)
            if name in dots:
                traces[-1].mode = "markers"
            figure.add_traces(traces, 1, column)
    if mark:
        places = np.concatenate([np.ravel(np.asarray(at)) for at, _ in every])
        side = "left" if mark[0] > (places.min() + places.max()) / 2 else "right"
        figure.add_vline(
            mark[0], line={"color": GREY, "width": 1.5, "dash": "dot"}, row="all", col="all",
            annotation={"text": escape(mark[1]), "font": {"color": "#4B5563"}},
            annotation_position=f"top {side}",
        )  # fmt: skip
    name_groups_once_in_legend(figure)
    figure.update_layout(template=TEMPLATE, height=430, legend={"y": 1.09}, margin={"t": 75})
    if not made_on:
        return figure
    several = any(np.ndim(values) > 1 and len(values) > 1 for _, values in every)
    note = " Line: mean of the seeds; band: smallest to largest value." if several else ""
    return add_footnote(figure.update_layout(height=460), f"{made_on}.{note}")


def mean_and_range_traces(
    name: str, x: np.ndarray, y: np.ndarray, line_style: Mapping[str, Any]
) -> list[go.Scatter]:
    """Return the trace of y (K,) over x (K,); of seeds (S, K) a band of all, and the mean."""
    label, middle = escape(name), y.mean(axis=0) if y.ndim > 1 else y
    finite = np.isfinite(middle)
    joined = (finite[1:] & finite[:-1]).any()
    mean = go.Scatter(
        x=x, y=middle, name=label, legendrank=legend_rank(name), legendgroup=label,
        line=line_style,
        mode="lines" if joined else "markers",  # a line through one place is not seen
        marker={"color": line_style["color"], "size": 9},
        hovertemplate=f"{label}<br>%{{x:.4g}}: %{{y:.3g}}<extra></extra>",
    )  # fmt: skip
    if y.ndim < 2:
        return [mean]
    area = band(x, y.min(axis=0), y.max(axis=0), line_style["color"])
    return [go.Scatter(area, showlegend=False, legendgroup=label), mean]


def name_groups_once_in_legend(figure: go.Figure) -> None:
    """Name each group of traces once in the legend."""
    data: Any = figure.data
    named = set()
    for trace in data:
        if trace.showlegend is not False:
            trace.showlegend = trace.legendgroup not in named
            named.add(trace.legendgroup)


# Paired differences with an interval.


ROW = 30
"""The largest number of characters of a label in one line."""

Difference = tuple[Sequence[float], tuple[float, float]]
"""Paired differences, one per seed, and the confidence interval of their mean."""


def paired_differences(
    differences: Mapping[str, Difference], *, x: str, made_on: str
) -> go.Figure:
    """Draw one row per comparison: a dot for each seed, a bar for the interval, a line at zero.

    A bar that reaches zero means that neither arm is shown to be better.

    Examples:
        >>> differences = {"layer − batch": ([-0.2, -0.1, -0.3], (-0.45, 0.05))}
        >>> lnlab.figures.paired_differences(differences, x="nats", made_on="3 seeds")
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for text, (values, (low, high)) in differences.items():
        name = escape(text)
        if len(text) > ROW:  # "set: one − other" in two lines
            end = ":" if ": " in name else " −"
            name = name.replace(f"{end} ", f"{end}<br>", 1)
        color = INK if low > 0 or high < 0 else GREY
        figure.add_scatter(
            x=[low, high], y=[name, name], mode="lines", opacity=0.45 if color == INK else 0.7,
            line={"color": color, "width": 9},
            hovertemplate=f"interval: {low:.3g} to {high:.3g}<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=list(values), y=[name] * len(values), mode="markers",
            marker={"color": color, "size": 9, "line": {"color": "white", "width": 1}},
            hovertemplate="a seed: %{x:.3g}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(0, line={"color": INK, "width": 1.5})
    ends = np.array([0, *(v for values, bar in differences.values() for v in (*values, *bar))])
    ends = ends[np.isfinite(ends)]
    room = 0.04 * np.ptp(ends) or 1.0  # a bar that ends at the frame looks cut off
    figure.update_xaxes(title_text=escape(x), range=[ends.min() - room, ends.max() + room])
    figure.update_yaxes(autorange="reversed", tickfont={"size": 13})
    figure.update_layout(height=150 + 52 * len(differences))
    return add_footnote(
        figure,
        f"{made_on}. Dots: seeds; bar: 95 % confidence interval of the mean (t distribution).",
    )


# Distributions that change with time, as ribbons of quantiles.


LIGHT, DARK = ("q05", "q95"), ("q25", "q75")


def quantile_ribbons(frames: Mapping[str, pd.DataFrame], *, y: str = "") -> go.Figure:
    """Draw one ribbon a panel on one scale: median, the middle half, the middle nine tenths.

    Args:
        frames: by name, with ``step``, ``q05``, ``q25``, ``q50``, ``q75`` and ``q95``.
        y: what the quantiles are of, with its unit.
    """
    titles = [escape(title) for title in frames]
    figure = make_subplots(1, len(frames), shared_yaxes=True, subplot_titles=titles)
    for column, (name, frame) in enumerate(frames.items(), start=1):
        line_style = line_colors_and_widths([name])[name]
        step = frame["step"].to_numpy()
        for (low, high), opacity in ((LIGHT, 0.18), (DARK, 0.35)):
            edges = frame[low].to_numpy(), frame[high].to_numpy()
            area = band(step, *edges, line_style["color"], opacity)
            figure.add_trace(go.Scatter(area), 1, column)
        figure.add_scatter(
            x=frame["step"], y=frame["q50"], mode="lines", line=line_style,
            hovertemplate="%{x}: median %{y:.3g}<extra></extra>", row=1, col=column,
        )  # fmt: skip
    figure.update_xaxes(title_text="updates")
    figure.update_yaxes(title_text=escape(y), col=1)
    return figure.update_layout(template=TEMPLATE, height=400, showlegend=False)


# Along a training: what lies between two ends of a band, and a level to compare with.


Ribbon = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Updates (K,), and the lower and upper ends of a band at each update, by seed (S, K)."""


def smoothness_ribbons(rows: Mapping[str, Mapping[str, Ribbon]], *, made_on: str) -> go.Figure:
    """Draw ribbons between the ends of a band along a training, a panel for each normalizer.

    The ribbon goes from the mean of the lower ends over the seeds to that of the upper ones;
    the one around it from the least seed to the greatest.

    Args:
        rows: by what the bands are of, with its unit, those of each normalizer; all rows of
            the same normalizers, and on a scale of their own.
    """
    names = [*next(iter(rows.values()))]
    figure = make_subplots(
        len(rows), len(names), shared_xaxes=True, shared_yaxes=True,
        subplot_titles=[escape(name) for name in names], vertical_spacing=0.08,
    )  # fmt: skip
    styles = line_colors_and_widths(names)
    for row, (y, ribbons) in enumerate(rows.items(), start=1):
        for column, name in enumerate(names, start=1):
            (at, low, high), color = ribbons[name], styles[name]["color"]
            flat = {"line": {"width": 0, "color": color}}
            figure.add_traces([
                go.Scatter(band(at, low.min(0), high.max(0), color, 0.2), **flat),
                go.Scatter(band(at, low.mean(0), high.mean(0), color, 0.6), **flat),
                go.Scatter(
                    x=at, y=high.mean(0), mode="lines", line={"color": color, "width": 1},
                    hovertemplate="%{x}: up to %{y:.3g}<extra></extra>",
                ),
            ], row, column)  # fmt: skip
        edges = log_axis(edge for _, low, high in ribbons.values() for edge in (low, high))
        figure.update_yaxes(edges, row=row)
        figure.update_yaxes(title_text=escape(y), row=row, col=1)
    figure.update_xaxes(title_text="updates", row=len(rows))
    height = 150 + 250 * len(rows)
    figure.update_layout(template=TEMPLATE, height=height, showlegend=False, margin={"t": 50})
    return add_footnote(
        figure,
        f"{made_on}. Inner band: mean of the seeds; outer band: smallest to largest value.",
    )


def add_horizontal_line(
    figure: go.Figure, y: float, text: str, *, left: bool = False
) -> go.Figure:
    """Add a dotted line at ``y`` to every panel, and what it is to the last.

    The words stand at its right end, or at its left where curves cover the right one.
    """
    line_style = {"color": INK, "width": 1.5, "dash": "dot"}
    figure.add_hline(y, line=line_style, row="all", col="all")
    untyped: Any = figure
    panels = len({trace.xaxis for trace in untyped.data})
    is_log = untyped.layout.yaxis.type == "log"
    return figure.add_annotation(
        x=0 if left else 1, xref="x domain" if panels == 1 else f"x{panels} domain",
        xanchor="left" if left else "right",
        y=np.log10(y) if is_log else y, yanchor="bottom", text=escape(text),
        showarrow=False, font={"size": 12}, yshift=2, bgcolor="rgba(255, 255, 255, 0.75)",
    )  # fmt: skip


# A quantity along the depth of a net.


LETTERS = 34
"""The number of last characters of the name of a network's part that the axis shows."""


def line_chart_over_depth(
    places: Sequence[str], values: Mapping[str, Sequence[float]], *, y: str
) -> go.Figure:
    """Draw a line for each name over the parts of a net, in the order of the computation.

    Args:
        places: the names of the parts; of several calls of one, each.
        values: for each line one number a place; 0, which has no logarithm, is left out.
        y: what they are, with their unit.
    """
    at = np.arange(len(places))
    above_0 = {
        name: (at, np.array([number if number > 0 else np.nan for number in each], float))
        for name, each in values.items()
    }
    figure = line_chart(
        {"": above_0}, x="parts of the network, in the order of the computation", y=y
    )
    figure.update_traces(
        mode="lines+markers", marker_size=6, customdata=[escape(place) for place in places],
        hovertemplate="%{customdata}: %{y:.3g}<extra></extra>",
    )  # fmt: skip
    every = -(-len(at) // 24)
    short = [
        escape(place if len(place) <= LETTERS else f"…{place[-LETTERS:]}") for place in places
    ]
    figure.update_xaxes(
        tickvals=at[::every], ticktext=short[::every], tickangle=-60, automargin=True
    )
    numbers = np.concatenate([each for _, each in above_0.values()])
    decades = np.log10(numbers[np.isfinite(numbers)])
    if not decades.size:
        decades = np.zeros(1)
    # whole decades: a spread of a few percent is not to look like a cliff
    ends = [float(np.floor(decades.min())), float(np.floor(decades.max())) + 1]
    # labelled for what the axis shows: for values that close there is no room
    figure.update_yaxes(log_axis([[10**end for end in ends]]), range=ends)
    return figure.update_layout(showlegend=len(values) > 1)
