"""The panel of notebook 16: the loss around a trained net, and where statistics come from."""

from typing import Any

import ipywidgets
import plotly.graph_objects as go

from lnlab.figures.playable import playable
from lnlab.figures.terrain import (
    Traces,
    cuts_layout,
    cuts_traces,
    plane_layout,
    plane_traces,
)
from lnlab.figures.terrain import cuts as drawn_cuts
from lnlab.figures.terrain import plane as drawn_plane
from lnlab.figures.text import titled

from .controls import choice, choice_slider, in_columns, log_slider
from .live_plot import LivePlot
from .panel import Drawing, Panel, View
from .terrain import (
    EXTENTS,
    FOLLOW,
    NORMALIZERS,
    SEEDS,
    Terrain,
    conditions,
    cuts,
    plane,
    sentence,
)
from .transformed import MODES

ABOUT_LINES = "The loss of a trained net along five random lines through its weights"
ABOUT_PLANE = "The loss of a trained net on a plane through its weights, as a surface"


def landscape(**settings: Any) -> Panel:
    """The loss around a trained net: re-scale its weights, and choose whose statistics hold.

    Args:
        settings: fields of :class:`~lnlab.panels.terrain.Terrain`; with none, the panel
            starts where Reset returns to.
    """
    state = Terrain(**settings)
    arrangement, controls = arranged()
    plots = {
        "lines": LivePlot(drawn_cuts(cuts(state)), ABOUT_LINES, least_width=600),
        "plane": LivePlot(drawn_plane(plane(state)), ABOUT_PLANE, least_width=600),
    }
    return Panel("landscape", "16", state, controls, arrangement, plots, look, still)


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizer": choice("normalizer", [(name, name) for name in NORMALIZERS]),
        "statistics": choice("statistics", sources),
        "size": log_slider("W times", -1, 1),
        "lengths": choice("directions", [(words, name) for name, words in FOLLOW.items()]),
        "extent": choice_slider("extent", [(f"{extent:g}", extent) for extent in EXTENTS]),
        "seed": choice_slider("seed", [(str(seed), seed) for seed in SEEDS]),
    }

    def enable(change: dict[str, Any]) -> None:
        controls["statistics"].disabled = change["new"] != "batch"

    controls["normalizer"].observe(enable, "value")
    enable({"new": controls["normalizer"].value})
    widgets = [*controls.values()]
    return in_columns(widgets[:3], widgets[3:]), controls


def look(state: Terrain) -> View:
    """What the panel shows of a state."""
    lines = cuts(state)
    return View(
        sentence=sentence(state),
        drawings={"lines": Drawing(cuts_traces(lines), cuts_layout(lines))},
        late={"plane": lambda: turned(state)},
    )


def turned(state: Terrain) -> Drawing:
    """The plane of a state: 441 losses take longer than one step of a slider may."""
    losses = plane(state)
    return Drawing(plane_traces(losses), plane_layout(losses))


def still(state: Terrain, play: bool) -> list[go.Figure]:
    """The figures of a state; with ``play``, the lines have a slider over the statistics."""
    lines, losses = drawn_cuts(cuts(state)), drawn_plane(plane(state))
    if play:
        frames = {MODES[mode].name.lower(): frame(state.by(mode)) for mode in MODES}
        lines = playable(lines, frames, "statistics ", [*MODES].index(state.statistics))
        lines.update_layout(axes(state))
    return [titled(lines, conditions(state)), titled(losses, conditions(state))]


def frame(state: Terrain) -> Traces:
    """The lines of a state."""
    return cuts_traces(cuts(state))


def axes(state: Terrain) -> dict[str, Any]:
    """Axes that hold the lines of all statistics, and no stamp: the slider says which."""
    every = [line for mode in MODES for line in cuts(state.by(mode))]
    layout = cuts_layout(every)
    # room for the last word of the slider
    return layout | {"annotations": [], "margin": {"r": 48}}
