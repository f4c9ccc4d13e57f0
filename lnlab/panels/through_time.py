"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.figures.dynamics import Traces, dynamics, dynamics_layout, dynamics_traces
from lnlab.figures.playable import playable
from lnlab.figures.text import titled

from .controls import Chips, choice, choice_slider, in_columns, log_slider
from .live_plot import LivePlot
from .panel import Drawing, Panel, View
from .recurring import CELLS, MOST, NORMALIZERS, STEPS, Recurring, conditions, courses, sentence

ABOUT = (
    "Root mean squares of the summed inputs, of the hidden state and of the gradient at every "
    "time step of a recurrent net, a line for each normalizer"
)
SIZES = np.logspace(-1, 1, 21)
"""Of the recurrent weights, where no kernel runs."""


def recurrence(**settings: Any) -> Panel:
    """What grows and what dies out: set a recurrent net's weights, and follow it in time.

    Args:
        settings: fields of :class:`~lnlab.panels.recurring.Recurring`: where the panel
            starts, and what Reset returns to.
    """
    state = Recurring(**settings)
    arrangement, controls = arranged()
    plots = {"dynamics": LivePlot(dynamics(seen(state)), ABOUT, least_width=860)}
    return Panel("recurrence", "06", state, controls, arrangement, plots, look, still)


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    cells = [(f"{name}   {equation}", name) for name, (equation, _) in CELLS.items()]
    controls = {
        "normalizers": Chips(tuple(NORMALIZERS), description="normalizers", most=MOST),
        "cell": choice("cell", cells),
        "steps": choice_slider("steps T", [(str(steps), steps) for steps in STEPS]),
        "recurrent": log_slider("W_h times", -1, 1),
        "inputs": log_slider("W_x times", -1, 1),
        "gain": log_slider("gain g", -1, 1),
    }

    def enable(change: dict[str, Any]) -> None:
        controls["gain"].disabled = set(change["new"]) <= {"none"}

    controls["normalizers"].observe(enable, "value")
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:2], others[2:])]), controls


def seen(state: Recurring) -> Mapping[str, list[np.ndarray]]:
    """The courses of a state as arrays."""
    return {name: [part.numpy() for part in each] for name, each in courses(state).items()}


def look(state: Recurring) -> View:
    """What the panel shows of a state."""
    arrays = seen(state)
    drawing = Drawing(dynamics_traces(arrays), dynamics_layout(arrays))
    return View(sentence(state), {"dynamics": drawing})


def still(state: Recurring, play: bool) -> list[go.Figure]:
    """The figure of a state; with ``play`` it has a slider over the recurrent weights."""
    figure = dynamics(seen(state))
    if play:
        here = state.recurrent
        sizes = sorted([here, *SIZES[np.abs(SIZES / here - 1) > 0.01]])
        frames = {f"{size:.3g}": frame(state.rescaled(size)) for size in sizes}
        figure = playable(figure, frames, "W_h × ", sizes.index(here))
        # frames move lines and not axes: what explodes or dies at once may leave them
        even = seen(state.rescaled(1.0))
        figure.update_layout(axes(dynamics_layout(seen(state), [even])))
    return [titled(figure, conditions(state))]


def frame(state: Recurring) -> Traces:
    """The lines of a state."""
    return {
        name: {key: new[key] for key in ("x", "y")}
        for name, new in dynamics_traces(seen(state)).items()
        if new["visible"]
    }


def axes(layout: Mapping[str, Any]) -> dict[str, Any]:
    """What a layout says of axes."""
    return {name: value for name, value in layout.items() if "axis" in name}
