"""Curves beside each other: a quantity against time, or against a setting."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style import (
    BLUE,
    GREY,
    INK,
    OTHERS,
    PREDICTED,
    TEMPLATE,
    add_footnote,
    band,
    escape,
    legend_rank,
    linear_axis,
    lines,
    log_axis,
    shade,
)

Curve = tuple[np.ndarray, np.ndarray]
"""Places and values, each (K,)."""


def line_chart(
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
    """Draw panels side by side on one scale, a line for each name.

    Args:
        panels: the curves of each panel by its title.
        x: what the axis of x is, with its unit.
        y: likewise of y.
        dots: names whose values are drawn as dots and not as a line.
        predicted: names whose values were not measured; their lines are dashed.
        mark: a place on the axis of x, and what is there.

    Examples:
        >>> steps = np.arange(1, 11)
        >>> curves = {"none": (steps, 1 / steps), "layer": (steps, 1 / steps**2)}
        >>> lnlab.figures.line_chart({"": curves}, x="updates", y="loss")
    """
    figure = _curve_panels(panels, x, y, log_x, log_y, horizontal_spacing=0.06)
    styles = lines(name for panel in panels.values() for name in panel)
    for column, panel in enumerate(panels.values(), start=1):
        for text, (at, values) in panel.items():
            name, look = escape(text), styles[text] | (PREDICTED if text in predicted else {})
            figure.add_scatter(
                x=at, y=values, name=name, legendgroup=name,
                mode="markers" if text in dots else "lines", line=look, marker={"size": 9},
                legendrank=legend_rank(text), row=1, col=column,
                hovertemplate=f"{name}<br>%{{x:.4g}}: %{{y:.3g}}<extra></extra>",
            )  # fmt: skip
    if mark:
        figure.add_vline(
            mark[0], line={"color": GREY, "width": 1.5, "dash": "dot"}, row="all", col="all",
            annotation={"text": escape(mark[1]), "font": {"color": "#4B5563"}},
            annotation_position="top right",
        )  # fmt: skip
    name_once(figure)
    return figure.update_layout(height=430)


def name_once(figure: go.Figure) -> None:
    """Name each group of traces once in the legend."""
    data: Any = figure.data
    named = set()
    for trace in data:
        if trace.showlegend is not False:
            trace.showlegend = trace.legendgroup not in named
            named.add(trace.legendgroup)


def _curve_panels(
    panels: Mapping[str, Mapping[str, Curve]],
    x: str,
    y: str,
    log_x: bool,
    log_y: bool,
    **options: Any,
) -> go.Figure:
    """Return empty panels side by side, whose axes hold all curves."""
    titles = [escape(title) for title in panels]
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=titles, **options)
    every = [curve for panel in panels.values() for curve in panel.values()]
    figure.update_xaxes((log_axis if log_x else linear_axis)(at for at, _ in every))
    values = (values for _, values in every)
    figure.update_yaxes(log_axis(values) if log_y else {"type": "linear"})
    figure.update_xaxes(title_text=escape(x)).update_yaxes(title_text=escape(y), col=1)
    return figure.update_layout(template=TEMPLATE, legend={"y": 1.09}, margin={"t": 75})


def learning_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    *,
    x: str,
    y: str,
    made_on: str,
    log_x: bool = False,
    log_y: bool = True,
) -> go.Figure:
    """Draw panels side by side on one scale: lines are means, bands hold all seeds.

    What was measured at x = 0 has no place on a logarithmic axis and is left out there.

    Args:
        panels: by title and by name the places (K,) and the values (S, K), a row a seed.
        x: what the axis of x is, with its unit.
        y: likewise of y.
        made_on: the data's kind and the hardware, printed below.

    Examples:
        >>> updates, losses = np.arange(1, 11), np.random.rand(3, 10)
        >>> panels = {"": {"layer": (updates, losses), "batch": (updates, 2 * losses)}}
        >>> lnlab.figures.learning_curves(panels, x="updates", y="loss", made_on="3 seeds")
    """
    figure = _curve_panels(panels, x, y, log_x, log_y)
    styles = lines(name for panel in panels.values() for name in panel)
    several = False
    for column, panel in enumerate(panels.values(), start=1):
        for name, (at, values) in panel.items():
            shown = at > 0 if log_x else np.full(at.shape, True)
            curve = mean_and_band(name, at[shown], values[:, shown], styles[name])
            figure.add_traces(curve, 1, column)
            several |= len(values) > 1
    note = " Line: mean; band: least to greatest of the seeds." if several else ""
    name_once(figure)
    return add_footnote(figure.update_layout(height=460), f"{made_on}.{note}")


def mean_and_band(
    text: str, x: np.ndarray, y: np.ndarray, look: Mapping[str, Any]
) -> list[go.Scatter]:
    """Return the spread of seeds (S, K) over x (K,) and their mean, one group of a legend."""
    name, middle = escape(text), y.mean(axis=0)
    finite = np.isfinite(middle)
    joined = (finite[1:] & finite[:-1]).any()
    area = band(x, y.min(axis=0), y.max(axis=0), look["color"])
    mean = go.Scatter(
        x=x, y=middle, name=name, legendrank=legend_rank(text), legendgroup=name, line=look,
        mode="lines" if joined else "markers",  # a line through one place is not seen
        marker={"color": look["color"], "size": 9},
        hovertemplate=f"{name}<br>%{{x:.4g}}: %{{y:.3g}}<extra></extra>",
    )  # fmt: skip
    return [go.Scatter(area, showlegend=False, legendgroup=name), mean]


# Paired differences with an interval.


ROW = 30
"""The most letters of a label in one line."""

Difference = tuple[Sequence[float], tuple[float, float]]
"""A paired difference: one value a seed, and the interval of their mean."""


def paired_differences(
    differences: Mapping[str, Difference], *, x: str, made_on: str
) -> go.Figure:
    """Draw a row for each comparison: its seeds as dots, its interval as a bar, the zero.

    Where the bar reaches the zero, nobody has won.

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
            x=[low, high], y=[name, name], mode="lines", opacity=0.45,
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
    return add_footnote(figure, f"{made_on}. Dots: seeds; bar: 95 % interval of the mean (t).")


# Distributions that change with time, as ribbons of quantiles.


LIGHT, DARK = ("q05", "q95"), ("q25", "q75")


def ribbons(frames: Mapping[str, pd.DataFrame], *, y: str = "") -> go.Figure:
    """Draw one ribbon a panel on one scale: median, the middle half, the middle nine tenths.

    Args:
        frames: by name, a row a step with ``step``, ``q05``, ``q25``, ``q50``, ``q75`` and
            ``q95``.
        y: what the quantiles are of, with its unit.
    """
    titles = [escape(title) for title in frames]
    figure = make_subplots(1, len(frames), shared_yaxes=True, subplot_titles=titles)
    for column, (name, frame) in enumerate(frames.items(), start=1):
        look = lines([name])[name]
        step = frame["step"].to_numpy()
        for (low, high), opacity in ((LIGHT, 0.18), (DARK, 0.35)):
            edges = frame[low].to_numpy(), frame[high].to_numpy()
            figure.add_trace(go.Scatter(band(step, *edges, look["color"], opacity)), 1, column)
        figure.add_scatter(
            x=frame["step"], y=frame["q50"], mode="lines", line=look,
            hovertemplate="%{x}: median %{y:.3g}<extra></extra>", row=1, col=column,
        )  # fmt: skip
    figure.update_xaxes(title_text="updates")
    figure.update_yaxes(title_text=escape(y), col=1)
    return figure.update_layout(template=TEMPLATE, height=400, showlegend=False)


# Along a training: what lies between two ends of a band, and a level to compare with.


Ribbon = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Updates (K,), and the two ends of a band at each, one row a seed (S, K)."""


def smoothness_ribbons(rows: Mapping[str, Mapping[str, Ribbon]], *, made_on: str) -> go.Figure:
    """Draw ribbons between the ends of a band along a training, a panel for each normalizer.

    The ribbon goes from the mean of the lower ends over the seeds to that of the upper ones;
    the one around it from the least seed to the greatest.

    Args:
        rows: by what the bands are of, with its unit, those of each normalizer; all rows of
            the same normalizers, and on a scale of their own.
        made_on: the data's kind, printed below.
    """
    names = [*next(iter(rows.values()))]
    figure = make_subplots(
        len(rows), len(names), shared_xaxes=True, shared_yaxes=True,
        subplot_titles=[escape(name) for name in names], vertical_spacing=0.08,
    )  # fmt: skip
    styles = lines(names)
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
        figure, f"{made_on}. Inner band: mean of the seeds; outer: least to greatest."
    )


def add_level(figure: go.Figure, y: float, text: str, *, left: bool = False) -> go.Figure:
    """Add a dotted line at ``y`` to every panel, and what it is to the last.

    The words stand at its right end, or at its left where curves cover the right one.
    """
    look = {"color": INK, "width": 1.5, "dash": "dot"}
    figure.add_hline(y, line=look, row="all", col="all")
    untyped: Any = figure
    panels = len({trace.xaxis for trace in untyped.data})
    is_log = untyped.layout.yaxis.type == "log"
    return figure.add_annotation(
        x=0 if left else 1, xref="x domain" if panels == 1 else f"x{panels} domain",
        xanchor="left" if left else "right",
        y=np.log10(y) if is_log else y, yanchor="bottom", text=escape(text),
        showarrow=False, font={"size": 12}, yshift=2, bgcolor="rgba(255, 255, 255, 0.75)",
    )  # fmt: skip


# A quantity against the size of a change, over many decades of both.


FLOOR = 1e-17
"""The height at which a value of exactly 0 is drawn: below the rounding of float64."""


def sweeps(at: np.ndarray, curves: Mapping[str, np.ndarray], *, x: str, y: str) -> go.Figure:
    """Draw curves by name over ``at`` (K,), both axes logarithmic.

    What is exactly 0 is drawn at 1e-17, the foot of the axis; what is not a number is left out.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 420})
    styles = lines(curves)
    for text, values in curves.items():
        name = escape(text)
        figure.add_scatter(
            x=at, y=np.where(values == 0, FLOOR, values), name=name, mode="lines",
            legendrank=legend_rank(text),
            line=styles[text], hovertemplate=f"{name}<br>%{{x:.3g}}: %{{y:.2e}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text=escape(x))
    figure.update_yaxes(title_text=escape(y), range=[np.log10(FLOOR), 1], dtick=4)
    for_both = {"type": "log", "exponentformat": "power"}
    return figure.update_layout(xaxis=for_both, yaxis=for_both)


# A quantity along the depth of a net.


LETTERS = 34
"""The most letters of a place that are written under the axis: its last ones."""


def over_depth(
    places: Sequence[str], values: Mapping[str, Sequence[float]], *, y: str
) -> go.Figure:
    """Draw a line for each name over the parts of a net, in the order of the computation.

    Args:
        places: the names of the parts; of several calls of one, each.
        values: for each line one number a place; 0, which has no logarithm, is left out.
        y: what they are, with their unit.
    """
    figure = go.Figure()
    at, styles = list(range(len(places))), lines(values)
    names = [escape(place) for place in places]
    for name, each in values.items():
        figure.add_scatter(
            x=at, y=[number if number > 0 else None for number in each],
            name=escape(name), mode="lines+markers", line=styles[name],
            customdata=names, hovertemplate="%{customdata}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    every = -(-len(at) // 24)
    short = [
        escape(place if len(place) <= LETTERS else f"…{place[-LETTERS:]}") for place in places
    ]
    figure.update_xaxes(
        tickvals=at[::every], ticktext=short[::every], tickangle=-60, automargin=True,
        title_text="parts, in the order of the computation",
    )  # fmt: skip
    numbers = np.concatenate([np.asarray(each, float) for each in values.values()])
    decades = np.log10(numbers[np.isfinite(numbers) & (numbers > 0)])
    if not decades.size:
        decades = np.zeros(1)
    # whole decades: a spread of a few percent is not to look like a cliff
    ends = [float(np.floor(decades.min())), float(np.floor(decades.max())) + 1]
    # labelled for what the axis shows: for values that close there is no room
    axis = log_axis([[10**end for end in ends]])
    figure.update_yaxes(axis, range=ends, title_text=escape(y))
    return figure.update_layout(
        template=TEMPLATE, height=440, showlegend=len(values) > 1, legend={"y": 1.09}
    )


# How long each contender takes, as a multiple of torch's layer without a norm.


_PALE = {"color": shade(BLUE, 2), "width": 4, "dash": "dash"}
CONTENDERS = {
    "LN-LSTM, fused": ("LN-LSTM", "ours_ms", {"color": BLUE, "width": 4}),
    "LN-GRU, fused": ("LN-GRU", "ours_ms", _PALE),
    "LN-LSTM, loop of operators":
        ("LN-LSTM", "reference_ms", {"color": OTHERS[2], "dash": "dashdot"}),
    "LN-LSTM, TorchScript": ("LN-LSTM", "script_ms", {"color": OTHERS[3], "dash": "6px,3px"}),
    "LN-LSTM, matrix products alone": ("LN-LSTM", "floor_ms", {"color": GREY, "dash": "dot"}),
}  # fmt: skip
"""The cell, its time in a row of benchmarks/recurrent.py, and the look of its line: ours in the
colour of layer norm."""

Ratio = tuple[float, float, float, float]
"""The place of a measurement, the ratio, its lower and its upper quartile."""

TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def ratios_to_torch(
    rows: Sequence[Mapping[str, Any]], place: int, phase: str
) -> dict[str, list[Ratio]]:
    """Return the bars of :func:`ratio_curves`, made of rows of benchmarks/recurrent.py.

    The ratio of a fused layer is the median over rounds, with its quartiles; those of the
    others are ratios of medians.

    Args:
        rows: what was timed, of one or several cells and phases.
        place: which of T, B, inputs, H the axis of x is.
        phase: "train" or "infer".
    """
    panel: dict[str, list[Ratio]] = {}
    for name, (cell, key, _) in CONTENDERS.items():
        for row in rows:
            if (row["cell"], row["phase"]) == (cell, phase):
                fused = key == "ours_ms"
                one = (row[key] / row["torch_ms"],) * 3
                ratios = (row["ratio"], *row["range"]) if fused else one
                panel.setdefault(name, []).append((row["size"][place], *ratios))
    return panel


def ratio_curves(
    panels: Mapping[str, Mapping[str, Sequence[Ratio]]], *, made_on: str
) -> go.Figure:
    """Draw panels side by side on logarithmic axes; below the line at 1 nothing is lost.

    Args:
        panels: the :func:`ratios_to_torch` of each; its title is what its axis of x is.
        made_on: the hardware and the threads, printed below.
    """
    figure = make_subplots(1, len(panels), shared_yaxes=True, horizontal_spacing=0.05)
    for column, (x, panel) in enumerate(panels.items(), start=1):
        for name, ratios in panel.items():
            at, ratio, low, high = np.array(ratios, dtype=float).reshape(-1, 4).T
            look = CONTENDERS[name][2]
            bars = {"type": "data", "symmetric": False, "color": look["color"]}
            figure.add_scatter(
                x=at, y=ratio, name=name, legendgroup=name, showlegend=column == 1,
                mode="lines+markers", line=look, marker={"size": 8},
                error_y=bars | {"array": high - ratio, "arrayminus": ratio - low},
                hovertemplate=f"{name}<br>%{{x:g}}: %{{y:.2f}} times<extra></extra>",
                row=1, col=column,
            )  # fmt: skip
        places = sorted({place for ratios in panel.values() for place, *_ in ratios})
        ticks = {"tickvals": places, "ticktext": [f"{place:g}" for place in places]}
        figure.update_xaxes(title_text=escape(x), type="log", **ticks, col=column)
    figure.add_hline(1, line={"color": INK, "width": 1.5}, row="all", col="all")
    figure.update_yaxes(type="log", tickvals=TICKS, ticktext=[f"{tick:g}" for tick in TICKS])
    figure.update_yaxes(title_text="time / torch's without norm", col=1)
    figure.update_layout(template=TEMPLATE, height=480)
    return add_footnote(
        figure, f"{made_on}. Dots: medians; bars: quartiles of the fused layers."
    )
