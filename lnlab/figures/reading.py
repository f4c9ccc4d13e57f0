"""A passage in words, and how much each of several readers looks at each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
    note,
)

SLOTS = 5
"""The number of readers that one picture holds."""
LETTERS = 92
"""Letters in a line of a passage."""
MARKER = [[at, f"rgba(242, 169, 0, {part})"] for at, part in ((0, 0), (0.15, 0.15), (1, 0.6))]
"""The scale of colours for attention: a marker through which words can be read, on paper and,
where it is dark, on a blackboard."""
FONT = {"family": "DejaVu Sans Mono, Menlo, Consolas, monospace", "size": 12}
INKS = (BLUE, VERMILLION, GREEN, PURPLE, "#7B3FA0", "#8C6D1F", "#C2185B", "#00664A", "#5A3A1A",
        "#3B4CC0")  # fmt: skip
"""The colours of entities, in the order of the candidates."""


@dataclass(frozen=True)
class Posed:
    """A question to look at.

    Attributes:
        words: of the passage, with what ends it.
        query: the sentence with a word missing.
        candidates: the words among which the missing one is.
        answer: the right one.
    """

    words: Sequence[str]
    query: str
    candidates: Sequence[str]
    answer: str


@dataclass(frozen=True)
class Look:
    """The attention of one reader.

    Attributes:
        alpha: at each word (T,).
        text: what stands above it: its answer.
    """

    alpha: np.ndarray
    text: str


def reading(passage: Posed, looks: Mapping[str, Look]) -> go.Figure:
    """The passage once for each reader, marked where it looks; entities have colours.

    Clear is an attention of 0, full orange of 1.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for slot in range(SLOTS):
        axes = {
            "xaxis": f"x{slot + 1}" if slot else "x",
            "yaxis": f"y{slot + 1}" if slot else "y",
        }
        figure.add_heatmap(
            name=f"attention {slot}", colorscale=MARKER, zmin=0, zmax=1, showscale=False,
            ygap=3,
            hovertemplate="%{z:.3f}<extra></extra>", hoverongaps=False, **axes,
        )  # fmt: skip
        figure.add_scatter(
            name=f"words {slot}", mode="text", hoverinfo="skip",
**axes,
        )  # fmt: skip
    fill(figure, reading_traces(passage, looks))
    return figure.update_layout(reading_layout(passage, looks))


def reading_traces(passage: Posed, looks: Mapping[str, Look]) -> Traces:
    """The traces of :func:`reading`."""
    lines, begins = laid_out(passage.words)
    colours = dict(
        zip(passage.candidates, np.resize(INKS, len(passage.candidates)), strict=True)
    )
    shown, traces = [*looks.values()], Traces()
    for slot in range(SLOTS):
        if slot >= len(shown):
            traces[f"attention {slot}"] = traces[f"words {slot}"] = {"visible": False}
            continue
        grid = np.full((int(lines[-1]) + 1, LETTERS), np.nan)
        places = zip(passage.words, lines, begins, shown[slot].alpha, strict=True)
        for word, line, begin, alpha in places:
            grid[line, begin : begin + len(word)] = alpha
        middles = begins + np.array([len(word) - 1 for word in passage.words]) / 2
        traces[f"attention {slot}"] = {
            "z": grid, "x": np.arange(float(LETTERS)), "y": np.arange(float(len(grid))),
            "visible": True,
        }  # fmt: skip
        traces[f"words {slot}"] = {
            "x": middles,
            "y": lines.astype(float),
            "text": [literal(word) for word in passage.words],
            "textfont": FONT | {"color": [colours.get(word, INK) for word in passage.words]},
            "visible": True,
        }
    return traces


def laid_out(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The line of each word (T,), and the place of its first letter in it (T,)."""
    places, line, at = [], 0, 0
    for word in words:
        if at and at + len(word) > LETTERS:
            line, at = line + 1, 0
        places.append((line, at))
        at += len(word) + 1
    found = np.array(places)
    return found[:, 0], found[:, 1]


def reading_layout(passage: Posed, looks: Mapping[str, Look]) -> dict[str, Any]:
    """The axes, names and height of :func:`reading`."""
    rows = int(laid_out(passage.words)[0][-1]) + 1
    block = 20 * rows + 34  # pixels of a reader: its lines, and what is above them
    height = block * max(1, len(looks)) + 60
    inside = height - 60
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 12, "r": 12, "t": 50, "b": 10},
    }
    title = f"<b>{literal(passage.query)}</b>"
    notes = [note(title, 0, 1.0, 26)]
    for slot in range(SLOTS):
        end = str(slot + 1) if slot else ""
        top = 1 - (block * slot + 30) / inside
        low = max(0.0, top - 20 * rows / inside)
        there = slot < len(looks)
        quiet = {"visible": False, "fixedrange": True}
        layout[f"xaxis{end}"] = quiet | {"anchor": f"y{end}", "range": [-0.6, LETTERS - 0.4]}
        layout[f"yaxis{end}"] = quiet | {
            "anchor": f"x{end}",
            "domain": [low, top] if there else [0, 0.01],
            "range": [rows - 0.5, -0.5],
        }
    for slot, (name, look) in enumerate(looks.items()):
        top = 1 - (block * slot + 30) / inside
        notes.append(note(f"<b>{literal(name)}</b>  {literal(look.text)}", 0, top, 2))
    return layout | {"annotations": notes}
