"""The panel of notebook 16: the loss around a trained net, and where statistics come from."""

from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.landscape
from lnlab.panels.choices import MODES
from lnlab.panels.landscape.measurement import measure, plane
from lnlab.panels.landscape.state import EXTENTS, FOLLOW, NORMALIZERS, SEEDS, LandscapeState
from lnlab.panels.landscape.words import conditions, sentence
from lnlab.panels.widgets.controls import choice, choice_slider, in_columns, lock, log_slider
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable
from lnlab.panels.widgets.view import Drawing, View

ABOUT = {
    "lines": "The loss of a trained net along five random lines through its weights",
    "plane": "The loss of a trained net on a plane through its weights, as a surface",
}


def landscape(**settings: Any) -> Panel:
    """The loss around a trained net: re-scale its weights, and choose whose statistics hold.

    Args:
        settings: fields of :class:`LandscapeState`: where the panel starts, and what Reset
            returns to.
    """
    state = LandscapeState(**settings)
    return Panel(
        "landscape", "16", state, *arranged(), ABOUT, look, drawn, settable, least_width=600
    )


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
        why = "" if over_cases(change["new"]) else "only batch norm takes them over cases"
        lock(controls["statistics"], why)

    widgets = [*controls.values()]
    columns = in_columns(widgets[:3], widgets[3:])
    controls["normalizer"].observe(enable, "value")
    enable({"new": controls["normalizer"].value})
    return columns, controls


def over_cases(normalizer: str) -> bool:
    """True for what takes statistics over cases, whose source is then a question."""
    return normalizer == "batch"


def look(state: LandscapeState) -> View:
    """The view of a state."""
    measurement = measure(state)
    lines = measurement.lines
    return View(
        sentence=sentence(measurement),
        titles=dict.fromkeys(("lines", "plane"), conditions(state)),
        drawings={
            "lines": Drawing(
                lnlab.figures.landscape.cuts_traces(lines, state.normalizer),
                lnlab.figures.landscape.cuts_layout(lines, over_cases(state.normalizer)),
            )
        },
        late={"plane": lambda: turned(state)},
    )


def turned(state: LandscapeState) -> Drawing:
    """The plane of a state: 441 losses take longer than one step of a slider may."""
    losses = plane(state)
    layout = lnlab.figures.landscape.plane_layout(losses, over_cases(state.normalizer))
    return Drawing(lnlab.figures.landscape.plane_traces(losses), layout)


def drawn(state: LandscapeState) -> dict[str, go.Figure]:
    """The figures of a state."""
    taken = over_cases(state.normalizer)
    lines = lnlab.figures.landscape.cuts(measure(state).lines, state.normalizer, taken)
    return {"lines": lines, "plane": lnlab.figures.landscape.plane(plane(state), taken)}


def settable(state: LandscapeState) -> list[Settable]:
    """The control that works without a kernel: where statistics over cases come from."""
    sources = {statistics.value: name for name, statistics in MODES.items()}
    at = MODES[state.statistics].value
    return [Settable("statistics", sources, at, LandscapeState.by, slides=False)]
