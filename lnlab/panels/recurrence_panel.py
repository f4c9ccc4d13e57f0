"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnlab.analysis.random import normal
from lnlab.analysis.rnn_dynamics import RecurrentDynamics, measure_rms_per_time_step
from lnlab.figures.style import (
    EDGE,
    base_layout,
    format_number,
    legend_annotation,
    log_axis_between_powers,
    side_by_side_domains,
    subplot_axes,
    subplot_title_above_axes,
    thinning_line_colors_and_widths,
    trace,
)
from lnlab.kernels import fuse
from lnlab.nn import NORMS, BatchNorm, Cell, CellInit, GRUCell, LSTMCell, NormLayer, RNNCell
from lnlab.panels.controls import MultiSelectButtons, dropdown, log_slider, options_slider
from lnlab.panels.panel import LEAST_WIDTH, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.training.random_state import default_dtype

UNITS, INPUTS, EXAMPLES, SLOTS = 64, 16, 32, 4

# On the examples at hand every time step has its own statistics, whatever is remembered.
NORMALIZERS: dict[str, NormLayer] = {
    "none": NORMS["none"],
    "layer": NORMS["layer"],
    "recurrent batch": BatchNorm,
    "rms": NORMS["rms"],
    "weight": NORMS["weight"],
}
CELLS: dict[str, tuple[str, Callable[..., Cell]]] = {
    "RNN, relu": ("eq. 4", partial(RNNCell, nonlinearity=torch.relu)),
    "RNN, tanh": ("eq. 4", RNNCell),
    "LSTM": ("eq. 20-22", LSTMCell),
    "GRU": ("eq. 26-28", GRUCell),
}
STEPS = (10, 25, 50, 100, 200)
STOPS = (0.1, 0.2, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 7.0, 10.0)
"""Factors of the weights offered on a static page, of W_x every second one."""

PARTS = {
    "pre_activation_rms": ("pre-activations a<sub>t</sub>", -2, 4),
    "hidden_rms": ("hidden state h<sub>t</sub>", -2, 4),
    "relative_gradient_rms": ("gradient ÷ gradient at T", -12, 8),
}
"""The subplots: title, and the powers of ten at the fixed ends of the vertical axis.

On an axis fitted to exploding values, the lines of all other networks would look flat.
"""


@dataclass(frozen=True)
class RecurrencePanelSettings:
    """A recurrent net at its start, and the normalizers that it is tried with."""

    normalizers: tuple[str, ...] = ("none", "layer", "recurrent batch")  # at most four
    cell: str = "RNN, relu"  # one of CELLS
    recurrent_weight_scale: float = 2.0  # W_h is this many times N(0, 1/H); 0.1 to 10
    input_weight_scale: float = 1.0  # W_x is this many times N(0, 1/D); 0.1 to 10
    gain: float = 1.0  # of what normalizes W_h h; in eq. 4 the only one; 0.1 to 10
    steps: int = 100  # T


@torch.no_grad()
def make_cell(
    normalizer: str,
    cell: str,
    recurrent_weight_scale: float,
    input_weight_scale: float,
    gain: float,
) -> Cell:
    """Return the cell with a normalizer; the same random numbers whatever is set."""
    streams = iter(range(100, 200))

    def initialize_gate_(W: Tensor) -> None:
        W.copy_(normal(0, next(streams), *W.shape) / W.shape[1] ** 0.5)

    _, make = CELLS[cell]
    with default_dtype(torch.float64):
        new = make(INPUTS, UNITS, NORMALIZERS[normalizer], initial=CellInit(initialize_gate_))
    new.W_x.mul_(input_weight_scale)
    new.W_h.mul_(recurrent_weight_scale)
    for norm in (new.norm_h, getattr(new, "norm_U", None)):
        g = getattr(norm, "g", None)
        if isinstance(g, Tensor):
            g.fill_(gain)
    return fuse(new) if normalizer in ("layer", "rms", "recurrent batch") else new


@lru_cache(maxsize=2_000)
def dynamics_on_fixed_inputs(
    normalizer: str,
    cell: str,
    recurrent_weight_scale: float,
    input_weight_scale: float,
    gain: float,
    steps: int,
) -> RecurrentDynamics:
    """Return :func:`.measure_rms_per_time_step` on inputs that are always equal."""
    x = normal(0, 5, max(STEPS), EXAMPLES, INPUTS)[:steps]
    return measure_rms_per_time_step(
        make_cell(normalizer, cell, recurrent_weight_scale, input_weight_scale, gain), x
    )


def measure_dynamics(settings: RecurrencePanelSettings) -> dict[str, RecurrentDynamics]:
    """Return pre-activations, hidden states and gradients under each normalizer."""
    gains = {name: 1.0 if name == "none" else settings.gain for name in settings.normalizers}
    return {
        name: dynamics_on_fixed_inputs(
            name,
            settings.cell,
            settings.recurrent_weight_scale,
            settings.input_weight_scale,
            gain,
            settings.steps,
        )
        for name, gain in gains.items()
    }


def draw(settings: RecurrencePanelSettings) -> TitledFigure:
    """Return the course of each net in time, and what becomes of its gradient."""
    dynamics_by_norm = measure_dynamics(settings)
    figure = recurrence_figure(dynamics_by_norm)
    title = (
        f"{settings.cell} ({CELLS[settings.cell][0]}), "
        f"weights W_h × {settings.recurrent_weight_scale:.3g} and "
        f"W_x × {settings.input_weight_scale:.3g}, gain {settings.gain:.3g}, "
        f"{settings.steps} time steps"
    )
    if not dynamics_by_norm:
        text = (
            f"{title}. Choose a normalizer to see how the gradient changes over the time steps."
        )
        return TitledFigure(figure, title, text)
    factors = ", ".join(
        f"{name} {format_number(float(each.relative_gradient_rms[0]))} "
        f"({each.gradient_factor_per_step:.2f} per step)"
        for name, each in dynamics_by_norm.items()
    )
    text = (
        "Root mean square of the gradient with respect to the state at time step 1, divided by "
        f"that at time step {settings.steps}: {factors}."
    )
    outside = ", ".join(
        f"“{name}”"
        for name, each in dynamics_by_norm.items()
        if any_line_exceeds_its_axis(each)
    )
    if outside:
        text += f" Lines of {outside} leave the picture."
    return TitledFigure(figure, title, text)


def any_line_exceeds_its_axis(dynamics_of_net: RecurrentDynamics) -> bool:
    """Return True if some line of a network leaves its axis."""
    return any(
        bool(((values < 10.0**low) | (values > 10.0**high)).any())
        for values, (low, high) in (
            (getattr(dynamics_of_net, part), ends) for part, (_, *ends) in PARTS.items()
        )
    )


def recurrence_figure(dynamics_by_norm: Mapping[str, RecurrentDynamics]) -> Figure:
    """Return three subplots over the time steps: a line for each normalizer."""
    styles, data, notes = thinning_line_colors_and_widths(dynamics_by_norm), [], []
    narrow: dict[str, Any] = {"height": 660}
    layout = base_layout(400, 50, 12, 62, 46)
    steps = max((len(each.pre_activation_rms) for each in dynamics_by_norm.values()), default=1)
    for index, (part, (title, low, high)) in enumerate(PARTS.items()):
        for slot, (name, each) in enumerate(dynamics_by_norm.items()):
            y = np.clip(getattr(each, part).numpy(), 10.0**-EDGE, 10.0**EDGE)
            data.append(trace(
                "scatter", f"{part} {slot}", index, mode="lines", line=styles[name],
                x=np.arange(1.0, len(y) + 1), y=y,
                hovertemplate="step %{x}: %{y:.3g}<extra></extra>",
            ))  # fmt: skip
        domain = side_by_side_domains(len(PARTS), 0.09)[index]
        time = {"domain": domain, "range": [0, steps + 1], "title": {"text": "time step t"}}
        axes = subplot_axes(index, time, log_axis_between_powers(low, high))
        layout |= axes
        notes.append(subplot_title_above_axes(f"<b>{title}</b>", index, {"size": 13}))
        # on a phone below each other, with one title for their axes of time
        x, y = axes
        last = index == len(PARTS) - 1
        narrow[x] = {"domain": (0, 1), "title": time["title"] if last else {"text": ""}}
        narrow[y] = {"domain": side_by_side_domains(len(PARTS), 0.1)[len(PARTS) - 1 - index]}
    legend = legend_annotation(dynamics_by_norm, 32)
    narrow["annotations"] = [*notes, legend | {"font": {"size": 11}, "x": -0.1}]
    layout |= {
        "annotations": [*notes, legend],
        "meta": {"narrow": {"below": LEAST_WIDTH, "layout": narrow}},
    }
    return {"data": data, "layout": layout}


def recurrence(**settings: Any) -> Panel:
    """Return the panel on recurrence: growth and decay over time for given sizes of weights.

    The ``settings`` at the start are fields of :class:`RecurrencePanelSettings`.

    Examples:
        >>> panel = lnlab.panels.recurrence(cell="LSTM", gain=0.1)
    """
    controls = {
        "normalizers": MultiSelectButtons("normalizers", NORMALIZERS, SLOTS),
        "cell": dropdown(
            "cell", {f"{name}   {equation}": name for name, (equation, _) in CELLS.items()}
        ),
        "steps": options_slider("steps T", STEPS),
        "recurrent_weight_scale": log_slider("W_h times", -1, 1),
        "input_weight_scale": log_slider("W_x times", -1, 1),
        "gain": log_slider("gain g", -1, 1),
    }
    suggestions = {
        "Drag W_h times from 10 down to 0.1: where does the gradient without normalization "
        "change from exploding to vanishing?": {"recurrent_weight_scale": 10.0},
        "W_x times 10: is the gradient with layer norm larger than with W_x times 1?": {
            "input_weight_scale": 10.0
        },
        "W_h times 5 and W_x times 5: note the factor per step of layer norm in the text": {
            "recurrent_weight_scale": 5.0, "input_weight_scale": 5.0,
        },
        "W_h times 2 and W_x times 2: is the factor per step of layer norm the same as with "
        "both at 5?": {
            "recurrent_weight_scale": 2.0, "input_weight_scale": 2.0,
        },
        "Gain g = 0.1, which Cooijmans et al. (2016) recommend for recurrent batch norm: do "
        "gradients grow or shrink?": {
            "gain": 0.1
        },
        "LSTM: does the scale of W_h still matter, and with which normalizer do gradients "
        "vanish?": {
            "cell": "LSTM"
        },
    }  # fmt: skip
    alt = (
        "Root mean squares of the pre-activations, of the hidden state and of the gradient "
        "with respect to the state at every time step of a recurrent network, a line for each "
        "normalizer"
    )
    no_gain = "no effect: without a normalizer there is no gain"
    return Panel(
        make_settings(RecurrencePanelSettings, settings), controls, draw,
        alt={"recurrence": alt}, notebook="06",
        on_page=["recurrent_weight_scale", "input_weight_scale"],
        stops={"recurrent_weight_scale": STOPS, "input_weight_scale": STOPS[::2]},
        suggestions=suggestions,
        locks={"gain": lambda settings: no_gain if {*settings.normalizers} <= {"none"} else ""},
    )  # fmt: skip
