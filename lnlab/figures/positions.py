"""Statistics of units by their place in a map, as pictures of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import (
    SIZES,
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    literal,
    side_by_side,
    text_above,
)

SLOTS = 3
"""The number of maps in a picture."""
PANELS = side_by_side(SLOTS, 0.09)
"""The left and right ends of each: a map alone is no wider than one of three."""

Reaches = Mapping[str, float]
"""The ends of the colours of each map, by its name; they begin at 0."""


def positions(maps: Mapping[str, np.ndarray], *, reaches: Reaches) -> go.Figure:
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
