"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.figures.dynamics import Traces
from lnlab.figures.geometry import geometry as drawn
from lnlab.figures.geometry import geometry_layout, geometry_traces
from lnlab.figures.playable import playable
from lnlab.figures.text import titled
from lnlab.probes.families import FAMILIES

from .controls import Chips, choice, choice_slider, in_columns, log_slider
from .curved import MOST, NORMALIZERS, SIZES, UNITS, Curved, conditions, courses, sentence
from .live_plot import LivePlot
from .panel import Drawing, Panel, View

ABOUT = (
    "The curvature along a step of W against its length, that along the gains against the "
    "scale of the inputs, and the error of equation 13 against the number of units, a line for "
    "each normalizer"
)


def geometry(**settings: Any) -> Panel:
    """What a step costs: set the length of W, the scale of x and H, and see it change.

    Args:
        settings: fields of :class:`~lnlab.panels.curved.Curved`: where the panel starts, and
            what Reset returns to.
    """
    state = Curved(**settings)
    arrangement, controls = arranged()
    plots = {"geometry": LivePlot(drawn(courses(state)), ABOUT, least_width=860)}
    return Panel("geometry", "03", state, controls, arrangement, plots, look, still)


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


def look(state: Curved) -> View:
    """What the panel shows of a state."""
    seen = courses(state)
    drawing = Drawing(geometry_traces(seen), geometry_layout(seen))
    return View(sentence(state), {"geometry": drawing})


def still(state: Curved, play: bool) -> list[go.Figure]:
    """The figure of a state; with ``play`` it has a slider over the length of W."""
    figure = drawn(courses(state))
    if play:
        here = state.length
        sizes = sorted([here, *SIZES[np.abs(SIZES / here - 1) > 0.01]])
        frames = {f"{size:.3g}": frame(state.longer(size)) for size in sizes}
        figure = playable(figure, frames, "W × ", sizes.index(here))
    return [titled(figure, conditions(state))]


def frame(state: Curved) -> Traces:
    """What moves with the length of W: the lines of the steps, and the dots on them."""
    return {
        name: {key: new[key] for key in ("x", "y")}
        for name, new in geometry_traces(courses(state)).items()
        if new["visible"] and not str(name).startswith("error")
    }
