"""The attention of a speller over the sound while it spells, the truth drawn in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import MARK, SIZES, TEMPLATE, Traces, fill, grid, literal, note

SLOTS = 4
"""The number of attentions that one picture holds."""

COLUMNS = {"": "", " beside": "2"}
"""The numbers of the spectrogram's axes in each column, by what ends the traces' names."""

FIRST = 3
"""The number of the axes of the first attention."""


@dataclass(frozen=True)
class Spoken:
    """An utterance to look at.

    Attributes:
        title: what it is.
        spectrogram: log energies (T, filters).
        hop: seconds from one frame of it to the next.
        units: what was said.
        begins, ends: seconds of each unit; None where nobody knows.
    """

    title: str
    spectrogram: np.ndarray
    hop: float
    units: Sequence[str]
    begins: np.ndarray | None
    ends: np.ndarray | None


@dataclass(frozen=True)
class AttentionMap:
    """The attention of one recognizer.

    Attributes:
        alpha: (units, steps).
        step: seconds of one step.
        text: what stands above the picture, of this utterance.
        score: what stands beside the name, of all utterances.
    """

    alpha: np.ndarray
    step: float
    text: str
    score: str = ""


def attention(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> go.Figure:
    """The spectrogram, and below it a heat-map for each recognizer, two in a row.

    With two in a row the spectrogram stands above both, on the time axis of what is below it.
    Orange boxes are where each unit was said.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 760})
    for name, axis in COLUMNS.items():
        axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        figure.add_heatmap(name=f"sound{name}", colorscale="gray", showscale=False, **axes)
        figure.add_scatter(
            name=f"ends{name}", mode="lines", line={"color": MARK, "width": 1.5},
            hoverinfo="skip", showlegend=False, **axes,
        )  # fmt: skip
    for slot in range(SLOTS):
        axes = {"xaxis": f"x{slot + FIRST}", "yaxis": f"y{slot + FIRST}"}
        figure.add_heatmap(
            name=f"attention {slot}", colorscale=SIZES, zmin=0, zmax=1, showscale=slot == 0,
            colorbar={"title": "attention", "len": 0.62, "y": 0, "yanchor": "bottom"},
            hovertemplate="%{x:.2f} s: %{z:.2f}<extra></extra>", **axes,
        )  # fmt: skip
        figure.add_scatter(
            name=f"truth {slot}", mode="lines", line={"color": MARK, "width": 1.5},
            hoverinfo="skip", showlegend=False, **axes,
        )  # fmt: skip
    fill(figure, attention_traces(spoken, attentions))
    return figure.update_layout(attention_layout(spoken, attentions))


def attention_traces(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> Traces:
    """The traces of :func:`attention`."""
    T, filters = spoken.spectrogram.shape
    sound = {
        "z": spoken.spectrogram.T,
        "x": spoken.hop * np.arange(T),
        "y": np.arange(1.0, filters + 1),
    }
    ends, traces = boundaries(spoken, filters), Traces()
    for number, name in enumerate(COLUMNS):
        there = number == 0 or len(attentions) > 1
        traces[f"sound{name}"] = sound | {"visible": there}
        traces[f"ends{name}"] = ends | {"visible": there and ends["visible"]}
    shown = list(attentions.values())
    for slot in range(SLOTS):
        if slot >= len(shown):
            traces[f"attention {slot}"] = traces[f"truth {slot}"] = {"visible": False}
            continue
        alpha, step = shown[slot].alpha, shown[slot].step
        traces[f"attention {slot}"] = {
            "z": alpha,
            "x": step * (np.arange(alpha.shape[1]) + 0.5),
            "y": np.arange(float(len(alpha))),
            "visible": True,
        }
        traces[f"truth {slot}"] = boxes(spoken) | {"visible": spoken.ends is not None}
    return traces


def boundaries(spoken: Spoken, filters: int) -> dict[str, Any]:
    """A line through the spectrogram at the end of each unit."""
    if spoken.begins is None or spoken.ends is None:
        return {"visible": False}
    at = np.unique(np.concatenate([spoken.begins, spoken.ends]))
    ends = np.tile([0.5, filters + 0.5, np.nan], len(at))
    return {"x": np.repeat(at, 3), "y": ends, "visible": True}


def boxes(spoken: Spoken) -> dict[str, Any]:
    """A box for each unit, from where it begins to where it ends, in its row."""
    if spoken.begins is None or spoken.ends is None:
        return {"x": [], "y": []}
    row = np.arange(len(spoken.units), dtype=float)
    gap = np.full(len(row), np.nan)
    left, right, low, high = spoken.begins, spoken.ends, row - 0.5, row + 0.5
    return {
        "x": np.stack([left, right, right, left, left, gap], 1).ravel(),
        "y": np.stack([low, low, high, high, low, gap], 1).ravel(),
    }


def attention_layout(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> dict[str, Any]:
    """The axes, names and titles of :func:`attention`."""
    T, filters = spoken.spectrogram.shape
    seconds, places = spoken.hop * T, _places()
    labels = [literal(unit) for unit in spoken.units]
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 56, "b": 46},
    }
    notes = [note(f"<b>{literal(spoken.title)}</b>", 0, 1.0, 34)]
    for axis in COLUMNS.values():
        x, y = f"xaxis{axis}", f"yaxis{axis}"
        there = {"visible": not axis or len(attentions) > 1, "fixedrange": True}
        layout[x] = places[x] | {"range": [0, seconds]} | there
        layout[y] = places[y] | {"range": [0.5, filters + 0.5]} | there
        if spoken.begins is not None and spoken.ends is not None:
            middle = (spoken.begins + spoken.ends) / 2
            named = {"tickvals": middle.tolist(), "ticktext": labels, "ticks": ""}
            layout[x] |= named | {"side": "top"}
    layout["yaxis"]["title"] = {"text": "mel filter"}
    if not attentions:
        layout["xaxis"]["domain"] = [0, places["xaxis2"]["domain"][1]]
    for slot, (name, attention) in enumerate(attentions.items()):
        x, y = f"xaxis{slot + FIRST}", f"yaxis{slot + FIRST}"
        lowest = slot + 2 >= len(attentions)
        layout[x] = places[x] | {
            "range": [0, seconds],
            "title": {"text": "seconds" if lowest else ""},
            "showticklabels": lowest,
            "fixedrange": True,
        }
        layout[y] = places[y] | {
            "range": [len(labels) - 0.5, -0.5],
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
            "fixedrange": True,
            "showgrid": False,
        }
        said = f"<b>{literal(name)}</b> {literal(attention.score)}"
        text = f"{said}<br>{literal(attention.text)}"
        place = places[x]["domain"][0], places[y]["domain"][1]
        notes.append(note(text, *place, 6) | {"align": "left"})
    for slot in range(len(attentions), SLOTS):
        layout[f"xaxis{slot + FIRST}"] = layout[f"yaxis{slot + FIRST}"] = {"visible": False}
    return layout | {"annotations": notes}


@cache
def _places() -> dict[str, dict[str, Any]]:
    """The sound and two attentions in each of two columns; right of them the colour bar."""
    right, last = {"r": 0.08}, {"b": 0.03}
    return grid(
        3, 2, specs=[[last, right | last], [{}, right], [last, right | last]],
        column_widths=[0.43, 0.51], horizontal_spacing=0.06,
        row_heights=[0.19, 0.3, 0.33], vertical_spacing=0.09,
    )  # fmt: skip
