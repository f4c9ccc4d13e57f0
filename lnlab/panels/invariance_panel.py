"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from lnlab.analysis.magnitudes import EXACT, relative_change
from lnlab.analysis.normalized_layer import NormalizedLayer, cast, random_given, random_shift
from lnlab.figures.style import (
    GREY,
    INK,
    PREDICTED,
    SIZES,
    TEMPLATE,
    VERMILLION,
    Traces,
    axis_number,
    fill,
    grid,
    lines,
    literal,
    number,
)
from lnlab.nn import Identity, Norm, Normalizer, OverCases
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Given, Place, Row, Statistics, eps_ratio
from lnlab.panels.old_controls import (
    MODES,
    Chips,
    SignedLog,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
    one_of,
)
from lnlab.panels.old_panel import Drawing, Panel, Settable, View, digits, sizes

# A transformation, and the layers that it is tried on: the state of the panel.


UNITS, INPUTS, CASES = 64, 16, 128
MOST = 4

# One case at a time (batch = 1) takes 128 times as long as all at once.
DENSE = tuple(
    name for name, row in ROWS.items() if row.place is Place.DENSE and row.batch is None
)
# Frozen and recomputed statistics are a control of their own.
NORMALIZERS = tuple(name for name in DENSE if ROWS[name].statistics is Statistics.BATCH)
PAPER = ("batch", "weight", "layer")
TABLE = (*PAPER, *(name for name in DENSE if name not in PAPER))

LAYER_SIZES = np.logspace(-4, 4, 34)
STOPS = (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 1e3, 1e4)
"""Sizes of a change that can be chosen where no kernel runs."""

FAMILIES = (
    PAPER,
    ("layer", "rms", "group", "scale"),
    ("batch", "ghost batch", "recurrent batch", "batch layer"),
    ("batch", "batch renorm, r = 1, d = 0", "batch renorm, clips off"),
    ("weight", "weight, mean-only batch", "weight standardization", "spectral"),
    ("none", "layer", "ada", "dyt"),
)
"""Normalizers that can be chosen together where no kernel runs."""

EPS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in EXACT}


@dataclass(frozen=True)
class InvarianceState:
    """A transformation, and the layers that it is tried on.

    Attributes:
        normalizers: at most four rows of Table 1 and its extension.
        transformation: the column, 1 to 10.
        delta: what is re-scaled is re-scaled by; 1e-4 to 1e4 in size, of either sign.
        shift: what is shifted is shifted by so many times a fixed standard normal vector;
            1e-4 to 1e4.
        eps: of every normalizer that has one.
        dtype: the precision of weights, inputs, statistics and outputs.
        batch: B; frozen and recomputed statistics are those of all 128 cases.
        mode: where statistics over cases come from: "batch", "frozen" as they were before
            the change, or "recomputed" after it.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = PAPER
    transformation: int = 1
    delta: float = 2.51
    shift: float = 1.0
    eps: float = 1e-5
    dtype: str = "float64"
    batch: int = 32
    mode: str = "batch"

    rows: ClassVar[Mapping[str, Row]] = {name: ROWS[name] for name in NORMALIZERS}
    """The rows behind the names of normalizers."""

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        if len(self.normalizers) > MOST:
            raise ValueError(f"{len(self.normalizers)} normalizers: compare at most {MOST}.")
        for name in self.normalizers:
            one_of("a normalizer", name, self.rows)
        one_of("transformation", self.transformation, range(1, 1 + len(TRANSFORMATIONS)))
        one_of("eps", self.eps, EPS)
        one_of("dtype", self.dtype, DTYPES)
        one_of("batch", self.batch, BATCHES)
        one_of("mode", self.mode, MODES)
        for name, size in (("delta", abs(self.delta)), ("shift", self.shift)):
            if not LAYER_SIZES[0] <= size <= LAYER_SIZES[-1]:
                raise ValueError(f"{name} is {size} in size: give 1e-4 to 1e4.")

    @property
    def scales(self) -> bool:
        """True if the transformation reads delta; the others read the shift."""
        return TRANSFORMATIONS[self.transformation - 1].scales

    @property
    def formula(self) -> str:
        """The transformation in letters."""
        return TRANSFORMATIONS[self.transformation - 1].formula

    @property
    def amount(self) -> float:
        """Delta or the shift, whichever the transformation reads."""
        return self.delta if self.scales else self.shift

    def resized(self, size: float) -> "InvarianceState":
        """The same with a change of another size, of the same sign."""
        name = "delta" if self.scales else "shift"
        return replace(self, **{name: float(np.copysign(size, self.amount))})

    def by(self, transformation: int) -> "InvarianceState":
        """The same under another change."""
        return replace(self, transformation=transformation)

    def alike(self, transformation: int) -> "InvarianceState":
        """The same under another change of the same size: a page has one slider for delta and
        the shift."""
        return self.by(transformation).resized(abs(self.amount))

    def of(self, normalizers: tuple[str, ...]) -> "InvarianceState":
        """The same of other normalizers."""
        return replace(self, normalizers=normalizers)

    @property
    def precision(self) -> torch.dtype:
        return DTYPES[self.dtype]


def states(own: Mapping[str, Norm]) -> type[InvarianceState]:
    """The states in which normalizers of somebody's own can be chosen too.

    Args:
        own: factories by name.

    Raises:
        ValueError: a name that is taken.
        TypeError: what is no factory of normalizers.
    """
    for name, norm in own.items():
        refuse(name, norm)
    if not own:
        return InvarianceState
    claimless = {name: Row(norm, "-" * 12, "somebody's own") for name, norm in own.items()}
    rows = {**InvarianceState.rows, **claimless}
    return type(InvarianceState.__name__, (InvarianceState,), {"rows": rows})


def refuse(name: str, norm: Norm) -> None:
    """Raise an error unless ``norm`` makes a normalizer, and its name is free."""
    if name in TABLE:
        raise ValueError(f"own normalizer {name!r}: this name is taken, give it another.")
    wanted = "give a factory such as LayerNorm, which makes a Normalizer of a number of units"
    if not callable(norm):
        raise TypeError(f"own normalizer {name!r} is {norm!r}: {wanted}.")
    made = norm(UNITS)
    if not isinstance(made, Normalizer):
        raise TypeError(f"own normalizer {name!r} makes a {type(made).__name__}: {wanted}.")


@lru_cache(maxsize=64)
def over_cases(kind: type[InvarianceState], name: str) -> bool:
    """True if a row has statistics over cases, and so a mode."""
    return isinstance(kind.rows[name].make(UNITS), OverCases)


# The sentence of the panel, of a change and of its measurement.


def seen(defect: float, exact: float) -> str:
    """The words over a picture: as :func:`moves`, but rounding is no change."""
    return "unchanged" if defect < exact else moves(defect, exact)


def moves(defect: float, exact: float) -> str:
    """The size of a movement in a few words; a defect below ``exact`` is rounding."""
    if np.isnan(defect):
        return "0/0: not a number"
    if defect == 0:
        return "unchanged"
    if defect < exact:
        return f"unchanged to {number(defect)}"
    if defect < 1e-3:
        return f"changed by {number(defect)}"
    if defect < 9.95:  # two digits of it are less than 1,000 %
        return f"changed by {number(100 * defect)} %"
    times = f"{float(f'{defect:.3g}'):,.0f}" if defect < 1e7 else number(defect)
    return f"changed by × {times}"


def framed(state: InvarianceState) -> tuple[int, list[str]]:
    """The column and the rows of the table that the panel is at."""
    rows = [
        f"{name}, {state.mode}"
        if over_cases(type(state), name) and state.mode != "batch"
        else name
        for name in state.normalizers
    ]
    return state.transformation - 1, rows


def conditions(state: InvarianceState) -> str:
    """The conditions that every measurement depends on besides."""
    return f"ε = {state.eps:g}, {state.dtype}, batch of {state.batch}"


def sentence(state: InvarianceState, here: Mapping[str, float]) -> str:
    """The change and how far it moves the outputs.

    Args:
        state: what is changed, and how.
        here: the defect of each normalizer there.
    """
    by = f"δ = {state.delta:g}" if state.scales else f"a shift of {state.shift:g}"
    change = f"{state.formula} with {by}"
    if not here:
        return f"{change}. Choose a normalizer to see whether its outputs move."
    said = []
    for name, defect in here.items():
        alone = over_cases(type(state), name) and state.mode == "batch" and state.batch == 1
        why = (
            " (of one case its output is b, whatever comes in)" if alone and not defect else ""
        )
        said.append(f"{name} {moves(defect, EXACT[state.precision])}{why}")
    return f"{change}: {', '.join(said)}, of the largest output."


# Pictures of a transformation's effect on a layer: what moves and what stands still.


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


# Table 1 as it was measured: the size of every defect beside what is claimed.


ROW, HEAD, FOOT, SIDE = 23, 70, 10, 190
LEGEND = "✓ claimed to stay · ✗ to move<br>for ε = 0, δ > 0<br>! measured otherwise"
SMALLEST, LARGEST = -17, 2


@dataclass(frozen=True)
class Measured:
    """Rows of normalizers, columns of transformations.

    Attributes:
        rows: (R) names.
        columns: (C) formulas.
        defects: (R, C).
        claims: (R, C), whether the output is claimed to stay the same.
        exact: the defect below which it does.
        boxed: how many of the first rows and columns the paper's own table has.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    defects: np.ndarray
    claims: np.ndarray
    exact: float
    boxed: tuple[int, int] = (0, 0)


def table(cells: Measured, column: int | None = None, rows: Sequence[str] = ()) -> go.Figure:
    """A heat map of log10 of the defects, each cell with its claim (✓ or ✗) and its number.

    An exclamation mark stands where the measurement is not on the claimed side of
    ``cells.exact``.

    Args:
        cells: what was measured.
        column: the place of the column to frame.
        rows: names to print in the colours of their lines, in the order of those.
    """
    figure = go.Figure(layout={"template": TEMPLATE})
    powers = [-16, -12, -8, -4, 0]
    figure.add_heatmap(
        name="defects",
        x=[heading(n, formula) for n, formula in enumerate(cells.columns, 1)],
        y=list(range(len(cells.rows))),
        texttemplate="%{text}",
        textfont={"size": 11},
        hovertemplate="%{text}<extra></extra>",
        colorscale=SIZES,
        zmin=SMALLEST,
        zmax=LARGEST,
        xgap=1,
        ygap=1,
        colorbar={
            "tickvals": powers,
            "ticktext": [f"10<sup>{p}</sup>" if p else "1" for p in powers],
            "title": {"text": "defect", "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
        },
        **table_traces(cells)["defects"],
    )
    return figure.update_layout(table_layout(cells, column, rows))


def table_traces(cells: Measured) -> dict[int | str, dict[str, Any]]:
    """The traces of :func:`table`."""
    with np.errstate(divide="ignore"):
        z = np.clip(np.log10(cells.defects), SMALLEST, None)
    texts = [
        [cell(defect, claim, cells.exact) for defect, claim in zip(*row, strict=True)]
        for row in zip(cells.defects, cells.claims, strict=True)
    ]
    return {"defects": {"z": z, "text": texts}}


def heading(number: int, formula: str) -> str:
    """The number of a column and its formula, broken after the arrow."""
    return f"{number}<br>" + literal(formula).replace("→ ", "→<br>")


def cell(defect: float, claim: bool, exact: float) -> str:
    """✓ 3e-16, ✗ 2.6, or in bold with an exclamation mark where they do not agree."""
    if np.isnan(defect):
        return number(defect)
    text = f"{'✓' if claim else '✗'} {number(defect)}"
    return text if (defect < exact) == claim else f"<b>{text}!</b>"


def table_layout(cells: Measured, column: int | None, rows: Sequence[str]) -> dict[str, Any]:
    """The axes and frames of :func:`table`."""
    looks = lines(rows)
    names = [
        f"<b><span style='color:{looks[row]['color']}'>{literal(row)}</span></b>"
        if row in looks
        else literal(row)
        for row in cells.rows
    ]
    height, width = cells.boxed
    frames = [frame(0, width, 0, height, INK)] if height else []
    if column is not None:
        frames.append(frame(column, column + 1, 0, len(cells.rows), VERMILLION))
    return {
        "height": HEAD + FOOT + ROW * len(cells.rows),
        "margin": {"l": SIDE, "r": 10, "t": HEAD, "b": FOOT},
        "xaxis": {
            "side": "top",
            "tickangle": 0,
            "showline": False,
            "ticks": "",
            "fixedrange": True,
        }
        | {"tickfont": {"size": 12}, "showgrid": False},
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "tickfont": {"size": 13},
            "range": [len(names) - 0.5, -0.5],
            "showgrid": False,
            "showline": False,
            "ticks": "",
            "fixedrange": True,
        },
        "shapes": frames,
        "annotations": [
            {
                "text": LEGEND,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 1,
                "xshift": -SIDE,
                "xanchor": "left",
                "yanchor": "bottom",
                "align": "left",
                "showarrow": False,
                "font": {"size": 12},
            }
        ],
    }


def frame(left: int, right: int, top: int, bottom: int, color: str) -> dict[str, Any]:
    """A rectangle around cells, given by the edges of a column and a row."""
    return {
        "type": "rect",
        "x0": left - 0.5,
        "x1": right - 0.5,
        "y0": top - 0.5,
        "y1": bottom - 0.5,
        "line": {"color": color, "width": 2.5},
    }


# The effect of a transformation on layers: a pure function from a state to arrays.


@lru_cache(maxsize=32)
def given(dtype: torch.dtype, batch: int) -> Given:
    """The weights and inputs, always the same."""
    drawn = cast(random_given(UNITS, INPUTS, CASES), dtype)
    return replace(drawn, x=drawn.x[:batch])


@lru_cache(maxsize=8)
def unit_shift(dtype: torch.dtype) -> Tensor:
    """The vector that shifts are multiples of."""
    return random_shift(given(dtype, CASES))


@lru_cache(maxsize=128)
def layer(
    kind: type[InvarianceState],
    name: str,
    eps: float,
    dtype: torch.dtype,
    batch: int,
    statistics: Statistics,
) -> NormalizedLayer:
    """The layer of one row, its gains and biases always the same."""
    cases = batch if statistics is Statistics.BATCH else CASES
    row = kind.rows.get(name) or ROWS[name]
    return NormalizedLayer(row, given(dtype, cases), eps=eps, statistics=statistics, seed=0)


def layers(state: InvarianceState) -> dict[str, NormalizedLayer]:
    """The layers of the state's normalizers."""
    return {
        name: layer(
            type(state),
            name,
            state.eps,
            state.precision,
            state.batch,
            MODES[state.mode] if over_cases(type(state), name) else Statistics.BATCH,
        )
        for name in state.normalizers
    }


@lru_cache(maxsize=20_000)
def defect(of: NormalizedLayer, column: int, amount: float) -> float:
    """The defect of a layer, max abs(y' - y) / max abs(y): :mod:`lnlab.analysis.invariance`."""
    shift = unit_shift(of.given.x.dtype)
    return float(of.against_delta(TRANSFORMATIONS[column - 1], [amount], shift)[0])


class InvarianceMeasurement(NamedTuple):
    """All that one move of a slider shows.

    Attributes:
        parts: summed inputs, then the outputs of each normalizer, before and after the change.
        sweep: how far they move over the sizes of the change, and at the state's own.
    """

    parts: list[Moved]
    sweep: Sweep


def measure(state: InvarianceState) -> InvarianceMeasurement:
    """The measurement of a state; the one way into this room for a slider."""
    return InvarianceMeasurement(parts(state), sweep(state))


def parts(state: InvarianceState) -> list[Moved]:
    """Summed inputs, and the outputs of each normalizer, before and after the change."""
    change = state.transformation, state.delta, state.shift
    outputs = (part(type(state), name, of, *change) for name, of in layers(state).items())
    return [summed_inputs(state.precision, state.batch, *change), *outputs]


# kept for those who look at other normalizers under the same change
@lru_cache(maxsize=64)
def summed_inputs(
    dtype: torch.dtype, batch: int, column: int, delta: float, shift: float
) -> Moved:
    """The summed inputs before and after a change."""
    identity, before = Identity(UNITS), given(dtype, batch)
    after = TRANSFORMATIONS[column - 1](before, delta, shift * unit_shift(dtype))
    a, changed = before.summed_inputs(identity), after.summed_inputs(identity)
    return moved("summed inputs a", column, a, changed, reach(InvarianceState, "none"))


@lru_cache(maxsize=64)
def part(
    kind: type[InvarianceState],
    name: str,
    of: NormalizedLayer,
    column: int,
    delta: float,
    shift: float,
) -> Moved:
    """The outputs of the layer of one normalizer before and after a change."""
    vector = shift * unit_shift(of.given.x.dtype)
    y = of.output(TRANSFORMATIONS[column - 1](of.given, delta, vector))
    return moved(name, column, of.y, y, reach(kind, name))


def moved(name: str, column: int, before: Tensor, after: Tensor, reach: float) -> Moved:
    """All values; of a change of one unit or one case, only those of that unit or case."""
    note = seen(relative_change(after, before), EXACT[before.dtype])
    about = {3: (slice(None), 0), 6: (0,)}.get(column, ())
    values = (y[about].flatten().double().numpy() for y in (before, after))
    return Moved(name, *values, reach=reach, note=note)


@lru_cache(maxsize=1)
def spread() -> float:
    """The standard deviation of the summed inputs."""
    return float(given(torch.float64, CASES).summed_inputs(Identity(UNITS)).std())


@lru_cache(maxsize=64)
def reach(kind: type[InvarianceState], name: str) -> float:
    """Half an axis that holds a normalizer's outputs; not of the state, so that it stays."""
    y = layer(kind, name, 1e-5, torch.float64, CASES, Statistics.BATCH).y
    return 1.4 * float(y.abs().flatten().quantile(0.998))


def sweep(state: InvarianceState) -> Sweep:
    """The defects of the state's normalizers over the sizes of the change."""
    column, amount = state.transformation, state.amount
    amounts = np.copysign(LAYER_SIZES, amount).tolist()
    var = torch.tensor(spread() ** 2, dtype=torch.float64)
    kept = any(state.rows[name].claims(column) for name in state.normalizers)
    by_eps = kept and state.scales and state.eps > 0
    predicted = [
        float(abs(eps_ratio(var, state.eps, size) - 1)) for size in LAYER_SIZES if by_eps
    ]
    return Sweep(
        what=f"size of {'δ' if state.scales else 'the shift'} in {state.formula}"
        + (", δ < 0" if amount < 0 else ""),
        sizes=LAYER_SIZES,
        defects={
            name: np.array([defect(of, column, each) for each in amounts])
            for name, of in layers(state).items()
        },
        size=abs(amount),
        here={name: defect(of, column, amount) for name, of in layers(state).items()},
        predicted=np.array(predicted or [np.nan] * len(LAYER_SIZES)),
        knee=state.eps**0.5 / spread() if by_eps else np.nan,
    )


def measured(state: InvarianceState) -> Measured:
    """Table 1 and its extension, each row with its own statistics, at the state's change."""
    of = {
        name: layer(
            InvarianceState,
            name,
            state.eps,
            state.precision,
            state.batch,
            ROWS[name].statistics,
        )
        for name in TABLE
    }
    amounts = [state.delta if change.scales else state.shift for change in TRANSFORMATIONS]
    columns = range(1, 1 + len(TRANSFORMATIONS))
    return Measured(
        rows=TABLE,
        columns=[change.formula for change in TRANSFORMATIONS],
        defects=np.array(
            [
                [defect(row, *cell) for cell in zip(columns, amounts, strict=True)]
                for row in of.values()
            ]
        ),
        claims=np.array([[ROWS[name].claims(column) for column in columns] for name in TABLE]),
        exact=EXACT[state.precision],
        boxed=(len(PAPER), 6),
    )


ABOUT = {
    "movement": "Distributions of summed inputs and outputs before and after the change, and "
    "how far outputs move against the size of the change",
    "table": "Table 1 and its extension: the measured defect and the claim of every cell",
}


def invariance(
    *,
    notebook: str = "02",
    alone: bool = False,
    own: Mapping[str, Norm] | None = None,
    **settings: Any,
) -> Panel:
    """The panel of invariances: transform weights or inputs, and see which outputs move.

    Args:
        notebook: number of the one whose parameter ``panel`` takes the state; "": none.
        alone: whether to begin with delta alone, beside its picture, all else behind a button.
        own: normalizers of your own by name, each a factory such as ``LayerNorm``: chips beside
            the others.
        settings: fields of :class:`InvarianceState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: a setting that makes no sense, or an own normalizer whose name is taken.
        TypeError: an own normalizer that is none.
    """
    state = states(own or {})(**settings)
    arrangement, controls = arranged(state.rows)
    new = Panel(
        "invariance", notebook, state, arrangement, controls, ABOUT, look, drawn, settable,
        plays="delta",
    )  # fmt: skip
    if alone:
        fold(new, arrangement)
    return new


def fold(panel: Panel, arrangement: ipywidgets.Box) -> None:
    """Leave of a panel delta alone, beside its picture, and put the rest behind a button."""
    delta, table = panel.controls["delta"], panel.plots["table"]
    delta.layout.flex_flow, delta.size.layout.width = "row wrap", "246px"
    delta.size.style.description_width = "22px"
    rest = ipywidgets.VBox(arrangement.children)
    more = ipywidgets.ToggleButton(description="More", layout={"width": "90px"})

    def show(_: object = None) -> None:
        (panel.remove_class if more.value else panel.add_class)("lnlab-beside")
        for part in (rest, table, delta.sign):
            part.layout.display = "" if more.value else "none"
        more.description = "Less" if more.value else "More"
        panel.bar.answers += 1  # the page waits for one after every press of a button

    more.observe(show, "value")
    delta.add_class("lnlab-large")
    columns = arrangement.children[1]
    columns.children[0].children = [
        box for box in columns.children[0].children if delta not in box.children
    ]
    arrangement.children = [delta, delta.why, more, rest]
    show()


def arranged(normalizers: Iterable[str]) -> tuple[ipywidgets.Box, dict[str, Any]]:
    """The controls, and the box that holds them."""
    columns = [(f"{t.column}   {t.formula}   {t.name}", t.column) for t in TRANSFORMATIONS]
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizers": Chips(tuple(normalizers), description="normalizers", most=MOST),
        "transformation": choice("change", columns),
        "delta": SignedLog("δ", -4, 4),
        "shift": log_slider("shift", -4, 4),
        "eps": choice_slider("ε", [(f"{eps:g}", eps) for eps in EPS]),
        "batch": choice_slider("batch size", [(str(batch), batch) for batch in BATCHES]),
        "dtype": choice("precision", [(name, name) for name in DTYPES]),
        "mode": choice("statistics", sources),
    }

    def enable(change: dict[str, Any]) -> None:
        scales = TRANSFORMATIONS[change["new"] - 1].scales
        lock(controls["delta"], "" if scales else "this change adds a shift and has no δ")
        lock(controls["shift"], "this change multiplies by δ and adds no shift" * scales)

    first, *others = controls.values()
    columns = in_columns(others[:3], others[3:])
    controls["transformation"].observe(enable, "value")
    enable({"new": controls["transformation"].value})
    return ipywidgets.VBox([first, columns]), controls


def look(state: InvarianceState) -> View:
    """The view of a state."""
    moved, swept = measure(state)
    traces = movement_traces(moved, swept)
    return View(
        sentence=sentence(state, swept.here),
        titles=titles(state),
        drawings={"movement": Drawing(traces, movement_layout(moved, swept))},
        late={"table": lambda: tabled(state)},
    )


def tabled(state: InvarianceState) -> Drawing:
    """The table at a state: 200 cells take longer than one step of a slider may."""
    traces, cells = filled(replace(state, transformation=1, normalizers=()))
    return Drawing(traces, table_layout(cells, *framed(state)))


@lru_cache(maxsize=32)
def filled(state: InvarianceState) -> tuple[Mapping[int | str, Mapping[str, Any]], Measured]:
    """The cells of the table, whichever of them are framed."""
    cells = measured(state)
    return table_traces(cells), cells


def titles(state: InvarianceState) -> dict[str, str]:
    """The titles: what both plots show, and of what."""
    by, source = (
        f"δ = {digits(state.delta)}, shifts of {digits(state.shift)}",
        MODES[state.mode].value,
    )
    return {
        "movement": f"{state.formula}: {conditions(state)}, statistics {source}",
        "table": f"Table 1 and its extension, {by}: {conditions(state)}",
    }


def drawn(state: InvarianceState) -> dict[str, go.Figure]:
    """The figures of a state."""
    return {
        "movement": movement(*measure(state)),
        "table": table(measured(state), *framed(state)),
    }


def settable(state: InvarianceState) -> list[Settable]:
    """The controls that work without a kernel: size of the change, change, normalizers."""
    changes = {f"{t.column}: {t.formula}, {t.name}": t.column for t in TRANSFORMATIONS}
    change = next(words for words, n in changes.items() if n == state.transformation)
    own = [] if state.normalizers in FAMILIES else [state.normalizers]
    sets = {" · ".join(names): names for names in (*own, *FAMILIES)}
    here, kind = digits(abs(state.amount)), type(state)
    size = "size of δ < 0, or of the shift" if state.delta < 0 else "δ, or the shift"
    return [
        Settable(size, sizes(STOPS, abs(state.amount)), here, kind.resized),
        Settable("change", changes, change, kind.alike, slides=False),
        Settable("normalizers", sets, " · ".join(state.normalizers), kind.of, slides=False),
    ]
