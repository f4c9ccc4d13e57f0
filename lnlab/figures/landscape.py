"""The loss along lines through a minimum.

``made_on`` is what data and hardware a figure is of, and is printed below it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lnlab.figures.curves import name_groups_once_in_legend
from lnlab.figures.style import (
    GREY,
    INK,
    SIZES,
    TEMPLATE,
    VERMILLION,
    add_footnote,
    band,
    escape,
    legend_rank,
    line_colors_and_widths,
    log_axis,
)

# On each picture stands where BatchNorm's statistics come from at its points, without which
# nobody can know what was drawn.

LOSS = "loss (nats)"

BN_STATS = {
    "batch": "of the batch",
    "running": "frozen (running averages)",
    "recomputed": "recomputed over all examples at each point",
}
"""The sources of statistics over examples at a point of a landscape, in words."""


Landscape = Any
"""A loss landscape to draw: :class:`lnlab.analysis.landscape.LossLandscape`."""


def describe_statistics_sources(landscapes: Sequence[Landscape]) -> str:
    """Return the sources of statistics over examples, each that is there once."""
    sources = dict.fromkeys(each.bn_stats for each in landscapes if each.bn_stats)
    words = "; ".join(BN_STATS[source] for source in sources)
    return f"Statistics over examples: {words}." if words else "No statistics over examples."


def log10_loss_range(landscapes: Sequence[Landscape] | Any) -> tuple[float, float]:
    """Return the least and the greatest loss that is drawn, in powers of 10."""
    losses = np.concatenate([np.asarray(each.losses).ravel() for each in landscapes])
    losses = losses[np.isfinite(losses) & (losses > 0)]
    if not len(losses):
        return -1.0, 1.0
    low, high = np.log10(losses.min()), np.log10(losses.max())
    return float(low), float(max(high, low + 0.1))


def title_with_subtitle(title: str, subtitle: str) -> str:
    """Return the HTML of a title, and of a line in small print below it."""
    return f"{escape(title)}<br><sup>{escape(subtitle)}</sup>"


def loss_lines_and_range_bands(
    panels: Mapping[str, Mapping[str, Sequence[Landscape]]], *, x: str, made_on: str
) -> go.Figure:
    """Draw lines through a minimum in several directions, and a band that holds them.

    Args:
        panels: by title the lines of each name, of one kind of statistics.
    """
    every = {
        title: [line for lines in panel.values() for line in lines]
        for title, panel in panels.items()
    }
    titles = [
        title_with_subtitle(title, describe_statistics_sources(lines))
        for title, lines in every.items()
    ]
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=titles)
    styles = line_colors_and_widths(name for panel in panels.values() for name in panel)
    for column, panel in enumerate(panels.values(), start=1):
        for name, lines in panel.items():
            figure.add_traces(loss_lines_and_band_traces(name, lines, styles[name]), 1, column)
    losses = [each.losses for lines in every.values() for each in lines]
    figure.update_xaxes(title_text=escape(x)).update_yaxes(log_axis(losses))
    figure.update_yaxes(title_text=LOSS, col=1)
    figure.update_layout(template=TEMPLATE, height=460, legend={"y": 1.14}, margin={"t": 105})
    name_groups_once_in_legend(figure)
    return add_footnote(
        figure,
        f"{made_on}. Thin lines: losses along one direction each; "
        "band: smallest to largest loss.",
    )


def loss_lines_and_band_traces(
    name: str, lines: Sequence[Landscape], line_style: Mapping[str, Any]
) -> list[go.Scatter]:
    """Return the band of a few lines and each line, as traces of one group of the legend."""
    at = np.asarray(lines[0].coordinates[0])
    losses = np.stack([np.asarray(line.losses) for line in lines])
    text = escape(name)
    group = {"legendgroup": text, "name": text, "legendrank": legend_rank(name)}
    area = band(at, losses.min(0), losses.max(0), line_style["color"])
    flat = {"line": {"width": 0, "color": line_style["color"]}}
    thin = {
        "x": at, "mode": "lines", "line": {**line_style, "width": 1.2}, **group,
        "hovertemplate": f"{text}<br>%{{x:.3g}}: %{{y:.3g}}<extra></extra>",
    }  # fmt: skip
    spread = go.Scatter(area, **flat, **group, showlegend=False)
    return [spread, *(go.Scatter(thin, y=values) for values in losses)]


# The loss on planes through a minimum, and the path of a training on one.


AXES = ("direction 1", "direction 2")
HOVER = "%{x:.2f}, %{y:.2f}: %{customdata:.3g} nats<extra></extra>"


def loss_surfaces(panels: Mapping[str, Landscape], *, made_on: str) -> go.Figure:
    """Draw planes side by side on one scale of heights and colours, each to be turned."""
    # short: three stand side by side
    words = [BN_STATS.get(each.bn_stats or "", "") for each in panels.values()]
    titles = [*map(title_with_subtitle, panels, words)]
    scenes = [[{"type": "scene"}] * len(panels)]
    figure = make_subplots(
        1, len(panels), specs=scenes, subplot_titles=titles, horizontal_spacing=0.01
    )
    log10_loss_limits = log10_loss_range(panels.values())
    for column, each in enumerate(panels.values(), start=1):
        figure.add_traces(
            [loss_surface_trace(each, log10_loss_limits), centre_marker(each)], 1, column
        )
    figure.update_scenes(scene_layout(log10_loss_limits))
    small = {"tickfont": {"size": 10}, "title": {"font": {"size": 11}}}
    across = small | {"tickvals": [-1, 0, 1]} if len(panels) > 1 else small
    figure.update_scenes(xaxis=across, yaxis=across, zaxis=small | {"title": {"text": ""}})
    # nearer, as they are small, and a little down, to the names of the axes
    figure.update_scenes(camera_eye={"x": 1.3, "y": -1.4, "z": 0.87}, camera_center_z=-0.2)
    figure.update_layout(template=TEMPLATE, height=400, margin={"t": 60, "l": 10, "r": 10})
    subtitles = "Subtitles: where statistics over examples come from. " if any(words) else ""
    text = f"Height: loss (nats). {subtitles}Dot: the weights w. Drag to turn."
    return add_footnote(figure, f"{made_on}. {text}")


def loss_surface_trace(
    landscape: Landscape, log10_loss_color_limits: tuple[float, float]
) -> go.Surface:
    """Return a plane of losses as a surface, coloured by its height."""
    return go.Surface(
        **surface_coordinates_and_log_losses(landscape), name="losses", colorscale=SIZES,
        showscale=False,
        cmin=log10_loss_color_limits[0], cmax=log10_loss_color_limits[1],
        hovertemplate=HOVER,
        contours={"z": {"show": True, "usecolormap": True, "size": 0.2}},
    )  # fmt: skip


def surface_coordinates_and_log_losses(landscape: Landscape) -> dict[str, np.ndarray]:
    """Return the heights of a plane, logarithms, and the losses that a pointer shows."""
    x, y = (np.asarray(at) for at in landscape.coordinates)
    losses = np.asarray(landscape.losses).T  # plotly's rows run along y
    if (losses < 0).any():
        raise ValueError(
            f"losses go down to {losses[losses < 0].min():.3g}, and heights of a plane are "
            "logarithms of losses: add a constant to the loss, so that all losses are positive."
        )
    with np.errstate(divide="ignore"):
        return {"x": x, "y": y, "z": np.log10(losses), "customdata": losses}


def centre_marker(landscape: Landscape) -> go.Scatter3d:
    """Return the marker of w, in the middle of a plane."""
    zero = np.zeros(1)
    return go.Scatter3d(
        x=zero, y=zero, z=zero + float(np.log10(landscape.centre_loss)), mode="markers",
        name="w", text=[f"{landscape.centre_loss:.3g}"],
        hovertemplate="w: %{text} nats<extra></extra>",
        marker={"size": 5, "color": VERMILLION}, showlegend=False,
    )  # fmt: skip


def scene_layout(log10_loss_limits: tuple[float, float]) -> dict[str, Any]:
    """Return the axes of a plane: the loss in powers of 10, each labelled by its value."""
    ticks = range(-9, 10)
    zaxis = {
        "title": {"text": LOSS},
        "range": [log10_loss_limits[0] - 0.05, log10_loss_limits[1] + 0.05],
        "tickvals": [*ticks], "ticktext": [f"{10.0**tick:g}" for tick in ticks],
    }  # fmt: skip
    return {
        # few: seen from here more of them lie over each other
        "xaxis": {"title": {"text": AXES[0]}, "nticks": 5},
        "yaxis": {"title": {"text": AXES[1]}, "nticks": 5},
        "zaxis": zaxis,
        "camera": {"eye": {"x": 1.5, "y": -1.6, "z": 1.0}, "center": {"z": -0.12}},
        "aspectmode": "manual",
        "aspectratio": {"x": 1, "y": 1, "z": 0.75},
    }


def path_on_plane(
    landscape: Landscape,
    path: np.ndarray,
    *,
    explained_variance_ratio: Sequence[float],
    distances_from_plane: np.ndarray,
    made_on: str,
) -> go.Figure:
    """Draw a plane with the path of a training, and how far from the plane it went.

    Args:
        landscape: the losses on the plane.
        path: coordinates of the training (K, 2), its end at (0, 0).
        explained_variance_ratio: the fraction of the variance along each direction.
        distances_from_plane: of each point of the path (K,).
    """
    titles = [
        title_with_subtitle("loss on the plane", describe_statistics_sources([landscape])),
        "distances",
    ]
    figure = make_subplots(
        1, 2, subplot_titles=titles, column_widths=[0.6, 0.4], horizontal_spacing=0.2
    )
    figure.add_trace(
        go.Contour(
            **surface_coordinates_and_log_losses(landscape), colorscale=SIZES,
            colorbar={"title": {"text": "log<sub>10</sub>"}, "x": 0.49, "thickness": 14},
            hovertemplate=HOVER,
        ), 1, 1,
    )  # fmt: skip
    figure.add_scatter(
        x=path[:, 0], y=path[:, 1], mode="lines+markers", name="the training",
        line={"color": "white", "width": 2.5}, marker={"size": 4, "color": VERMILLION},
        row=1, col=1, hovertemplate="%{x:.2f}, %{y:.2f}<extra>the training</extra>",
    )  # fmt: skip
    lengths = {
        "distance from the plane": (distances_from_plane, INK),
        "distance from the end, in the plane": (np.linalg.norm(path, axis=1), GREY),
    }
    for name, (values, color) in lengths.items():
        figure.add_scatter(
            y=values, name=name, mode="lines", line={"color": color, "width": 2.5},
            hovertemplate=f"{name}: %{{y:.3g}}<extra></extra>", row=1, col=2,
        )  # fmt: skip
    updates = figure.update_xaxes, figure.update_yaxes
    for update, part, axis in zip(updates, explained_variance_ratio, "12", strict=True):
        update(title_text=f"component {axis}: {part:.0%} of the variance", row=1, col=1)
    figure.update_xaxes(title_text="point of the path", row=1, col=2)
    figure.update_yaxes(title_text="distance", row=1, col=2)
    figure.update_layout(
        template=TEMPLATE, height=490, legend={"x": 0, "y": 1.2}, margin={"t": 125},
    )  # fmt: skip
    return add_footnote(figure, f"{made_on}. Color: the loss (nats), as a power of 10.")
