"""The panel of notebook 05: units by their place in a map."""

from functools import partial
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.positions
from lnlab.panels.positions.measurement import Atlas, Found, measure
from lnlab.panels.positions.state import PositionsState
from lnlab.panels.positions.words import conditions, sentence
from lnlab.panels.widgets.controls import choice, in_columns
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable
from lnlab.panels.widgets.view import Drawing, View

ABOUT = {
    "positions": (
        "How often the units of a convolution are on at each place of its map, and how the "
        "mean and the deviation of their summed inputs differ from those of the whole map"
    ),
}
LABELS = {"norm": "normalizer", "padding": "padding", "time": "when", "layer": "layer"}


def positions(found: Found, **settings: Any) -> Panel:
    """Choose layer, normalizer and padding, and see what its border does.

    Args:
        found: maps by (arm, padding, time), and by layer: every combination of them.
        settings: fields of :class:`PositionsState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: for what was not measured.
    """
    atlas = Atlas(found)
    state = atlas.whole(PositionsState(**settings))
    return Panel(
        "positions", "05", state, *arranged(atlas), ABOUT,
        partial(look, atlas), partial(drawn, atlas), partial(settable, atlas),
    )  # fmt: skip


def arranged(atlas: Atlas) -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        name: choice(LABELS[name], [(value, value) for value in values])
        for name, values in atlas.values.items()
    }
    norm, padding, time, layer = controls.values()
    return ipywidgets.VBox([in_columns([norm, padding], [time, layer])]), controls


def drawn(atlas: Atlas, state: PositionsState) -> dict[str, go.Figure]:
    """The figure of a state."""
    found = measure(atlas, state)
    return {"positions": lnlab.figures.positions.positions(found.maps, reaches=found.reaches)}


def look(atlas: Atlas, state: PositionsState) -> View:
    """The view of a state."""
    found = measure(atlas, state)
    traces = lnlab.figures.positions.positions_traces(found.maps, reaches=found.reaches)
    return View(
        sentence=sentence(found),
        titles={"positions": conditions(state)},
        drawings={
            "positions": Drawing(traces, lnlab.figures.positions.positions_layout(found.maps))
        },
    )


def settable(atlas: Atlas, state: PositionsState) -> list[Settable]:
    """The controls that work without a kernel: all of them."""
    puts = {
        "norm": PositionsState.of, "padding": PositionsState.within,
        "time": PositionsState.at, "layer": PositionsState.through,
    }  # fmt: skip
    return [
        Settable(
            LABELS[name], {value: value for value in values}, getattr(state, name), puts[name],
            slides=False,
        )
        for name, values in atlas.values.items()
    ]  # fmt: skip
