"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch

from lnlab.analysis.arguments import normal
from lnlab.analysis.fisher import FAMILIES, GLM, divergence, gap
from lnlab.figures.curves import FLOOR
from lnlab.figures.style import (
    INK,
    TEMPLATE,
    Traces,
    axis_number,
    decades,
    fill,
    legend,
    lines,
    number,
    side_by_side,
    text_above,
)
from lnlab.nn import NORMS, Norm
from lnlab.panels.controls import Chips, choice, choice_slider, in_columns, log_slider, one_of
from lnlab.panels.panel import Drawing, Panel, Settable, View, digits, sizes

# The state of the geometry panel: a layer of linear models under a normalizer.


INPUTS, CASES = 6, 24
MOST = 4
NORMALIZERS: dict[str, Norm] = {
    name: NORMS[name] for name in ("none", "layer", "batch", "weight")
}
UNITS = (4, 8, 16, 32, 64)
SMALLEST, LARGEST = 0.1, 10.0
SIZES = np.logspace(-1, 1, 21)


@dataclass(frozen=True)
class GeometryState:
    """H linear models of the same inputs, at a random W.

    Attributes:
        normalizers: at most four.
        family: the distribution of the outputs.
        length: W is this many times N(0, 1); 0.1 to 10.
        inputs: the inputs are this many times N(0, 1/D); 0.1 to 10.
        units: H.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = ("none", "layer", "batch", "weight")
    family: str = "Gaussian"
    length: float = 1.0
    inputs: float = 1.0
    units: int = 16

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        for name in self.normalizers:
            one_of("a normalizer", name, NORMALIZERS)
        one_of("family", self.family, FAMILIES)
        one_of("units", self.units, UNITS)
        for name in ("length", "inputs"):
            size = getattr(self, name)
            if not SMALLEST <= size <= LARGEST:
                raise ValueError(f"{name} is {size}: give {SMALLEST:g} to {LARGEST:g}.")

    def longer(self, length: float) -> "GeometryState":
        """The same with weights of another length."""
        return replace(self, length=length)


# The cost of a step in the space of parameters, and how far a formula for it is off.


SLOTS = 4
"""The number of normalizers that one picture holds."""

PARTS = {
    "turn": ("step of W", "W times", "curvature, nats"),
    "stretch": ("step of the gain, or ‖w‖", "x times", ""),
    "error": ("error of eq. 13", "units H", "relative error"),
}
"""The panels by the name of their traces: title, axis of x, axis of y."""


class CostCurve(NamedTuple):
    """A curve, and the place on it that is looked at.

    Attributes:
        at: (K,).
        values: (K,).
        here: where.
        value: what is there.
    """

    at: np.ndarray
    values: np.ndarray
    here: float
    value: float


Costs = Mapping[str, tuple[CostCurve, CostCurve, CostCurve]]
"""Curves by normalizer: the cost of a step of W, of the gain, and the error of eq. 13."""


def geometry_figure(costs: Costs) -> go.Figure:
    """Three panels on logarithmic axes: a line and a dot for each normalizer."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for index, part in enumerate(PARTS, start=1):
        for kind in ("", " here"):
            for slot in range(SLOTS):
                figure.add_scatter(
                    name=f"{part} {slot}{kind}", mode="markers" if kind else "lines",
                    xaxis=f"x{index}", yaxis=f"y{index}", showlegend=False,
                    hovertemplate="× %{x:.3g}: %{y:.3g}<extra></extra>",
                )  # fmt: skip
    fill(figure, geometry_traces(costs))
    return figure.update_layout(geometry_layout(costs))


def geometry_traces(costs: Costs) -> Traces:
    """The traces of :func:`geometry`; what is 0 is drawn at the foot, 1e-17."""
    looks, names = lines(costs), list(costs)
    traces: Traces = {}
    for index, part in enumerate(PARTS):
        for slot in range(SLOTS):
            if slot >= len(names):
                traces[f"{part} {slot}"] = traces[f"{part} {slot} here"] = {"visible": False}
                continue
            curve, look = costs[names[slot]][index], looks[names[slot]]
            traces[f"{part} {slot}"] = {
                "x": curve.at,
                "y": np.maximum(curve.values, FLOOR),
                # the later a line, the thinner: none is hidden behind another
                "line": look | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
                "visible": True,
            }
            traces[f"{part} {slot} here"] = {
                "x": np.array([curve.here]),
                "y": np.maximum(np.array([curve.value]), FLOOR),
                "marker": {
                    "color": look["color"],
                    "size": 16 - 2.5 * slot,
                    "line": {"color": INK, "width": 1.5},
                },
                "visible": True,
            }
    return traces


def geometry_layout(costs: Costs) -> dict[str, Any]:
    """The axes, titles and names of :func:`geometry`."""
    layout: dict[str, Any] = {"margin": {"l": 60, "r": 12, "t": 62, "b": 46}}
    annotations = []
    for index, (part, (title, x, y)) in enumerate(PARTS.items()):
        (left, right), axis = side_by_side(len(PARTS), 0.1025)[index], axis_number(index)
        shown = [parts[index] for parts in costs.values()]
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "title": {"text": x},
        } | _x(part, shown)
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "title": {"text": y},
        } | _y(part, shown)
        look = {"color": INK, "size": 14}
        annotations.append(text_above(f"<b>{title}</b>", (left + right) / 2, 4, "center", look))
    annotations.append(text_above(legend(costs), 0, 32, "left", {"size": 14}))
    return layout | {"annotations": annotations}


def _x(part: str, shown: Sequence[CostCurve]) -> dict[str, Any]:
    at = shown[0].at if shown else np.array([0.1, 10.0])
    low, high = np.log10(at[0]) - 0.08, np.log10(at[-1]) + 0.08  # room for a dot at the end
    ticks: dict[str, Any] = {"dtick": 1}
    if part == "error":
        ticks = {"tickvals": at.tolist(), "ticktext": [f"{value:g}" for value in at]}
    return {"type": "log", "range": [low, high], "fixedrange": True} | ticks


def _y(part: str, shown: Sequence[CostCurve]) -> dict[str, Any]:
    low, high = (-18, 0) if part == "error" else decades([c.values for c in shown], -2, 2)
    return {
        "type": "log",
        "range": [low, high],
        "exponentformat": "power",
        "dtick": max(1, round((high - low) / 6)),
        "fixedrange": True,
    }


# The cost of a step in the space of parameters: a pure function of the panel's state.


STEP = 1e-4
"""The size of a step in every weight or gain: small enough for eq. 8."""


def model(name: str, family: str, length: float, inputs: float, units: int) -> GLM:
    """The models of a state; the same draw whatever is set."""
    W, x = normal(0, 6, units, INPUTS), normal(0, 7, CASES, INPUTS) / INPUTS**0.5
    return GLM(length * W, inputs * x, NORMALIZERS[name], FAMILIES[family])


@lru_cache(maxsize=20_000)
def costs(
    name: str, family: str, length: float, inputs: float, units: int
) -> tuple[float, float]:
    """The cost of a step that turns W, and of one of the gains, in nats a squared step.

    That is 2 D_KL/||delta||², the curvature along a random step of W and along one of all
    gains, or of all ||w_i|| where nothing normalizes.
    """
    glm = model(name, family, length, inputs, units)
    turn, stretch = torch.zeros_like(glm.theta), torch.zeros_like(glm.theta)
    turn[:, :INPUTS] = normal(1, 6, units, INPUTS)
    if glm.plain:
        stretch[:, :INPUTS] = glm.W / glm.W.norm(dim=1, keepdim=True)
    else:
        stretch[:, -1] = 1.0
    return _curvature(glm, STEP * turn), _curvature(glm, STEP * stretch)


def _curvature(glm: GLM, delta: torch.Tensor) -> float:
    return 2 * divergence(glm, delta) / float(delta.square().sum())


@lru_cache(maxsize=200)
def error(name: str, family: str, units: int) -> float:
    """The relative distance of a block of eq. 13 from the metric."""
    return gap(model(name, family, 1.0, 1.0, units)).own


class GeometryMeasurement(NamedTuple):
    """The costs of steps in the layers of a state.

    Attributes:
        curves: for each normalizer the three curves of the figure, and the place of the state
            on each.
        factors: for each normalizer what a step of W, and one of the gain, costs here against
            the same step at W × 1 and x × 1.
    """

    curves: Costs
    factors: dict[str, tuple[float, float]]


def measure(state: GeometryState) -> GeometryMeasurement:
    """The costs of steps in the layers of a state; the one way into this room for a slider."""
    curves = {name: (*_curves(name, state), _errors(name, state)) for name in state.normalizers}
    factors = {}
    for name, (turn, stretch, _) in curves.items():
        there = costs(name, state.family, 1.0, 1.0, state.units)
        factors[name] = turn.value / there[0], stretch.value / there[1]
    return GeometryMeasurement(curves, factors)


def _curves(name: str, state: GeometryState) -> tuple[CostCurve, CostCurve]:
    s = state
    by_length = np.array([costs(name, s.family, c, s.inputs, s.units)[0] for c in SIZES])
    by_inputs = np.array([costs(name, s.family, s.length, c, s.units)[1] for c in SIZES])
    turn, stretch = costs(name, s.family, s.length, s.inputs, s.units)
    return (
        CostCurve(SIZES, by_length, s.length, turn),
        CostCurve(SIZES, by_inputs, s.inputs, stretch),
    )


def _errors(name: str, state: GeometryState) -> CostCurve:
    found = np.array([error(name, state.family, units) for units in UNITS])
    here = error(name, state.family, state.units)
    return CostCurve(np.array(UNITS, float), found, float(state.units), here)


# The sentence of the geometry panel, of a step and of its cost.


def conditions(state: GeometryState) -> str:
    """The title: what was measured, in short."""
    return (
        f"{state.family} outputs, H = {state.units}, W × {state.length:.3g}, "
        f"x × {state.inputs:.3g}, D = {INPUTS}, {CASES} cases"
    )


def sentence(state: GeometryState, measurement: GeometryMeasurement) -> str:
    """A sentence on the cost of a step at this length and these inputs, against both at 1."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what a step costs."
    factors = ", ".join(
        f"{name} {number(turn)} and {number(stretch)}"
        for name, (turn, stretch) in measurement.factors.items()
    )
    errors = ", ".join(
        f"{number(error.value)} ({name})" for name, (_, _, error) in measurement.curves.items()
    )
    return (
        "Against W × 1 and x × 1 the same step of W, and of a gain, changes the outputs by a "
        f"factor of: {factors}. Eq. 13 is off by {errors}."
    )


ABOUT = {
    "geometry": (
        "The curvature along a step of W against its length, that along the gains against the"
        " scale of the inputs, and the error of equation 13 against the number of units, a "
        "line for each normalizer"
    ),
}


def geometry(**settings: Any) -> Panel:
    """The panel of what a step costs: set the length of W, the scale of x and H.

    Args:
        settings: fields of :class:`GeometryState`: where the panel starts, and what Reset
            returns to.
    """
    state = GeometryState(**settings)
    return Panel("geometry", "03", state, *arranged(), ABOUT, look, drawn, settable)


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        "normalizers": Chips(tuple(NORMALIZERS), description="normalizers", most=MOST),
        "length": log_slider("W times", -1, 1),
        "inputs": log_slider("x times", -1, 1),
        "units": choice_slider("units H", [(str(units), units) for units in UNITS]),
        "family": choice("outputs", [(name, name) for name in FAMILIES]),
    }
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:2], others[2:])]), controls


def drawn(state: GeometryState) -> dict[str, go.Figure]:
    """The figure of a state."""
    return {"geometry": geometry_figure(measure(state).curves)}


def look(state: GeometryState) -> View:
    """The view of a state."""
    measurement = measure(state)
    curves = measurement.curves
    drawing = Drawing(
        geometry_traces(curves),
        geometry_layout(curves),
    )
    titles = {"geometry": conditions(state)}
    return View(sentence(state, measurement), titles, {"geometry": drawing})


def settable(state: GeometryState) -> list[Settable]:
    """The control that works without a kernel: the length of W."""
    stops = sizes(SIZES, state.length)
    return [Settable("W times", stops, digits(state.length), GeometryState.longer)]
