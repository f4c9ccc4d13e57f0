"""The loss along lines through a minimum."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.landscape.losses import (
    HEIGHTS,
    HIGHEST,
    LOSS,
    LOWEST,
    Landscape,
    stamped,
    subtitled,
)
from lnlab.figures.style.axes import logarithmic
from lnlab.figures.style.palette import INK, TEMPLATE, lines, rank
from lnlab.figures.style.text import literal, signed
from lnlab.figures.style.traces import Traces, fill


def bands(
    panels: Mapping[str, Mapping[str, Sequence[Landscape]]], *, x: str, made_on: str
) -> go.Figure:
    """Lines through a minimum in several directions: thin ones, and a band that holds them.

    Args:
        panels: by title the lines of each name, of one kind of statistics.
        x: what the coordinate is.
        made_on: the data's kind, printed below.
    """
    titles = [subtitled(title, _all(panel)) for title, panel in panels.items()]
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=titles)
    looks = lines(dict.fromkeys(name for panel in panels.values() for name in panel))
    named: set[str] = set()
    for column, panel in enumerate(panels.values(), start=1):
        for name, several in panel.items():
            traces = band_traces(name, several, looks[name])
            traces[1].update(showlegend=name not in named)
            figure.add_traces(traces, 1, column)
            named.add(name)
    figure.update_xaxes(title_text=literal(x))
    losses = [each.losses for panel in panels.values() for each in _all(panel)]
    figure.update_yaxes(logarithmic(losses))
    figure.update_yaxes(title_text=LOSS, col=1)
    figure.update_layout(template=TEMPLATE, height=460, legend={"y": 1.14}, margin={"t": 105})
    return signed(figure, f"{made_on}. Thin: one direction each; band: least to greatest.")


def _all(panel: Mapping[str, Sequence[Landscape]]) -> list[Landscape]:
    return [line for several in panel.values() for line in several]


def band_traces(
    name: str, several: Sequence[Landscape], look: Mapping[str, Any]
) -> list[go.Scatter]:
    """The band of a few lines and each line, as traces of one group of the legend."""
    at = np.asarray(several[0].at[0])
    losses = np.stack([np.asarray(line.losses) for line in several])
    group = {"legendgroup": literal(name), "name": literal(name), "legendrank": rank(name)}
    band = go.Scatter(
        x=np.concatenate([at, at[::-1]]),
        y=np.concatenate([losses.max(0), losses.min(0)[::-1]]),
        mode="lines", fill="toself", fillcolor=look["color"], opacity=0.18,
        line={"width": 0, "color": look["color"]}, hoverinfo="skip", showlegend=False, **group,
    )  # fmt: skip
    hover = f"{literal(name)}<br>%{{x:.3g}}: %{{y:.3g}}<extra></extra>"
    each = [
        go.Scatter(
            x=at,
            y=values,
            mode="lines",
            line={**look, "width": 1.2},
            showlegend=False,
            hovertemplate=hover,
            **group,
        )
        for values in losses
    ]
    return [band, *each]


def cuts(several: Sequence[Landscape], name: str, over_cases: bool = True) -> go.Figure:
    """The loss along a few lines through w, in the colour of a normalizer, on a log axis.

    Args:
        several: the losses along each.
        name: of the normalizer.
        over_cases: whether it takes statistics over cases.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 330, "showlegend": False})
    figure.add_scatter(name="band", mode="lines", fill="toself", opacity=0.15, hoverinfo="skip")
    for number in range(len(several)):
        figure.add_scatter(
            name=f"line {number}", mode="lines",
            hovertemplate=f"direction {number + 1}, %{{x:.2f}}: %{{y:.3g}}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        name="w", mode="markers", marker={"color": INK, "size": 10},
        hovertemplate="w: %{y:.3g}<extra></extra>",
    )  # fmt: skip
    fill(figure, cuts_traces(several, name))
    return figure.update_layout(cuts_layout(several, over_cases))


def cuts_traces(several: Sequence[Landscape], name: str) -> Traces:
    """The traces of :func:`cuts`."""
    at = np.asarray(several[0].at[0])
    losses = np.stack([np.asarray(line.losses) for line in several])
    band = np.concatenate([losses.max(0), losses.min(0)[::-1]])
    here = np.full(1, several[0].centre)
    color = lines([name])[name]["color"]
    edge, line = ({"color": color, "width": width} for width in (0, 1.5))
    return {
        "band": {
            "x": np.concatenate([at, at[::-1]]), "y": band, "fillcolor": color, "line": edge,
        },
        **{f"line {i}": {"x": at, "y": y, "line": line} for i, y in enumerate(losses)},
        "w": {"x": np.zeros(1), "y": here},
    }  # fmt: skip


def cuts_layout(several: Sequence[Landscape], over_cases: bool = True) -> dict[str, Any]:
    """The axes and the stamp of :func:`cuts`; the axis of losses is always the same."""
    edge = float(np.abs(np.asarray(several[0].at[0])).max())
    return {
        "margin": {"l": 60, "r": 12, "t": 44, "b": 46},
        "xaxis": {
            "range": [-edge, edge],
            "title": {"text": "along a random direction"},
            "fixedrange": True,
        },
        "yaxis": {
            **logarithmic([LOWEST, HIGHEST]),
            "range": list(HEIGHTS),
            "title": {"text": LOSS},
            "fixedrange": True,
        },
        "annotations": [stamped(several[0], "five lines through w", over_cases)],
    }
