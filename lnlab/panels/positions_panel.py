"""The panel of notebook 05: units by their place in a map."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.analysis.feature_maps import Contrast, Maps, contrast, over_units
from lnlab.figures.style import (
    SIZES,
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    literal,
    number,
    side_by_side,
    text_above,
)
from lnlab.panels.controls import choice, in_columns, one_of
from lnlab.panels.panel import Drawing, Panel, Settable, View

# The state of the positions panel: one layer of one net at one time.


@dataclass(frozen=True)
class PositionsState:
    """One of the maps; "" is the first there is.

    Attributes:
        norm: the arm.
        padding: what stands around the maps.
        time: before or after the training.
        layer: which convolution.
    """

    norm: str = ""
    padding: str = ""
    time: str = ""
    layer: str = ""

    def of(self, norm: str) -> "PositionsState":
        """The same of another arm."""
        return replace(self, norm=norm)

    def within(self, padding: str) -> "PositionsState":
        """The same with another padding."""
        return replace(self, padding=padding)

    def at(self, time: str) -> "PositionsState":
        """The same at another time."""
        return replace(self, time=time)

    def through(self, layer: str) -> "PositionsState":
        """The same of another layer."""
        return replace(self, layer=layer)


# Maps of statistics that were measured: a pure function of the panel's state.


Found = Mapping[tuple[str, str, str], Mapping[str, Maps]]
"""Maps by arm, padding and time, and by layer."""

FIELDS = ("norm", "padding", "time", "layer")
WORDS = {
    "on": "part of cases a unit is on",
    "mean": "distance of the mean (deviations)",
    "deviation": "deviation (of the unit's)",
}
"""The statistics, in the words above their maps."""


class PositionsMeasurement(NamedTuple):
    """The maps of a state, (height, width) by name, where their colours end, and the border
    beside the middle."""

    maps: dict[str, np.ndarray]
    reaches: dict[str, float]
    contrast: Contrast


class Atlas:
    """Maps of several nets, ready to be looked at.

    Args:
        found: as :func:`lnlab.analysis.feature_maps.maps` gives them; every arm with every
            padding, at every time, with the same layers.

    Raises:
        ValueError: where there is nothing, or one of these is not there.
    """

    def __init__(self, found: Found) -> None:
        keys = [(*net, layer) for net, layers in found.items() for layer in layers]
        if not keys:
            raise ValueError("there are no maps: give those of one net, at least.")
        columns = zip(*keys, strict=True)
        self.values = {
            name: tuple(dict.fromkeys(column))
            for name, column in zip(FIELDS, columns, strict=True)
        }
        whole = np.prod([len(values) for values in self.values.values()])
        if len(keys) < whole:
            raise ValueError(
                f"{len(keys)} maps of {whole}: each arm needs each padding, time and layer."
            )
        self._maps = {
            key: {WORDS[n]: m.numpy() for n, m in over_units(found[key[:3]][key[3]]).items()}
            for key in keys
        }
        self._contrasts = {key: contrast(found[key[:3]][key[3]]) for key in keys}
        self.reaches = {
            word: float(max(maps[word].max() for maps in self._maps.values())) or 1.0
            for word in WORDS.values()
        }

    def whole(self, state: PositionsState) -> PositionsState:
        """A state with everything said.

        Raises:
            ValueError: for what was not measured.
        """
        said = {}
        for name, values in self.values.items():
            said[name] = getattr(state, name) or values[0]
            one_of(name, said[name], values)
        return PositionsState(**said)

    def at(self, state: PositionsState) -> PositionsMeasurement:
        """The maps of a state."""
        key = (state.norm, state.padding, state.time, state.layer)
        return PositionsMeasurement(self._maps[key], self.reaches, self._contrasts[key])


def measure(atlas: Atlas, state: PositionsState) -> PositionsMeasurement:
    """The maps of a state; the one way into this room for a move."""
    return atlas.at(state)


# The sentence of the positions panel: the border beside the middle.


def conditions(state: PositionsState) -> str:
    """The title: which layer of which net, and when."""
    return f"{state.layer}, norm {state.norm}, padding {state.padding}, {state.time}"


def sentence(measurement: PositionsMeasurement) -> str:
    """The shares of units that are on at the border and in the middle, and their distance."""
    found = measurement.contrast
    return (
        f"At the border a unit is on in {100 * found.border:.0f} % of the cases, in the middle "
        f"in {100 * found.middle:.0f} %; the means of its summed inputs are "
        f"{number(found.shift)} deviations apart."
    )


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
    return {"positions": positions_figure(found.maps, reaches=found.reaches)}


def look(atlas: Atlas, state: PositionsState) -> View:
    """The view of a state."""
    found = measure(atlas, state)
    traces = positions_traces(found.maps, reaches=found.reaches)
    return View(
        sentence=sentence(found),
        titles={"positions": conditions(state)},
        drawings={"positions": Drawing(traces, positions_layout(found.maps))},
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


# Statistics of units by their place in a map, as pictures of it.


SLOTS = 3
"""The number of maps in a picture."""
PANELS = side_by_side(SLOTS, 0.09)
"""The left and right ends of each: a map alone is no wider than one of three."""

Reaches = Mapping[str, float]
"""The ends of the colours of each map, by its name; they begin at 0."""


def positions_figure(maps: Mapping[str, np.ndarray], *, reaches: Reaches) -> go.Figure:
    """Maps side by side, each with a scale of colours of its own, from 0 on.

    Args:
        maps: (height, width) by name; at most three.
        reaches: where the colours of each end.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 330})
    for slot in range(SLOTS):
        figure.add_heatmap(
            name=f"map {slot}", xaxis=f"x{slot + 1}", yaxis=f"y{slot + 1}", colorscale=SIZES,
            zmin=0, hovertemplate="row %{y}, column %{x}: %{z:.3g}<extra></extra>",
        )  # fmt: skip
    fill(figure, positions_traces(maps, reaches=reaches))
    return figure.update_layout(positions_layout(maps))


def positions_traces(maps: Mapping[str, np.ndarray], *, reaches: Reaches) -> Traces:
    """The traces of :func:`positions`."""
    traces = {}
    for slot, (name, values) in enumerate(maps.items()):
        bar = {"x": PANELS[slot][1] + 0.005, "len": 1.0, "thickness": 10, "xpad": 2}
        traces[f"map {slot}"] = {
            "z": np.asarray(values), "zmax": reaches[name], "colorbar": bar, "visible": True,
        }  # fmt: skip
    return traces | {f"map {slot}": {"visible": False} for slot in range(len(maps), SLOTS)}


def positions_layout(maps: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The axes and titles of :func:`positions`."""
    layout: dict[str, Any] = {"margin": {"l": 20, "r": 50, "t": 44, "b": 20}}
    names, annotations = [*maps], []
    for slot in range(SLOTS):
        axis, shown = axis_number(slot), slot < len(names)
        left, right = PANELS[slot]
        bare = {"visible": False, "fixedrange": True}
        layout[f"xaxis{axis}"] = bare | {"domain": [left, right], "anchor": f"y{axis}"}
        layout[f"yaxis{axis}"] = bare | {"anchor": f"x{axis}"}
        if shown:
            height, width = np.shape(maps[names[slot]])
            layout[f"xaxis{axis}"] |= {"range": [-0.5, width - 0.5]}
            layout[f"yaxis{axis}"] |= {"range": [height - 0.5, -0.5]}  # the first row on top
            middle = (left + right) / 2
            annotations.append(text_above(literal(names[slot]), middle, 8, "center", {}))
    return layout | {"annotations": annotations}
