"""The panel of notebook 05: units by their place in a map."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.analysis.feature_maps import MapStatistics, contrast, mean_over_units
from lnlab.figures.style import (
    SIZES,
    TEMPLATE,
    axes,
    literal,
    number,
    padded,
    side_by_side,
    slot_trace,
    text_above,
)
from lnlab.panels.controls import choice, one_of
from lnlab.panels.panel import Panel, Shown
from lnlab.panels.playable import Figure

LABELS = {"norm": "normalizer", "padding": "padding", "time": "when", "layer": "layer"}
"""The fields of a state, and what stands beside their controls."""

WORDS = {
    "on": "part of cases a unit is on",
    "mean": "distance of the mean (deviations)",
    "deviation": "deviation (of the unit's)",
}
"""The statistics, in the words above their maps."""

SLOTS = 3


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


def positions(
    measured: Mapping[tuple[str, str, str], Mapping[str, MapStatistics]], **settings: Any
) -> Panel:
    """Return the panel of units by their position in a map.

    Args:
        measured: of :func:`lnlab.analysis.feature_maps.map_statistics`, by (arm, padding, time)
            and by layer: every combination of them.
        settings: fields of :class:`PositionsState` to start with; Reset returns to them.

    Raises:
        ValueError: for what was not measured.
    """
    maps = {
        (*net, layer): it for net, layers in measured.items() for layer, it in layers.items()
    }
    if not maps:
        raise ValueError("there are no maps: give those of one net, at least.")
    options = {
        field: [*dict.fromkeys(column)]
        for field, column in zip(LABELS, zip(*maps, strict=True), strict=True)
    }
    count = len([*product(*options.values())])
    if len(maps) < count:
        raise ValueError(
            f"{len(maps)} maps of {count}: each arm needs each padding, time and layer."
        )
    arrays = {
        key: {WORDS[name]: array.numpy() for name, array in mean_over_units(of).items()}
        for key, of in maps.items()
    }
    reaches = {
        words: float(max(of[words].max() for of in arrays.values())) or 1.0
        for words in WORDS.values()
    }
    contrasts = {key: contrast(of) for key, of in maps.items()}

    def show(state: PositionsState) -> Shown:
        key = (state.norm, state.padding, state.time, state.layer)
        it = contrasts[key]
        sentence = (
            f"At the border a unit is on in {100 * it.border:.0f} % of the cases, in the "
            f"middle in {100 * it.middle:.0f} %; the means of its summed inputs are "
            f"{number(it.shift)} deviations apart."
        )
        title = f"{state.layer}, norm {state.norm}, padding {state.padding}, {state.time}"
        return Shown(maps_figure(arrays[key], reaches), title, sentence)

    chosen = {
        field: value or options[field][0]
        for field, value in zip(LABELS, astuple(PositionsState(**settings)), strict=True)
    }
    for field, value in chosen.items():
        one_of(field, value, options[field])
    controls = {field: choice(LABELS[field], options[field]) for field in LABELS}
    alt = (
        "How often the units of a convolution are on at each place of its map, and how the "
        "mean and the deviation of their summed inputs differ from those of the whole map"
    )
    return Panel(
        PositionsState(**chosen), controls, show, alt={"positions": alt}, notebook="05",
        on_page=[*LABELS],
    )  # fmt: skip


def positions_figure(
    maps: Mapping[str, np.ndarray], *, reaches: Mapping[str, float]
) -> go.Figure:
    """Return maps side by side, each with a scale of colours of its own, from 0 on.

    Args:
        maps: (height, width) by name; at most three.
        reaches: where the colours of each end.
    """
    return go.Figure(maps_figure(maps, reaches))


def maps_figure(maps: Mapping[str, np.ndarray], reaches: Mapping[str, float]) -> Figure:
    """Return the figure of maps; a map alone is no wider than one of three."""
    data, notes = [], []
    layout: dict[str, Any] = {
        "template": TEMPLATE, "height": 330, "margin": {"l": 20, "r": 50, "t": 44, "b": 20},
    }  # fmt: skip
    bare = {"visible": False, "fixedrange": True}
    for slot, name in enumerate(padded(maps, SLOTS)):
        left, right = side_by_side(SLOTS, 0.09)[slot]
        x, y, values = bare | {"domain": [left, right]}, bare, None
        if name is not None:
            height, width = np.shape(maps[name])
            x |= {"range": [-0.5, width - 0.5]}
            y = bare | {"range": [height - 0.5, -0.5]}  # the first row on top
            bar = {"x": right + 0.005, "len": 1.0, "thickness": 10, "xpad": 2}
            values = {"z": np.asarray(maps[name]), "zmax": reaches[name], "colorbar": bar}
            notes.append(text_above(literal(name), (left + right) / 2, 8, "center", {}))
        layout |= axes(slot, x, y)
        hover = "row %{y}, column %{x}: %{z:.3g}<extra></extra>"
        data.append(slot_trace(
            "heatmap", f"map {slot}", slot, values, colorscale=SIZES, zmin=0,
            hovertemplate=hover,
        ))  # fmt: skip
    return {"data": data, "layout": layout | {"annotations": notes}}
