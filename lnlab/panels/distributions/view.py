"""The panel of notebook 15: distributions through depth, at every step of a training."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.distributions
from lnlab.panels.distributions.measurement import Recorded, measure
from lnlab.panels.distributions.state import MOST, WHAT, DistributionsState
from lnlab.panels.distributions.words import conditions, sentence
from lnlab.panels.widgets.controls import Chips, choice, choice_slider, in_columns
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable
from lnlab.panels.widgets.view import Drawing, View

if TYPE_CHECKING:
    import pandas as pd

ABOUT = {
    "distributions": (
        "Quantiles of the summed inputs, or of their gradients, of every layer of a net at "
        "one step of its training, a panel for each normalizer"
    ),
}


def distributions(frames: "Mapping[str, Mapping[str, pd.DataFrame]]", **settings: Any) -> Panel:
    """Drag through a training, and see the distributions of all layers change.

    Args:
        frames: by kind of net and by arm, what a recorder gives.
        settings: fields of :class:`DistributionsState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: for what was not recorded.
    """
    recorded = Recorded(frames)
    state = recorded.whole(DistributionsState(**settings))
    return Panel(
        "distributions", "15", state, *arranged(recorded), ABOUT,
        partial(look, recorded), partial(drawn, recorded), partial(settable, recorded),
    )  # fmt: skip


def arranged(recorded: Recorded) -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        "arms": Chips(recorded.arms, description="normalizers", most=MOST),
        "step": choice_slider("step", [(str(step), step) for step in recorded.steps]),
        "net": choice("net", [(name, name) for name in recorded.frames]),
        "what": choice("shown", [(words, what) for what, words in WHAT.items()]),
    }
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:1], others[1:])]), controls


def drawn(recorded: Recorded, state: DistributionsState) -> dict[str, go.Figure]:
    """The figure of a state."""
    sections, reach = measure(recorded, state)
    return {
        "distributions": lnlab.figures.distributions.distributions(
            sections, reach=reach, y=WHAT[state.what]
        )
    }


def look(recorded: Recorded, state: DistributionsState) -> View:
    """The view of a state."""
    measurement = measure(recorded, state)
    sections, reach = measurement
    layout = lnlab.figures.distributions.distributions_layout(
        sections, reach=reach, y=WHAT[state.what]
    )
    return View(
        sentence=sentence(state, measurement),
        titles={"distributions": conditions(state)},
        drawings={
            "distributions": Drawing(
                lnlab.figures.distributions.distributions_traces(sections), layout
            )
        },
    )


def settable(recorded: Recorded, state: DistributionsState) -> list[Settable]:
    """The controls that work without a kernel: the step, the net, and what is shown of it."""
    steps = {str(step): step for step in recorded.steps}
    shown = {words: what for what, words in WHAT.items()}
    nets = {name: name for name in recorded.frames}
    return [
        Settable("step", steps, str(state.step), DistributionsState.at),
        Settable("net", nets, state.net, DistributionsState.of, slides=False),
        Settable("shown", shown, WHAT[state.what], DistributionsState.by, slides=False),
    ]
