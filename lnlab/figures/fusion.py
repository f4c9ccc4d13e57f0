"""Pictures of the fused recurrence: who does what when, and what is kept for the way back."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from lnlab.figures.style.palette import BLUE, GREEN, GREY, INK, ORANGE, TEMPLATE, VERMILLION
from lnlab.figures.style.text import literal

WORK = {
    "input": ("W<sub>x</sub>x of many steps at once", BLUE),
    "recurrent": ("W<sub>h</sub>h of one step", VERMILLION),
    "rest": ("the rest of the step: LN, gates, c, h", GREEN),
}
OPERATORS = ("recurrent", "rest", "rest", "rest", "rest")
"""The operators of a step in a loop, by what they do; there are several times as many."""

WIDTHS = {"input": 0.55, "recurrent": 0.62, "rest": 0.3}


def timeline(slices: Sequence[int], steps: int = 4, chunk: int = 2) -> go.Figure:
    """Two ways through time, a lane for each thread; widths are not to scale.

    Args:
        slices: the number of cases of each slice of the batch, a thread each.
        steps: how many time steps are drawn.
        chunk: for how many steps W_x x is computed at once.
    """
    figure = _canvas(430)
    threads = len(slices)
    looped, waits = _loop(steps)
    for lane in range(threads):
        base = threads + 1.2 + lane
        for left, width, work in looped:
            _box(figure, left, base, width, 0.72, "", WORK[work][1])
        _label(figure, -0.1, base + 0.36, f"thread {threads - lane}", anchor="right")
    for at in waits:
        top = {"y0": threads + 1.05, "y1": 2 * threads + 1.1}
        line = {"color": INK, "width": 1.5, "dash": "dot"}
        figure.add_shape(type="line", x0=at, x1=at, line=line, **top)
    end = looped[-1][0] + looped[-1][1]
    for lane in range(threads):
        for left, width, work in _alone(steps, chunk):
            _box(figure, left, lane, width, 0.72, "", WORK[work][1])
            end = max(end, left + width)
        cases = f"thread {threads - lane}: {slices[threads - 1 - lane]} cases"
        _label(figure, -0.1, lane + 0.36, cases, anchor="right")
    top = 2 * threads + 1.45
    _label(figure, 0, top, "<b>A loop of operators.</b> At every dotted line all threads wait.")
    own = "Each thread takes its own cases through all steps and waits for nobody."
    _label(figure, 0, threads + 0.12, f"<b>One call.</b> {own}")
    _legend(figure, -0.75)
    figure.update_xaxes(range=[-1.75, end + 0.1])
    return figure.update_yaxes(range=[-1.05, top + 0.4])


def _loop(steps: int) -> tuple[list[tuple[float, float, str]], list[float]]:
    """Boxes (left, width, work) of a loop of operators, and where the threads wait."""
    boxes, waits, now = [], [], 0.0
    for work in ["input", *OPERATORS * steps]:
        width = {"input": 1.6 * WIDTHS["input"], "rest": 0.11}.get(work, WIDTHS[work])
        boxes.append((now, width, work))
        now += width + 0.07
        waits.append(now - 0.035)
    return boxes, waits


def _alone(steps: int, chunk: int) -> list[tuple[float, float, str]]:
    """Boxes (left, width, work) of one slice that goes through all steps by itself."""
    boxes, now = [], 0.0
    for step in range(steps):
        works = ["recurrent", "rest"] if step % chunk else ["input", "recurrent", "rest"]
        for work in works:
            boxes.append((now, WIDTHS[work], work))
            now += WIDTHS[work]
    return boxes


def step() -> go.Figure:
    """One time step of the LN-LSTM as the kernel computes it, and what it keeps of it."""
    figure = _canvas(400)
    kept, made = {"line": ORANGE}, {"line": GREY}
    blue, red, green = (WORK[work][1] for work in WORK)
    boxes: dict[str, tuple[float, float, str, str, dict]] = {
        "x": (0.0, 2.2, "x<sub>t</sub>", "white", made),
        "h_": (0.0, 1.1, "h<sub>t−1</sub>", "white", kept),
        "c_": (0.0, 0.0, "c<sub>t−1</sub>", "white", kept),
        "Wx": (1.3, 2.2, "W<sub>x</sub>x", blue, kept),
        "Wh": (1.3, 1.1, "W<sub>h</sub>h", red, kept),
        "LNx": (2.6, 2.2, "μ, σ", green, kept),
        "LNh": (2.6, 1.1, "μ, σ", green, kept),
        "gates": (3.9, 1.65, "f, i, o, g", green, made),
        "c": (5.2, 0.0, "c<sub>t</sub>", green, kept),
        "LNc": (6.5, 0.0, "μ, σ", green, kept),
        "h": (7.8, 1.1, "h<sub>t</sub>", green, kept),
    }
    for left, bottom, text, fill, line in boxes.values():
        _box(figure, left, bottom, 0.9, 0.7, text, fill, **line)
    arrows = "x Wx, Wx LNx, h_ Wh, Wh LNh, LNx gates, LNh gates, gates c, c_ c, c LNc, LNc h"
    for pair in [*arrows.split(", "), "gates h"]:
        (x0, y0, *_), (x1, y1, *_) = (boxes[name] for name in pair.split())
        _arrow(figure, (x0 + 0.9, y0 + 0.35), (x1, y1 + 0.35))
    _legend(figure, -0.75)
    frame = f"<span style='color:{ORANGE}'>□</span>"
    _label(
        figure, 0.0, -1.15, f"{frame} kept for the way back; the gates are computed again there"
    )
    figure.update_xaxes(range=[-0.2, 8.9])
    return figure.update_yaxes(range=[-1.35, 3.1])


def kept(sizes: Mapping[str, float], *, unit: str) -> go.Figure:
    """A bar for each: how much is kept for the way back."""
    names = [literal(name) for name in sizes]
    figure = go.Figure(layout={"template": TEMPLATE, "height": 90 + 55 * len(sizes)})
    figure.update_layout(margin={"r": 60})  # for the numbers behind the bars
    figure.add_bar(
        x=list(sizes.values()), y=names, orientation="h", marker={"color": BLUE},
        texttemplate="%{x:.3g}", textposition="outside", cliponaxis=False,
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text=literal(unit), rangemode="tozero")
    return figure.update_yaxes(autorange="reversed")


def _canvas(height: int) -> go.Figure:
    """A figure without axes, in which shapes are drawn."""
    margin = {"l": 10, "r": 10, "t": 10, "b": 10}
    figure = go.Figure(layout={"template": TEMPLATE, "height": height, "margin": margin})
    figure.update_layout(meta={"width": 840})  # what stands in boxes does not shrink
    figure.update_xaxes(visible=False, fixedrange=True)
    return figure.update_yaxes(visible=False, fixedrange=True)


def _box(
    figure: go.Figure,
    left: float,
    bottom: float,
    width: float,
    height: float,
    text: str,
    fill: str,
    line: str = "white",
) -> None:
    frame = {"color": line, "width": 4 if line == ORANGE else 1}
    figure.add_shape(
        type="rect", x0=left, x1=left + width, y0=bottom, y1=bottom + height,
        fillcolor=fill, line=frame,
    )  # fmt: skip
    if text:
        color = INK if fill == "white" else "white"
        middle = left + width / 2, bottom + height / 2
        _label(figure, *middle, text, anchor="center", color=color, size=17)


def _label(
    figure: go.Figure,
    x: float,
    y: float,
    text: str,
    anchor: Any = "left",
    color: str = INK,
    size: int = 14,
) -> None:
    figure.add_annotation(
        text=text, x=x, y=y, xanchor=anchor, yanchor="middle", showarrow=False,
        font={"color": color, "size": size},
    )  # fmt: skip


def _arrow(figure: go.Figure, start: tuple[float, float], end: tuple[float, float]) -> None:
    figure.add_annotation(
        x=end[0], y=end[1], ax=start[0], ay=start[1], axref="x", ayref="y", text="",
        showarrow=True, arrowhead=2, arrowwidth=1.6, arrowcolor="#4B5563",
    )  # fmt: skip


def _legend(figure: go.Figure, y: float) -> None:
    """The legend: what the colours mean, below the picture."""
    said = [f"<span style='color:{color}'>■</span> {text}" for text, color in WORK.values()]
    _label(figure, 0.0, y, " &nbsp; &nbsp; ".join(said))
