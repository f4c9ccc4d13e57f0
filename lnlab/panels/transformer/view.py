"""The panel of notebook 19: a transformer at its start, by depth, place and kind of norm."""

from typing import Any

import ipywidgets
import plotly.graph_objects as go

from lnlab.figures import transformer as draw
from lnlab.tasks.transformer.net import PLACES

from ..widgets.controls import Chips, choice, choice_slider, in_columns
from ..widgets.panel import Panel
from ..widgets.stills import Settable
from ..widgets.view import Drawing, View
from .measurement import STEPS, measure, stepped
from .state import DEPTHS, KINDS, TransformerState
from .words import conditions, sentence

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
        "profile": draw.profile(measure(state).profiles),
        "steps": draw.first_steps(STEPS, stepped(state)),
    }


def look(state: TransformerState) -> View:
    """The view of a state."""
    measurement = measure(state)
    profiles = measurement.profiles
    drawing = Drawing(draw.profile_traces(profiles), draw.profile_layout(profiles))
    return View(
        sentence=sentence(state, measurement),
        titles=dict.fromkeys(("profile", "steps"), conditions(state)),
        drawings={"profile": drawing},
        late={"steps": lambda: moved(state)},
    )


def moved(state: TransformerState) -> Drawing:
    """The first steps of a state: thirty-three losses take longer than a slider may."""
    losses = stepped(state)
    return Drawing(draw.first_steps_traces(STEPS, losses), draw.first_steps_layout(losses))


def settable(state: TransformerState) -> list[Settable]:
    """The control that works without a kernel: the depth."""
    depths = {str(depth): depth for depth in DEPTHS}
    return [Settable("layers L", depths, str(state.depth), TransformerState.at)]
