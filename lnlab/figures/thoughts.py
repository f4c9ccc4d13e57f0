"""A sentence among others, as several nets see it: a map, its neighbours, what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
    note,
)

SLOTS = 3
"""The number of nets that one picture holds."""
NEIGHBOURS = 5
"""Sentences that are written, the nearest first."""
LETTERS = 116
"""Letters that a line may have, all columns together."""


@dataclass(frozen=True)
class Thought:
    """A sentence as one net sees it.

    Attributes:
        points: all sentences in two dimensions (N, 2).
        here: the sentence itself (2,).
        near: its nearest neighbours, and the cosine of the angle to each.
        told: the sentence that the net would let follow.
    """

    points: np.ndarray
    here: np.ndarray
    near: Sequence[tuple[str, float]]
    told: str


def thoughts(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> go.Figure:
    """All sentences as each net sees them, a book's in its order, and the nearest to one.

    Args:
        sentence: that is looked for.
        texts: the sentences of the map (N,).
        path: the places in the map of a book's sentences, in its order.
        seen: by the names of the nets, at most :data:`SLOTS`.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 720, "showlegend": False})
    for slot in range(SLOTS):
        above, below = 2 * slot + 1, 2 * slot + 2
        upper = {"xaxis": _axis("x", above), "yaxis": _axis("y", above)}
        figure.add_scatter(
            name=f"sentences {slot}", mode="markers", marker={"color": GREY, "size": 5},
            opacity=0.6, hovertemplate="%{text}<extra></extra>", **upper,
        )  # fmt: skip
        figure.add_scatter(
            name=f"path {slot}", mode="lines+markers+text", line={"color": BLUE, "width": 1.5},
            marker={"color": BLUE, "size": 7}, textposition="top center",
            textfont={"size": 11, "color": BLUE}, hovertemplate="%{customdata}<extra></extra>",
            **upper,
        )  # fmt: skip
        figure.add_scatter(
            name=f"here {slot}", mode="markers", hovertemplate="%{text}<extra></extra>",
            marker={"color": VERMILLION, "size": 13, "symbol": "star"}, **upper,
        )  # fmt: skip
        figure.add_bar(
            name=f"near {slot}", orientation="h", width=0.3, marker={"color": ORANGE},
            textposition="none", hovertemplate="%{text}: %{x:.3f}<extra></extra>",
            xaxis=_axis("x", below), yaxis=_axis("y", below),
        )  # fmt: skip
    given = sentence, texts, path, seen
    fill(figure, thoughts_traces(*given))
    return figure.update_layout(thoughts_layout(*given))


def thoughts_traces(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> Traces:
    """The traces of :func:`thoughts`."""
    shown, traces = [*seen.values()], Traces()
    order = [*path]
    for slot in range(SLOTS):
        names = [f"{part} {slot}" for part in ("sentences", "path", "here", "near")]
        if slot >= len(shown):
            traces |= {name: {"visible": False} for name in names}
            continue
        one = shown[slot]
        all_, book, here, near = names
        said = [literal(text) for text in texts]
        traces[all_] = {
            "x": one.points[:, 0], "y": one.points[:, 1], "text": said, "visible": True,
        }  # fmt: skip
        traces[book] = {
            "x": one.points[order, 0], "y": one.points[order, 1],
            "text": [str(k + 1) for k in range(len(order))],
            "customdata": [said[place] for place in order], "visible": True,
        }  # fmt: skip
        traces[here] = {
            "x": one.here[:1], "y": one.here[1:], "text": [literal(sentence)], "visible": True,
        }  # fmt: skip
        traces[near] = {
            "x": np.array([cosine for _, cosine in one.near]),
            "y": -np.arange(1.0, len(one.near) + 1),
            "text": [literal(text) for text, _ in one.near], "visible": True,
        }  # fmt: skip
    return traces


def thoughts_layout(
    sentence: str, texts: Sequence[str], path: Sequence[int], seen: Mapping[str, Thought]
) -> dict[str, Any]:
    """The axes and the words of :func:`thoughts`."""
    columns = max(1, len(seen))
    letters = LETTERS // columns
    small = partial(note, size=13)
    notes = [small(f"<b>{literal(sentence)}</b>", 0, 1.09)]
    layout: dict[str, Any] = {"margin": {"l": 12, "r": 12, "t": 70, "b": 36}}
    cosines = [cosine for one in seen.values() for _, cosine in one.near]
    lowest = min([0.0, *cosines])
    for slot in range(SLOTS):
        there = slot < len(seen)
        left, right = (slot / columns, (slot + 0.94) / columns) if there else (0.0, 0.01)
        above, below = 2 * slot + 1, 2 * slot + 2
        still = {"fixedrange": True, "domain": [left, right], "visible": there}
        layout[_axis("xaxis", above)] = still | {
            "anchor": _axis("y", above), "showticklabels": False, "zeroline": False,
        }  # fmt: skip
        layout[_axis("yaxis", above)] = {
            "anchor": _axis("x", above), "domain": [0.5, 0.96], "fixedrange": True,
            "showticklabels": False, "zeroline": False, "visible": there,
        }  # fmt: skip
        layout[_axis("xaxis", below)] = still | {
            "anchor": _axis("y", below), "range": [lowest, 1.0],
            "title": {"text": "cosine", "font": {"size": 12}},
        }  # fmt: skip
        layout[_axis("yaxis", below)] = {
            "anchor": _axis("x", below), "domain": [0.0, 0.38], "fixedrange": True,
            "range": [-NEIGHBOURS - 0.3, -0.3], "visible": False,
        }  # fmt: skip
    for slot, (name, one) in enumerate(seen.items()):
        left, below = slot / columns, 2 * slot + 2
        notes.append(small(f"<b>{literal(name)}</b>", left, 1.01))
        told = literal(_short(one.told, letters - 10)) or "nothing"
        notes.append(small(f"lets follow: <i>{told}</i>", left, 0.455))
        notes.append(small("nearest:", left, 0.4))
        notes += [
            small(literal(_short(text, letters)), lowest, -k - 1 + 0.36)
            | {"xref": _axis("x", below), "yref": _axis("y", below), "yanchor": "middle"}
            for k, (text, _) in enumerate(one.near)
        ]
    return layout | {"annotations": notes}


def _axis(name: str, number: int) -> str:
    return name if number == 1 else f"{name}{number}"


def _short(text: str, letters: int) -> str:
    """A text that fits, with what was cut off marked."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"
