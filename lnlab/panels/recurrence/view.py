"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

import lnlab.figures.recurrence
from lnlab.analysis.rnn_dynamics import Dynamics
from lnlab.panels.recurrence.measurement import measure
from lnlab.panels.recurrence.state import CELLS, MOST, NORMALIZERS, STEPS, RecurrenceState
from lnlab.panels.recurrence.words import conditions, sentence
from lnlab.panels.widgets.controls import (
    Chips,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
)
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable, digits, sizes
from lnlab.panels.widgets.view import Drawing, View

ABOUT = {
    "recurrence": (
        "Root mean squares of the summed inputs, of the hidden state and of the gradient at "
        "every time step of a recurrent net, a line for each normalizer"
    ),
}
SIZES = np.logspace(-1, 1, 21)
"""The sizes of the recurrent weights that a page without a kernel offers."""


def recurrence(**settings: Any) -> Panel:
    """The panel of growth and decay: set a recurrent net's weights, and follow it in time.

    Args:
        settings: fields of :class:`RecurrenceState`: where the panel starts, and what Reset
            returns to.
    """
    state = RecurrenceState(**settings)
    return Panel("recurrence", "06", state, *arranged(), ABOUT, look, drawn, settable)


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
        none = set(change["new"]) <= {"none"}
        lock(controls["gain"], "only a normalizer has a gain" if none else "")

    first, *others = controls.values()
    columns = in_columns(others[:2], others[2:])
    controls["normalizers"].observe(enable, "value")
    enable({"new": controls["normalizers"].value})
    return ipywidgets.VBox([first, columns]), controls


def arrays(courses: Mapping[str, Dynamics]) -> dict[str, list[np.ndarray]]:
    """The measurement as the figure takes it."""
    return {name: [part.numpy() for part in each] for name, each in courses.items()}


def drawn(state: RecurrenceState) -> dict[str, go.Figure]:
    """The figure of a state."""
    return {"recurrence": lnlab.figures.recurrence.recurrence(arrays(measure(state)))}


def look(state: RecurrenceState) -> View:
    """The view of a state."""
    courses = measure(state)
    seen = arrays(courses)
    drawing = Drawing(
        lnlab.figures.recurrence.recurrence_traces(seen),
        lnlab.figures.recurrence.recurrence_layout(seen),
    )
    titles = {"recurrence": conditions(state)}
    return View(sentence(state, courses), titles, {"recurrence": drawing})


def settable(state: RecurrenceState) -> list[Settable]:
    """The control that works without a kernel: the size of the recurrent weights."""
    stops = sizes(SIZES, state.recurrent)
    return [Settable("W_h times", stops, digits(state.recurrent), RecurrenceState.rescaled)]
