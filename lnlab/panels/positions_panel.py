"""The panel of notebook 05: units by their place in a map."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from math import prod
from textwrap import fill
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.analysis.feature_maps import (
    PositionStatistics,
    border_contrast,
    dimensionless_map_per_statistic,
)
from lnlab.figures.style import (
    QUIET,
    SIZES,
    annotation_above,
    axis_name_suffix,
    base_layout,
    escape,
    format_number,
    side_by_side_domains,
    subplot_axes,
    trace,
)
from lnlab.panels.controls import dropdown
from lnlab.panels.panel import FirstIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure

LABELS = {
    "norm": "normalizer",
    "padding": "padding",
    "training_stage": "when",
    "layer": "layer",
}
"""The fields of the settings, and the labels of their controls."""

WORDS = {
    "active_fraction": "fraction of pictures in which a unit is on",
    "pre_activation_mean": "|mean − mean of the map|, in standard deviations",
    "pre_activation_std": "standard deviation, divided by that of the map",
}
"""The titles of the maps, by statistic."""

SLOTS = 3
LETTERS = 26
"""Characters per line of a map's title."""
HOVER = "row %{y}, column %{x}: %{z:.3g}<extra></extra>"

NormPaddingStage = tuple[str, str, str]
"""The normalizer, the padding and the training stage of a network."""
StatisticsByLayer = Mapping[str, PositionStatistics]


@dataclass(frozen=True)
class PositionsPanelSettings:
    """One of the maps; None is the first there is."""

    norm: FirstIfNone[str] = None  # the arm
    padding: FirstIfNone[str] = None  # what stands around the maps
    training_stage: FirstIfNone[str] = None  # before or after the training
    layer: FirstIfNone[str] = None  # which convolution


def positions(
    map_statistics: Mapping[NormPaddingStage, StatisticsByLayer],
    **settings: Any,
) -> Panel:
    """Return the panel of units by their position in a map.

    Args:
        map_statistics: results of :func:`lnlab.analysis.feature_maps.map_statistics`, by
            (norm, padding, training stage) and by layer, for every combination of these.
        settings: initial fields of :class:`PositionsPanelSettings`; Reset restores them.

    Raises:
        ValueError: for what was not measured.
    """
    maps = {
        (*net, layer): it
        for net, layers in map_statistics.items()
        for layer, it in layers.items()
    }
    if not maps:
        raise ValueError("there are no maps: give the maps of at least one network.")
    columns = dict(zip(LABELS, zip(*maps, strict=True), strict=True))
    options = {field: [*dict.fromkeys(column)] for field, column in columns.items()}
    count = prod(map(len, options.values()))
    if len(maps) < count:
        raise ValueError(
            f"only {len(maps)} maps of {count} were measured: each arm needs a map for each "
            "padding, time and layer."
        )
    arrays = {
        key: {
            WORDS[name]: array.numpy()
            for name, array in dimensionless_map_per_statistic(of).items()
        }
        for key, of in maps.items()
    }
    color_maxima = {
        words: float(max(of[words].max() for of in arrays.values())) or 1.0
        for words in WORDS.values()
    }
    contrasts = {key: border_contrast(of) for key, of in maps.items()}

    def draw(settings: PositionsPanelSettings) -> TitledFigure:
        key = astuple(settings)
        contrast = contrasts[key]
        border, center = 100 * contrast.border_active, 100 * contrast.center_active
        sentence = (
            f"On average over the units, a unit is on in {border:.0f} % of pictures "
            f"at the border of its map, and in {center:.0f} % in the middle. A unit's "
            "mean pre-activations at the border and in the middle differ by "
            f"{format_number(contrast.border_shift)} standard deviations."
        )
        which = f"{settings.layer}, norm {settings.norm}, padding {settings.padding}"
        title = f"{which}, {settings.training_stage}"
        return TitledFigure(maps_figure_dict(arrays[key], color_maxima), title, sentence)

    alt = (
        "Three maps, averages over the units of a convolution: at each position, the fraction "
        "of pictures in which a unit is on, and how the mean and the standard deviation of "
        "its pre-activations there differ from those over the whole map"
    )
    return Panel(
        make_settings(PositionsPanelSettings, settings),
        {field: dropdown(LABELS[field], options[field]) for field in LABELS}, draw,
        alt={"positions": alt}, notebook="05", on_page=[*LABELS],
    )  # fmt: skip


def positions_figure(
    maps: Mapping[str, np.ndarray], *, color_maxima: Mapping[str, float]
) -> go.Figure:
    """Return maps side by side, each with a scale of colours of its own, from 0 on.

    Args:
        maps: (height, width) by name; at most three.
        color_maxima: for each map, the value at the upper end of its colour scale.
    """
    return go.Figure(maps_figure_dict(maps, color_maxima))


def maps_figure_dict(
    maps: Mapping[str, np.ndarray], color_maxima: Mapping[str, float]
) -> Figure:
    """Return the figure of maps as plain data; a map alone is no wider than one of three."""
    data, notes, layout = [], [], base_layout(280, 20, 50, 60, 20)
    for slot, (name, values) in enumerate(maps.items()):
        left, right = side_by_side_domains(SLOTS, 0.09)[slot]
        height, width = np.shape(values)
        data.append(trace(
            "heatmap", f"map {slot}", slot, z=np.asarray(values), colorscale=SIZES,
            zmin=0, zmax=color_maxima[name], hovertemplate=HOVER,
            colorbar={"x": right + 0.005, "len": 1.0, "thickness": 10, "xpad": 2},
        ))  # fmt: skip
        words = fill(escape(name), LETTERS).replace("\n", "<br>")
        notes.append(annotation_above(words, (left + right) / 2, 8, "center", {}))
        x = {"domain": [left, right], "range": [-0.5, width - 0.5]}
        square = {"scaleanchor": f"x{axis_name_suffix(slot)}", "constrain": "domain"}
        # the first row is on top
        y = {"range": [height - 0.5, -0.5], "constraintoward": "top"} | square
        layout |= subplot_axes(slot, QUIET | x, QUIET | y)
    # narrower, the maps would be much lower than their colour bars
    return {"data": data, "layout": layout | {"annotations": notes, "meta": {"width": 640}}}
