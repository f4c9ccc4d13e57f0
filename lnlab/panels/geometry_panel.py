"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from lnlab.analysis.fisher import FAMILIES, GLM, actual_divergence, error_of_eq_13
from lnlab.analysis.random import normal
from lnlab.figures.style import (
    INK,
    base_layout,
    format_number,
    legend_annotation,
    log_axis_between_powers,
    side_by_side_domains,
    subplot_axes,
    subplot_title,
    thinning_line_colors_and_widths,
    trace,
    widen_exponent_range_to_values,
)
from lnlab.nn import NORMS, NormLayer
from lnlab.panels.controls import MultiSelectButtons, dropdown, log_slider, options_slider
from lnlab.panels.panel import Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure

INPUTS, EXAMPLES, SLOTS = 6, 24, 4
NORMALIZERS: dict[str, NormLayer] = {
    name: NORMS[name] for name in ("none", "layer", "batch", "weight")
}
UNITS = (4, 8, 16, 32, 64)
SIZES = np.logspace(-1, 1, 21)
FLOOR = 1e-17
"""The value at which an exact 0 is drawn on a logarithmic axis: below float64's rounding."""
STEP = 1e-4
"""The size of the step in each weight or gain: so small that eq. 8 (quadratic) holds."""

PARTS = {
    "turn": ("curvature along W", "scale of W", "curvature (nats)"),
    "stretch": ("curvature along gains", "scale of the inputs x", ""),
    "error": ("relative error of eq. 13", "number of units H", ""),
}
"""Subplots by the name of their traces: title, label of the x axis, label of the y axis."""


@dataclass(frozen=True)
class GeometryPanelSettings:
    """H linear models of the same inputs, at a random W."""

    normalizers: tuple[str, ...] = ("none", "layer", "batch", "weight")
    output_family: str = "Gaussian"  # the distribution of the outputs
    weight_scale: float = 1.0  # W is this many times N(0, 1); 0.1 to 10
    input_scale: float = 1.0  # the inputs are this many times N(0, 1/D); 0.1 to 10
    units: int = 16  # H


def random_glm(
    normalizer: str, output_family: str, weight_scale: float, input_scale: float, units: int
) -> GLM:
    """Return the models of the settings; the same random numbers whatever is set."""
    W, x = normal(0, 6, units, INPUTS), normal(0, 7, EXAMPLES, INPUTS) / INPUTS**0.5
    return GLM(
        weight_scale * W, input_scale * x, NORMALIZERS[normalizer], FAMILIES[output_family]
    )


class KLCurvatures(NamedTuple):
    """Curvatures of the KL divergence, in nats."""

    weights: float  # along a step of W
    gains: float  # along one of all gains, or of all ||w_i|| where nothing normalizes


@lru_cache(maxsize=20_000)
def weight_and_gain_kl_curvatures(
    normalizer: str, output_family: str, weight_scale: float, input_scale: float, units: int
) -> KLCurvatures:
    """Return the curvature of the KL divergence along a step of W and one of the gains.

    That is 2 D_KL/||delta||², the curvature along a random step of W and along one of all
    gains, or of all ||w_i|| where nothing normalizes.
    """
    glm = random_glm(normalizer, output_family, weight_scale, input_scale, units)
    turn, stretch = torch.zeros_like(glm.theta), torch.zeros_like(glm.theta)
    turn[:, :INPUTS] = normal(1, 6, units, INPUTS)
    if glm.is_unnormalized:
        stretch[:, :INPUTS] = glm.W / glm.W.norm(dim=1, keepdim=True)
    else:
        stretch[:, -1] = 1.0
    steps = STEP * turn, STEP * stretch
    return KLCurvatures(*(twice_kl_per_squared_step(glm, step) for step in steps))


def twice_kl_per_squared_step(glm: GLM, step: torch.Tensor) -> float:
    """Return 2 D_KL/||delta||² of a step."""
    return 2 * actual_divergence(glm, step) / float(step.square().sum())


@lru_cache(maxsize=200)
def own_block_error_of_eq_13(normalizer: str, output_family: str, units: int) -> float:
    """Return the relative distance of a block of eq. 13 from the metric."""
    glm = random_glm(normalizer, output_family, 1.0, 1.0, units)
    return error_of_eq_13(glm).own_block_error


class CurveWithMarker(NamedTuple):
    """A curve ``y`` over ``x`` (K,), and the point of the present settings on it."""

    x: np.ndarray
    y: np.ndarray
    marker_x: float
    marker_y: float


class GeometryCurves(NamedTuple):
    """The three curves that the panel shows of one normalizer."""

    weight_curvature_by_weight_scale: CurveWithMarker  # along a step of W
    gain_curvature_by_input_scale: CurveWithMarker  # along a step of the gains
    eq_13_fisher_error_by_units: CurveWithMarker  # over the units


def curves_by_scales_and_units(
    normalizer: str, settings: GeometryPanelSettings
) -> GeometryCurves:
    """Return the curves of a normalizer over the scales of W and x, and over the units."""
    family, units = settings.output_family, settings.units
    w, x = settings.weight_scale, settings.input_scale
    over_w = np.array(
        [weight_and_gain_kl_curvatures(normalizer, family, c, x, units).weights for c in SIZES]
    )
    over_x = np.array(
        [weight_and_gain_kl_curvatures(normalizer, family, w, c, units).gains for c in SIZES]
    )
    now = weight_and_gain_kl_curvatures(normalizer, family, w, x, units)
    errors = [own_block_error_of_eq_13(normalizer, family, count) for count in UNITS]
    return GeometryCurves(
        CurveWithMarker(SIZES, over_w, w, now.weights),
        CurveWithMarker(SIZES, over_x, x, now.gains),
        CurveWithMarker(
            np.array(UNITS, float), np.array(errors), float(units), errors[UNITS.index(units)]
        ),
    )


def draw(settings: GeometryPanelSettings) -> TitledFigure:
    """Return three subplots on logarithmic axes, a line and a dot for each normalizer."""
    curves = {name: curves_by_scales_and_units(name, settings) for name in settings.normalizers}
    title = (
        f"{settings.output_family} outputs; "
        f"H = {settings.units} units, W multiplied by {settings.weight_scale:.3g}; "
        f"D = {INPUTS} inputs, x multiplied by {settings.input_scale:.3g}; {EXAMPLES} examples"
    )
    if not curves:
        text = f"{title}. Choose a normalizer."
        return TitledFigure(geometry_figure(curves), title, text)
    factors, errors = [], []
    for name, (turn, stretch, off) in curves.items():
        turn_at_1, stretch_at_1 = weight_and_gain_kl_curvatures(
            name, settings.output_family, 1.0, 1.0, settings.units
        )
        ratios = (
            format_number(turn.marker_y / turn_at_1),
            format_number(stretch.marker_y / stretch_at_1),
        )
        factors.append(f"{name} {' and '.join(ratios)}")
        errors.append(f"{format_number(off.marker_y)} ({name})")
    text = (
        "Curvature of the KL divergence along W and along the gains (for none: along ‖w‖), "
        f"divided by its value at W × 1 and x × 1: {', '.join(factors)}. Relative error of "
        f"eq. 13 in the diagonal blocks of the Fisher matrix: {', '.join(errors)}."
    )
    return TitledFigure(geometry_figure(curves), title, text)


def geometry_figure(curves: Mapping[str, GeometryCurves]) -> Figure:
    """Return the figure of cost curves; what is 0 is drawn at the foot, 1e-17."""
    styles, data, notes = thinning_line_colors_and_widths(curves), [], []
    layout = base_layout(400, 60, 12, 62, 46)
    common = {"hovertemplate": "× %{x:.3g}: %{y:.3g}<extra></extra>"}
    for index, (subplot, (title, x, y)) in enumerate(PARTS.items()):
        dots = []
        for slot, (name, several) in enumerate(curves.items()):
            curve, color = several[index], styles[name]["color"]
            edge = {"color": INK, "width": 1.5}
            data.append(trace(
                "scatter", f"{subplot} {slot}", index, mode="lines", line=styles[name],
                x=curve.x, y=np.maximum(curve.y, FLOOR), **common,
            ))  # fmt: skip
            dots.append(trace(
                "scatter", f"{subplot} {slot} here", index, mode="markers",
                marker={"color": color, "size": 16 - 2.5 * slot, "line": edge},
                x=np.array([curve.marker_x]), y=np.array([max(curve.marker_y, FLOOR)]),
                **common,
            ))  # fmt: skip
        data += dots
        domain = side_by_side_domains(len(PARTS), 0.1025)[index]
        shown = [several[index] for several in curves.values()]
        low, high = widen_exponent_range_to_values([curve.y for curve in shown], -2, 2, step=2)
        heights = (
            log_axis_between_powers(-18, 0)
            if subplot == "error"
            else log_axis_between_powers(low, high)
        )
        places = {"domain": domain, "title": {"text": x}} | log_x_axis(subplot, shown)
        layout |= subplot_axes(index, places, heights | {"title": {"text": y}})
        notes.append(subplot_title(title, domain))
    notes.append(legend_annotation(curves, 32))
    return {"data": data, "layout": layout | {"annotations": notes}}


def log_x_axis(subplot: str, shown: Sequence[CurveWithMarker]) -> dict[str, Any]:
    """Return the logarithmic axis of a subplot, with room for a dot at its ends."""
    at = shown[0].x if shown else np.array([0.1, 10.0])
    ticks: dict[str, Any] = {"dtick": 1}
    if subplot == "error":
        ticks = {"tickvals": at.tolist(), "ticktext": [f"{value:g}" for value in at]}
    low, high = np.log10(at[0]) - 0.08, np.log10(at[-1]) + 0.08
    return {"type": "log", "range": [low, high]} | ticks


def geometry(**settings: Any) -> Panel:
    """Return the panel on geometry: how the curvature along a step depends on W, x and H.

    The ``settings`` at the start are fields of :class:`GeometryPanelSettings`.

    Examples:
        >>> panel = lnlab.panels.geometry(weight_scale=5.0)
    """
    controls = {
        "normalizers": MultiSelectButtons("normalizers", NORMALIZERS, max_chosen=SLOTS),
        "weight_scale": log_slider("W times", -1, 1),
        "input_scale": log_slider("x times", -1, 1),
        "units": options_slider("units H", UNITS),
        "output_family": dropdown("outputs", FAMILIES.keys()),
    }
    suggestions = {
        "Drag W times from 10 down to 0.1: which of the four curvatures in the left plot does "
        "not rise, and why?": {"weight_scale": 10.0},
        "Inputs times 10: which curvatures in the middle plot are larger than at x times 1?": {
            "input_scale": 10.0,
        },
        "Bernoulli outputs and W times 10: with which normalizer do the outputs saturate?": {
            "output_family": "Bernoulli", "weight_scale": 10.0,
        },
        "H = 64 units instead of 16: how does the error of eq. 13 in the right plot change?": {
            "units": 64,
        },
    }  # fmt: skip
    alt = (
        "Three plots with a line for each normalizer: the curvature of the KL divergence along "
        "W against the scale of W, its curvature along the gains against the scale of the "
        "inputs x, and the error of equation 13 against the number of units H"
    )
    return Panel(
        make_settings(GeometryPanelSettings, settings),
        controls, draw, alt={"geometry": alt}, notebook="03",
        on_page=["weight_scale"], suggestions=suggestions,
    )  # fmt: skip
