"""The panel of notebook 11: how nets draw a picture, glimpse by glimpse, while they learn."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

import lnlab.figures.drawing
from lnlab.panels.controls import choice, choice_slider, in_columns
from lnlab.panels.drawing.measurement import Drawers, measure
from lnlab.panels.drawing.state import DrawingState
from lnlab.panels.drawing.words import sentence
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.training.runs import Run

ABOUT = {
    "drawing": (
        "For each net the picture with the window through which it looks, its canvas with the"
        " window in which it writes, and sixteen pictures that it makes up"
    ),
}


def drawing(runs: Mapping[str, Run], pictures: np.ndarray, **settings: Any) -> Panel:
    """Drag through the glimpses of a drawing, and through the training of several nets.

    Args:
        runs: by name, at most three, of the task ``draw``.
        pictures: the validation pictures of their data (N, height, width), 0 to 255.
        settings: fields of :class:`DrawingState`: where the panel starts, and what Reset
            returns to.
    """
    there = Drawers(runs, pictures)
    state = there.whole(DrawingState(**settings))
    shown = {f"number {k + 1}": k for k in range(len(there.pictures))}
    glimpses = {str(glimpse): glimpse for glimpse in there.glimpses}
    updates = {str(update): update for update in there.updates}
    controls = {
        "glimpse": choice_slider("glimpse", [*glimpses.items()]),
        "update": choice_slider("update", [*updates.items()]),
        "picture": choice("picture", [*shown.items()]),
    }
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: DrawingState) -> dict[str, go.Figure]:
        measurement = measure(there, state)
        return {
            "drawing": lnlab.figures.drawing.drawing(measurement.picture, measurement.sketches)
        }

    def look(state: DrawingState) -> View:
        measurement = measure(there, state)
        parts = measurement.picture, measurement.sketches
        made = Drawing(
            lnlab.figures.drawing.drawing_traces(*parts),
            lnlab.figures.drawing.drawing_layout(*parts),
        )
        titles = {"drawing": f"update {state.update}, glimpse {state.glimpse}"}
        return View(sentence(state, measurement), titles, {"drawing": made})

    def settable(state: DrawingState) -> list[Settable]:
        return [
            Settable("glimpse", glimpses, str(state.glimpse), DrawingState.after),
            Settable("update", updates, str(state.update), DrawingState.at),
            Settable("picture", shown, [*shown][state.picture], DrawingState.of,
                     slides=False),
        ]  # fmt: skip

    return Panel(
        "drawing", "11", state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
