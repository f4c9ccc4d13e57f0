"""The panel of notebook 15: distributions through depth, at every step of a training."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets
import plotly.graph_objects as go

from lnlab.figures.depth import depth, depth_layout, depth_traces
from lnlab.figures.playable import playable
from lnlab.figures.text import titled

from .controls import Chips, choice, choice_slider, in_columns
from .live_plot import LivePlot
from .panel import Drawing, Panel, View
from .scrubbed import MOST, WHAT, Recorded, Scrubbed, conditions, sentence

if TYPE_CHECKING:
    import pandas as pd

ABOUT = (
    "Quantiles of the summed inputs, or of their gradients, of every layer of a net at one "
    "step of its training, a panel for each normalizer"
)


def distributions(frames: "Mapping[str, Mapping[str, pd.DataFrame]]", **settings: Any) -> Panel:
    """Drag through a training, and see the distributions of all layers change.

    Args:
        frames: by kind of net and by arm, what a recorder gives.
        settings: fields of :class:`~lnlab.panels.scrubbed.Scrubbed`: where the panel starts,
            and what Reset returns to.

    Raises:
        ValueError: for what was not recorded.
    """
    recorded = Recorded(frames)
    state = recorded.whole(Scrubbed(**settings))
    arrangement, controls = arranged(recorded)
    plots = {"depth": LivePlot(drawn(recorded, state), ABOUT, least_width=860)}
    see, keep = partial(look, recorded), partial(still, recorded)
    return Panel("distributions", "15", state, controls, arrangement, plots, see, keep)


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


def drawn(recorded: Recorded, state: Scrubbed) -> go.Figure:
    """The figure of a state."""
    return depth(recorded.sections(state), reach=recorded.reach(state), y=WHAT[state.what])


def look(recorded: Recorded, state: Scrubbed) -> View:
    """What the panel shows of a state."""
    sections = recorded.sections(state)
    layout = depth_layout(sections, reach=recorded.reach(state), y=WHAT[state.what])
    drawing = Drawing(depth_traces(sections), layout)
    return View(sentence(recorded, state), {"depth": drawing})


def still(recorded: Recorded, state: Scrubbed, play: bool) -> list[go.Figure]:
    """The figure of a state; with ``play`` it has a slider over the steps."""
    figure = drawn(recorded, state)
    if play:
        frames = {
            str(step): {
                name: {key: new[key] for key in ("x", "y")}
                for name, new in depth_traces(recorded.sections(state.at(step))).items()
                if new["visible"]
            }
            for step in recorded.steps
        }
        figure = playable(figure, frames, "step ", list(recorded.steps).index(state.step))
    return [titled(figure, conditions(state))]
