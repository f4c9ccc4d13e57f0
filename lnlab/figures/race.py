"""A race: how long each contender takes, as a multiple of torch's layer without a norm."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.style.palette import BLUE, GREY, INK, OTHERS, TEMPLATE, shade
from lnlab.figures.style.text import literal, signed

CONTENDERS = {
    "LN-LSTM, fused": ("LN-LSTM", "ours_ms", {"color": BLUE, "width": 4}),
    "LN-GRU, fused": (
        "LN-GRU",
        "ours_ms",
        {"color": shade(BLUE, 2), "width": 4, "dash": "dash"},
    ),
    "LN-LSTM, loop of operators": (
        "LN-LSTM",
        "reference_ms",
        {"color": OTHERS[2], "dash": "dashdot"},
    ),
    "LN-LSTM, TorchScript": (
        "LN-LSTM",
        "script_ms",
        {"color": OTHERS[3], "dash": "6px,3px"},
    ),
    "LN-LSTM, matrix products alone": ("LN-LSTM", "floor_ms", {"color": GREY, "dash": "dot"}),
}
"""The cell, its time in a row of benchmarks/recurrent.py, and the look of its line: ours in the
colour of layer norm."""

Ratio = tuple[float, float, float, float]
"""The place of a measurement, the ratio, its lower and its upper quartile."""

TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def contenders(
    rows: Sequence[Mapping[str, Any]], place: int, phase: str
) -> dict[str, list[Ratio]]:
    """The bars of :func:`race`, made of rows of benchmarks/recurrent.py.

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
            if (row["cell"], row["phase"]) != (cell, phase):
                continue
            if key == "ours_ms":
                ratios = row["ratio"], *row["range"]
            else:
                ratios = (row[key] / row["torch_ms"],) * 3
            panel.setdefault(name, []).append((row["size"][place], *ratios))
    return panel


def race(panels: Mapping[str, Mapping[str, Sequence[Ratio]]], *, made_on: str) -> go.Figure:
    """Panels side by side, both axes logarithmic; a line at 1, below which nothing is lost.

    Args:
        panels: the :func:`contenders` of each; its title is what its axis of x is.
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
        figure.update_xaxes(title_text=literal(x), type="log", **ticks, col=column)
    figure.add_hline(1, line={"color": INK, "width": 1.5}, row="all", col="all")
    figure.update_yaxes(type="log", tickvals=TICKS, ticktext=[f"{tick:g}" for tick in TICKS])
    figure.update_yaxes(title_text="time / torch's without norm", col=1)
    figure.update_layout(template=TEMPLATE, height=480)
    return signed(figure, f"{made_on}. Dots: medians; bars: quartiles of the fused layers.")
