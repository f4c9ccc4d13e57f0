"""The panel of notebook 19: a transformer at its start, by depth, place and kind of norm."""

from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.transformer
from lnlab.panels.controls import Chips, choice, choice_slider, in_columns
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.panels.transformer.measurement import STEPS, measure, stepped
from lnlab.panels.transformer.state import DEPTHS, KINDS, TransformerState
from lnlab.panels.transformer.words import conditions, sentence
from lnlab.tasks.transformer.net import PLACES

ABOUT = {
    "profile": "The size of the gradient of the matrix W2 in every layer of a transformer "
    "before its first update, a line for each place of the normalizer",
    "steps": "The loss of a transformer behind a first step of Adam against the size of that "
    "step, a line for each place of the normalizer",
}


def transformer(**settings: Any) -> Panel:
    """A transformer before its first update: stack layers, move its normalizers, change them.

    Args:
        settings: fields of :class:`TransformerState`: where the panel starts, and what Reset
            returns to.
    """
    state = TransformerState(**settings)
    return Panel(
        "transformer", "19", state, *arranged(), ABOUT, look, drawn, settable, least_width=600
    )


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        "places": Chips(tuple(PLACES), description="places", most=len(PLACES)),
        "depth": choice_slider("layers L", [(str(depth), depth) for depth in DEPTHS]),
        "kind": choice("kind", [(kind, kind) for kind in KINDS]),
    }
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:1], others[1:])]), controls


def drawn(state: TransformerState) -> dict[str, go.Figure]:
    """The figures of a state."""
    return {
        "profile": lnlab.figures.transformer.profile(measure(state).profiles),
        "steps": lnlab.figures.transformer.first_steps(STEPS, stepped(state)),
    }


def look(state: TransformerState) -> View:
    """The view of a state."""
    measurement = measure(state)
    profiles = measurement.profiles
    drawing = Drawing(
        lnlab.figures.transformer.profile_traces(profiles),
        lnlab.figures.transformer.profile_layout(profiles),
    )
    return View(
        sentence=sentence(state, measurement),
        titles=dict.fromkeys(("profile", "steps"), conditions(state)),
        drawings={"profile": drawing},
        late={"steps": lambda: moved(state)},
    )


def moved(state: TransformerState) -> Drawing:
    """The first steps of a state: thirty-three losses take longer than a slider may."""
    losses = stepped(state)
    return Drawing(
        lnlab.figures.transformer.first_steps_traces(STEPS, losses),
        lnlab.figures.transformer.first_steps_layout(losses),
    )


def settable(state: TransformerState) -> list[Settable]:
    """The control that works without a kernel: the depth."""
    depths = {str(depth): depth for depth in DEPTHS}
    return [Settable("layers L", depths, str(state.depth), TransformerState.at)]
