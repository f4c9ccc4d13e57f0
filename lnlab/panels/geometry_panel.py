"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from lnlab.analysis.fisher import FAMILIES, GLM, divergence, error_of_eq_13
from lnlab.analysis.random import normal
from lnlab.figures.style import (
    INK,
    axes,
    base_layout,
    format_number,
    legend,
    power_axis,
    powers_around,
    side_by_side,
    thinning_line_styles,
    title_above,
    trace,
)
from lnlab.nn import NORMS, NormLayer
from lnlab.panels.controls import Chips, choice, choice_slider, log_slider
from lnlab.panels.panel import Panel
from lnlab.panels.playable import Figure, Shown

INPUTS, CASES, SLOTS = 6, 24, 4
NORMALIZERS: dict[str, NormLayer] = {
    name: NORMS[name] for name in ("none", "layer", "batch", "weight")
}
UNITS = (4, 8, 16, 32, 64)
SIZES = np.logspace(-1, 1, 21)
FLOOR = 1e-17
"""The height at which a value of exactly 0 is drawn: below the rounding of float64."""
STEP = 1e-4
"""The size of a step in every weight or gain: small enough for eq. 8."""

PARTS = {
    "turn": ("step of W", "W times", "curvature, nats"),
    "stretch": ("step of the gain, or ‖w‖", "x times", ""),
    "error": ("relative error of eq. 13", "units H", ""),
}
"""The subplots by the name of their traces: title, axis of x, axis of y."""


@dataclass(frozen=True)
class GeometryPanelSettings:
    """H linear models of the same inputs, at a random W."""

    normalizers: tuple[str, ...] = ("none", "layer", "batch", "weight")
    family: str = "Gaussian"  # the distribution of the outputs
    length: float = 1.0  # W is this many times N(0, 1); 0.1 to 10
    inputs: float = 1.0  # the inputs are this many times N(0, 1/D); 0.1 to 10
    units: int = 16  # H


def model(name: str, family: str, length: float, inputs: float, units: int) -> GLM:
    """Return the models of a state; the same random numbers whatever is set."""
    W, x = normal(0, 6, units, INPUTS), normal(0, 7, CASES, INPUTS) / INPUTS**0.5
    return GLM(length * W, inputs * x, NORMALIZERS[name], FAMILIES[family])


@lru_cache(maxsize=20_000)
def step_costs(
    name: str, family: str, length: float, inputs: float, units: int
) -> tuple[float, float]:
    """Return the cost of a step that turns W, and of one of the gains, in nats.

    That is 2 D_KL/||delta||², the curvature along a random step of W and along one of all
    gains, or of all ||w_i|| where nothing normalizes.
    """
    glm = model(name, family, length, inputs, units)
    turn, stretch = torch.zeros_like(glm.theta), torch.zeros_like(glm.theta)
    turn[:, :INPUTS] = normal(1, 6, units, INPUTS)
    if glm.is_unnormalized:
        stretch[:, :INPUTS] = glm.W / glm.W.norm(dim=1, keepdim=True)
    else:
        stretch[:, -1] = 1.0
    return curvature(glm, STEP * turn), curvature(glm, STEP * stretch)


def curvature(glm: GLM, delta: torch.Tensor) -> float:
    """Return 2 D_KL/||delta||² of a step."""
    return 2 * divergence(glm, delta) / float(delta.square().sum())


@lru_cache(maxsize=200)
def block_error(name: str, family: str, units: int) -> float:
    """Return the relative distance of a block of eq. 13 from the metric."""
    return error_of_eq_13(model(name, family, 1.0, 1.0, units)).own


class CostCurve(NamedTuple):
    """A curve ``values`` over ``at`` (K,), and the value at the place that is looked at."""

    at: np.ndarray
    values: np.ndarray
    here: float
    value: float


Costs = Mapping[str, tuple[CostCurve, CostCurve, CostCurve]]
"""Curves by normalizer: the cost of a step of W, of the gain, and the error of eq. 13."""


def cost_curves(name: str, s: GeometryPanelSettings) -> tuple[CostCurve, CostCurve, CostCurve]:
    """Return the three curves of a normalizer."""
    by_length = np.array([step_costs(name, s.family, c, s.inputs, s.units)[0] for c in SIZES])
    by_inputs = np.array([step_costs(name, s.family, s.length, c, s.units)[1] for c in SIZES])
    turn, stretch = step_costs(name, s.family, s.length, s.inputs, s.units)
    errors, here = [block_error(name, s.family, units) for units in UNITS], float(s.units)
    return (
        CostCurve(SIZES, by_length, s.length, turn),
        CostCurve(SIZES, by_inputs, s.inputs, stretch),
        CostCurve(np.array(UNITS, float), np.array(errors), here, errors[UNITS.index(s.units)]),
    )


def show(state: GeometryPanelSettings) -> Shown:
    """Return three subplots on logarithmic axes, a line and a dot for each normalizer."""
    curves = {name: cost_curves(name, state) for name in state.normalizers}
    title = (
        f"{state.family} outputs, H = {state.units} units, weights W × {state.length:.3g}, "
        f"D = {INPUTS} inputs x × {state.inputs:.3g}, {CASES} examples"
    )
    if not curves:
        text = f"{title}. Choose a normalizer."
        return Shown(geometry_figure(curves), title, text)
    factors, errors = [], []
    for name, (turn, stretch, off) in curves.items():
        turn_at_1, stretch_at_1 = step_costs(name, state.family, 1.0, 1.0, state.units)
        ratios = (
            format_number(turn.value / turn_at_1),
            format_number(stretch.value / stretch_at_1),
        )
        factors.append(f"{name} {' and '.join(ratios)}")
        errors.append(f"{format_number(off.value)} ({name})")
    text = (
        "Curvature of the KL divergence along W and along a gain, divided by its value at "
        f"W × 1 and x × 1: {', '.join(factors)}. Relative error of the Fisher matrix by "
        f"eq. 13: {', '.join(errors)}."
    )
    return Shown(geometry_figure(curves), title, text)


def geometry_figure(curves: Costs) -> Figure:
    """Return the figure of cost curves; what is 0 is drawn at the foot, 1e-17."""
    styles, data, notes = thinning_line_styles(curves), [], []
    layout = base_layout(400, 60, 12, 62, 46)
    common = {"hovertemplate": "× %{x:.3g}: %{y:.3g}<extra></extra>"}
    for index, (part, (title, x, y)) in enumerate(PARTS.items()):
        dots = []
        for slot, (name, several) in enumerate(curves.items()):
            curve, color = several[index], styles[name]["color"]
            edge = {"color": INK, "width": 1.5}
            data.append(trace(
                "scatter", f"{part} {slot}", index, mode="lines", line=styles[name],
                x=curve.at, y=np.maximum(curve.values, FLOOR), **common,
            ))  # fmt: skip
            dots.append(trace(
                "scatter", f"{part} {slot} here", index, mode="markers",
                marker={"color": color, "size": 16 - 2.5 * slot, "line": edge},
                x=np.array([curve.here]), y=np.array([max(curve.value, FLOOR)]), **common,
            ))  # fmt: skip
        data += dots
        domain = side_by_side(len(PARTS), 0.1025)[index]
        shown = [several[index] for several in curves.values()]
        low, high = powers_around([curve.values for curve in shown], -2, 2, step=2)
        heights = power_axis(-18, 0) if part == "error" else power_axis(low, high)
        places = {"domain": domain, "title": {"text": x}} | x_axis(part, shown)
        layout |= axes(index, places, heights | {"title": {"text": y}})
        notes.append(title_above(title, domain))
    notes.append(legend(curves, 32))
    return {"data": data, "layout": layout | {"annotations": notes}}


def x_axis(part: str, shown: Sequence[CostCurve]) -> dict[str, Any]:
    """Return the logarithmic axis of a subplot, with room for a dot at its ends."""
    at = shown[0].at if shown else np.array([0.1, 10.0])
    ticks: dict[str, Any] = {"dtick": 1}
    if part == "error":
        ticks = {"tickvals": at.tolist(), "ticktext": [f"{value:g}" for value in at]}
    low, high = np.log10(at[0]) - 0.08, np.log10(at[-1]) + 0.08
    return {"type": "log", "range": [low, high]} | ticks


def geometry(**settings: Any) -> Panel:
    """Return the panel of what a step costs: set the length of W, the scale of x and H.

    It starts with ``settings``, fields of :class:`GeometryPanelSettings`.

    Examples:
        >>> panel = lnlab.panels.geometry(length=5.0)
    """
    controls = {
        "normalizers": Chips("normalizers", NORMALIZERS, max_chosen=SLOTS),
        "length": log_slider("W times", -1, 1),
        "inputs": log_slider("x times", -1, 1),
        "units": choice_slider("units H", UNITS),
        "family": choice("outputs", FAMILIES.keys()),
    }
    suggestions = {
        "W times 10, then drag it down to 0.1: three lines of the left picture fall, all with "
        "the same slope. Which one does not, and why?": {"length": 10.0},
        "x times 10: which curvatures in the middle rise?": {"inputs": 10.0},
        "Bernoulli outputs, W times 10: which network saturates?": {
            "family": "Bernoulli", "length": 10.0,
        },
        "units H = 64: what happens in the right picture?": {"units": 64},
    }  # fmt: skip
    alt = (
        "The curvature along a step of W against its length, that along the gains against the"
        " scale of the inputs, and the error of equation 13 against the number of units, a "
        "line for each normalizer"
    )
    return Panel(
        GeometryPanelSettings(**settings), controls, show, alt={"geometry": alt}, notebook="03",
        on_page=["length"], suggestions=suggestions,
    )  # fmt: skip
