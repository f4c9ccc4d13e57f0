"""Pictures of a transformation's effect on a layer: what moves and what stands still."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    GREY,
    INK,
    PREDICTED,
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    grid,
    lines,
    literal,
)

SLOTS = 5
"""The number of distributions side by side, the summed inputs' included."""

BINS = 36
STRINGS = 14
FLOOR, CEILING = 1e-19, 1e5
"""The height at which a defect of exactly 0 is drawn, and the end of the axis."""

LETTERS = 76
"""Letters of a title that have room beside each other where the figure is narrowest."""

_CUT, _PEAK, _DEPTH = 1.2, 1.5, 0.9


@dataclass(frozen=True, eq=False)
class Moved:
    """Values before and after a transformation.

    Attributes:
        name: the normalizer, or what the values are where they are not its outputs.
        before: values, in the order of ``after``.
        after: the same values after the transformation.
        reach: half the width of the axis; values beyond it are piled up at its ends.
        note: how far they moved, in a few words.
    """

    name: str
    before: np.ndarray
    after: np.ndarray
    reach: float
    note: str = ""


@dataclass(frozen=True)
class Sweep:
    """Defects against the size of the change.

    Attributes:
        what: the axis, in the letters of the transformation.
        sizes: (K,), positive.
        defects: (K,) for each normalizer.
        size: where the state stands.
        here: the defect there, for each normalizer.
        predicted: (K,), what eps is predicted to do; NaN where nothing is.
        knee: the size at which eps takes over, or NaN.
    """

    what: str
    sizes: np.ndarray
    defects: Mapping[str, np.ndarray]
    size: float
    here: Mapping[str, float]
    predicted: np.ndarray
    knee: float


def movement(parts: Sequence[Moved], sweep: Sweep) -> go.Figure:
    """Distributions of summed inputs and outputs before and after; below, the sweep.

    Under each distribution, strings tie some of the values to what became of them: where
    nothing moves, they hang straight.

    Args:
        parts: the summed inputs, then at most four normalizers.
        sweep: the defects of the same normalizers over delta.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 488, "showlegend": False})
    for slot in range(SLOTS):
        axes = {"xaxis": f"x{slot + 1}", "yaxis": f"y{slot + 1}"}
        quiet = {"hoverinfo": "skip", **axes}
        figure.add_scatter(
            name=f"before {slot}",
            line={"width": 0},
            fill="tozeroy",
            fillcolor="#CBD0D8",
            **quiet,
        )
        figure.add_scatter(name=f"strings {slot}", mode="lines", line={"width": 1}, **quiet)
        figure.add_scatter(name=f"after {slot}", mode="lines", **quiet)
        figure.add_scatter(name=f"note {slot}", mode="text", cliponaxis=False, **quiet)
    axes = {"xaxis": f"x{SLOTS + 1}", "yaxis": f"y{SLOTS + 1}"}
    now = {"color": INK, "width": 1}
    figure.add_scatter(name="now", mode="lines", line=now, hoverinfo="skip", **axes)
    for slot in range(1, SLOTS):
        hover = "%{x:.3g}: %{y:.2e}"
        figure.add_scatter(name=f"defect {slot}", mode="lines", hovertemplate=hover, **axes)
    # over what was measured: where both agree, a dashed line would lie under a solid one
    looks = {"predicted": ("bottom left", PREDICTED), "knee": ("bottom right", {"dash": "dot"})}
    for name, (place, dash) in looks.items():
        figure.add_scatter(
            name=name,
            mode="lines+text",
            line={"color": GREY if name == "knee" else INK, "width": 1.5} | dash,
            textposition=place,
            textfont={"color": "#4B5563"},
            hoverinfo="skip",
            **axes,
        )
    figure.add_scatter(name="here", mode="markers", hoverinfo="skip", **axes)
    fill(figure, movement_traces(parts, sweep))
    return figure.update_layout(movement_layout(parts, sweep))


def movement_traces(parts: Sequence[Moved], sweep: Sweep) -> Traces:
    """The traces of :func:`movement`."""
    traces: Traces = {}
    looks = lines(sweep.defects)
    for slot in range(SLOTS):
        if slot < len(parts):
            part = parts[slot]
            traces |= _distribution(part, slot, looks[part.name]["color"] if slot else INK)
        else:
            hidden = ("before", "strings", "after", "note")
            traces |= {f"{kind} {slot}": {"visible": False} for kind in hidden}
    names = list(sweep.defects)
    for slot in range(1, SLOTS):
        if slot > len(names):
            traces[f"defect {slot}"] = {"visible": False}
            continue
        name = names[slot - 1]
        traces[f"defect {slot}"] = {
            "x": sweep.sizes,
            "y": shown(sweep.defects[name]),
            "line": looks[name],
            "visible": True,
        }
    # a line of its own height lower: beside the curves, which it would lie under
    says = "<br>predicted from ε" if not np.isnan(sweep.predicted).all() else ""
    traces["predicted"] = {
        "x": sweep.sizes,
        "y": shown(sweep.predicted),
        "text": [""] * (len(sweep.sizes) - 1) + [says],
    }
    traces["knee"] = {
        "x": np.array([sweep.knee, sweep.knee]),
        "y": np.array([1e-13, CEILING * 10]),
        "text": ["" if np.isnan(sweep.knee) else "δ² var a = ε", ""],
    }
    traces["now"] = {
        "x": np.array([sweep.size, sweep.size]),
        "y": np.array([FLOOR / 10, CEILING * 10]),
    }
    traces["here"] = {
        "x": np.full(len(names), sweep.size),
        "y": shown(np.array([sweep.here[name] for name in names])),
        "marker": {"size": 11, "color": [looks[name]["color"] for name in names]},
    }
    return traces


def _distribution(part: Moved, slot: int, color: str) -> Traces:
    """One column: outlines of both histograms, strings, and the note."""
    edges, before, after, x, y = _shape(part)
    return {
        f"before {slot}": {"x": edges, "y": before, "visible": True},
        f"after {slot}": {
            "x": edges,
            "y": after,
            "line": {"color": color, "width": 2},
            "visible": True,
        },
        f"strings {slot}": {
            "x": x,
            "y": y,
            "line": {"color": color, "width": 1.2},
            "visible": True,
        },
        f"note {slot}": {
            "x": np.zeros(1),
            "y": np.array([_PEAK - 0.14]),
            "text": [literal(part.note)],
            "visible": True,
        },
    }


@lru_cache(maxsize=64)
def _shape(part: Moved) -> tuple[np.ndarray, ...]:
    """Edges and heights of both histograms, and the strings' x and y, wherever they stand."""
    edges, before = outline(part.before, part.reach)
    _, after = outline(part.after, part.reach)
    # In the height of the first histogram, so that a picture of few values is as high.
    peak = before.max() or 1.0
    hanging = strings(part.before, part.after, part.reach)
    return edges, before / peak, np.minimum(after / peak, _CUT), *hanging


def outline(values: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The outline of a histogram over [-reach, reach], as shares of all values.

    What lies beyond is counted in the last bins; NaN nowhere.
    """
    edges = np.linspace(-reach, reach, BINS + 1)
    inside = np.clip(values[~np.isnan(values)], -reach, reach)
    shares = np.histogram(inside, edges)[0] / values.size
    x, y = np.repeat(edges, 2), np.repeat(shares, 2)
    return x, np.concatenate([[0.0], y, [0.0]])


def strings(
    before: np.ndarray, after: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lines from some values, spread evenly over all, down to what became of them."""
    order = np.argsort(before, kind="stable")
    places = order[np.linspace(0, len(order) - 1, min(STRINGS, len(order))).round().astype(int)]
    ends = [before[places], after[places], np.full(len(places), np.nan)]
    x = np.clip(np.stack(ends, axis=1), -reach, reach)
    y = np.tile([-0.05, -_DEPTH, np.nan], (len(places), 1))
    return x.ravel(), y.ravel()


def shown(defects: np.ndarray) -> np.ndarray:
    """Defects on the axis: an exact 0 at its floor, where it says 0; NaN as a gap."""
    return np.clip(defects, FLOOR, CEILING)


@cache
def _places(count: int) -> dict[str, dict[str, Any]]:
    """Distributions side by side, and below all of them the sweep."""
    return grid(
        2, count, specs=[[{}] * count, [{"colspan": count}, *[None] * (count - 1)]],
        horizontal_spacing=0.025, row_heights=[0.425, 0.44], vertical_spacing=0.135,
    )  # fmt: skip


def movement_layout(parts: Sequence[Moved], sweep: Sweep) -> dict[str, Any]:
    """The axes and titles of :func:`movement`."""
    layout: dict[str, Any] = {"margin": {"l": 66, "r": 16, "t": 52, "b": 48}}
    titles, places = [], _places(len(parts))
    looks = lines(sweep.defects)
    for slot in range(SLOTS):
        axis, part = axis_number(slot), parts[slot] if slot < len(parts) else None
        # one that is not there lies under the first
        place = places[f"xaxis{axis if part else ''}"], places[f"yaxis{axis if part else ''}"]
        reach = part.reach if part else 1.0
        layout[f"xaxis{axis}"] = {
            "domain": place[0]["domain"],
            "range": [-reach, reach],
            "anchor": f"y{axis}",
            "visible": part is not None,
            "nticks": 5,
            "showgrid": False,
            "fixedrange": True,
        }
        layout[f"yaxis{axis}"] = {
            "domain": place[1]["domain"],
            "range": [-_DEPTH, _PEAK],
            "anchor": f"x{axis}",
            "visible": False,
            "fixedrange": True,
        }
        if part:
            color = looks[part.name]["color"] if slot else INK
            text = f"<b>{in_two_lines(part.name, LETTERS // len(parts))}</b>"
            titles.append(_title(text, sum(place[0]["domain"]) / 2, 1.0, color))
    sizes, below = np.log10(sweep.sizes), axis_number(len(parts))
    layout[f"xaxis{SLOTS + 1}"] = {
        "domain": places[f"xaxis{below}"]["domain"],
        "anchor": f"y{SLOTS + 1}",
        "type": "log",
        "range": [float(sizes[0]), float(sizes[-1])],
        "dtick": 1,
        "exponentformat": "power",
        "tickfont": {"size": 13},
        "title": {"text": literal(sweep.what), "standoff": 4},
    }
    powers = [FLOOR, 1e-16, 1e-12, 1e-8, 1e-4, 1.0, 1e4]
    layout[f"yaxis{SLOTS + 1}"] = {
        "domain": places[f"yaxis{below}"]["domain"],
        "anchor": f"x{SLOTS + 1}",
        "type": "log",
        "range": [float(np.log10(FLOOR)) - 0.5, float(np.log10(CEILING))],
        "tickvals": powers,
        "ticktext": ["0", "10⁻¹⁶", "10⁻¹²", "10⁻⁸", "10⁻⁴", "1", "10⁴"],
        "tickfont": {"size": 13},
        "title": {"text": "outputs move by"},
    }
    return layout | {"annotations": titles}


def in_two_lines(name: str, letters: int) -> str:
    """A name of more letters is broken at its first comma, or else at its last space."""
    if len(name) <= letters:
        return literal(name)
    first, sign, rest = name.partition(", ")
    if not sign:
        first, _, rest = name.rpartition(" ")
    return "<br>".join(literal(part) for part in (first + sign.rstrip(), rest) if part)


def _title(text: str, x: float, y: float, color: str) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": color, "size": 15},
    }
