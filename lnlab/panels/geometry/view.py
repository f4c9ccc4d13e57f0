"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.geometry
from lnlab.analysis.fisher import FAMILIES
from lnlab.panels.geometry.measurement import measure
from lnlab.panels.geometry.state import MOST, NORMALIZERS, SIZES, UNITS, GeometryState
from lnlab.panels.geometry.words import conditions, sentence
from lnlab.panels.widgets.controls import Chips, choice, choice_slider, in_columns, log_slider
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable, digits, sizes
from lnlab.panels.widgets.view import Drawing, View

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
    return {"geometry": lnlab.figures.geometry.geometry(measure(state).curves)}


def look(state: GeometryState) -> View:
    """The view of a state."""
    measurement = measure(state)
    curves = measurement.curves
    drawing = Drawing(
        lnlab.figures.geometry.geometry_traces(curves),
        lnlab.figures.geometry.geometry_layout(curves),
    )
    titles = {"geometry": conditions(state)}
    return View(sentence(state, measurement), titles, {"geometry": drawing})


def settable(state: GeometryState) -> list[Settable]:
    """The control that works without a kernel: the length of W."""
    stops = sizes(SIZES, state.length)
    return [Settable("W times", stops, digits(state.length), GeometryState.longer)]
