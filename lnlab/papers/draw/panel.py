"""The panel of notebook 11: how nets draw a picture, glimpse by glimpse, while they learn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lnlab.figures.style import (
    GREY,
    ORANGE,
    QUIET,
    VERMILLION,
    axis_name_suffix,
    base_layout,
    escape,
    subplot_axes,
    text_annotation,
    trace,
)
from lnlab.panels.controls import dropdown, options_slider
from lnlab.panels.panel import LastIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.draw.evaluate import saved_glimpse_indices
from lnlab.papers.pictures import nearest_value, read_first_seed_metrics_and_pictures
from lnlab.training.runs import Run

COLUMNS = {
    "looked": ((0.0, 0.27), "picture, read window"),
    "canvas": ((0.31, 0.58), "canvas, write window"),
    "dreams": ((0.66, 1.0), "generated pictures"),
}
"""The columns of pictures: the horizontal extent of each, and its title."""
WINDOWS = {"looked": VERMILLION, "canvas": ORANGE}
"""The columns in which a window is drawn, and the color of that window."""
ROW, GAP, HEAD = 260, 50, 24
"""Heights in pixels: of a network's pictures, of the gap between networks, of the titles."""
AROUND = 0.3
"""The margin around a picture, as a fraction of its side: windows extend beyond pictures."""


OneBasedGlimpse = int


@dataclass(frozen=True)
class DrawingPanelSettings:
    """One picture after one of its glimpses, at one moment of the training."""

    picture: int = 0  # which one, from 0
    glimpse: LastIfNone[OneBasedGlimpse] = None  # how many there were
    update: LastIfNone[int] = None  # one at which drawings were kept


PixelsCountedFrom1 = float


class FilterGrid(NamedTuple):
    """The place of the N x N filters of a window, in pixels counted from 1."""

    center_x: PixelsCountedFrom1
    center_y: PixelsCountedFrom1
    stride: float  # from one filter to the next
    sigma: float  # the deviation of a filter
    filters_per_side: int  # N


def drawing(runs: Mapping[str, Run], pictures: np.ndarray, **settings: Any) -> Panel:
    """Return the panel of drawings, by glimpse and update of several models.

    Args:
        runs: by name, of the task ``draw``; of several seeds the first counts.
        pictures: the validation pictures of their data (N, height, width), 0 to 255.
        settings: initial fields of :class:`DrawingPanelSettings`; Reset restores them.
    """
    rows, arrays = read_first_seed_metrics_and_pictures(runs, "nets")
    lengths = {run.config["glimpses"] for run in runs.values()}
    if len(lengths) > 1:
        raise ValueError(
            f"these runs have different numbers of glimpses, {sorted(lengths)}: "
            "choose runs with the same number of glimpses."
        )
    glimpses = [t + 1 for t in saved_glimpse_indices(*lengths)]
    first = next(iter(arrays.values()))
    updates = sorted(first)
    pictures = pictures[: first[updates[0]]["canvas"].shape[1]]

    def draw(settings: DrawingPanelSettings) -> TitledFigure:
        text_and_traces_by_net, bounds, t = {}, [], glimpses.index(settings.glimpse)
        for name, metrics in rows.items():
            update = nearest_value(sorted(arrays[name]), settings.update)
            row: Any = metrics[metrics["update"] == update].iloc[-1]
            saved, config = arrays[name][update], runs[name].config
            look, write = (
                window[:, t, settings.picture].tolist() for window in saved["windows"]
            )
            text = (
                f"validation loss {row.valid_bound:.1f} nats, KL part {row.valid_kl:.1f} nats"
            )
            text_and_traces_by_net[name] = (
                text,
                {
                    "looked": pixel_trace(pictures[settings.picture]),
                    "looked window": window_and_filter_centers_trace(
                        FilterGrid(*look, filters_per_side=config["read_size"])
                    ),
                    "canvas": pixel_trace(saved["canvas"][t, settings.picture]),
                    "canvas window": window_and_filter_centers_trace(
                        FilterGrid(*write, filters_per_side=config["write_size"])
                    ),
                    "dreams": pixel_trace(tile_images(saved["dreams"])),
                },
            )
            bounds.append(f"{name} {row.valid_bound:.1f}")
        sentence = (
            f"Canvas after glimpse {settings.glimpse}, drawn by networks trained for "
            f"{settings.update} updates. Validation loss of the networks, in nats per picture: "
            f"{'; '.join(bounds)}."
        )
        title = f"update {settings.update}, glimpse {settings.glimpse}"
        figure = pictures_canvases_and_dreams_figure(text_and_traces_by_net)
        return TitledFigure(figure, title, sentence)

    controls = {
        "glimpse": options_slider("glimpse", glimpses, start_at_last=True),
        "update": options_slider("update", updates, start_at_last=True),
        "picture": dropdown("picture", {f"number {k + 1}": k for k in range(len(pictures))}),
    }
    alt = (
        "For each network the picture that it reads with its read window, its canvas with its "
        "write window, and sixteen pictures that the network generates"
    )
    return Panel(
        make_settings(DrawingPanelSettings, settings), controls, draw, alt={"drawing": alt},
        notebook="11", on_page=[*controls],
    )  # fmt: skip


def pictures_canvases_and_dreams_figure(
    text_and_traces_by_net: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> Figure:
    """Return the picture and where a net looks, its canvas and where it writes, and dreams.

    Args:
        text_and_traces_by_net: by net, what stands above its pictures, and their traces.
    """
    pixel_height = len(text_and_traces_by_net) * (ROW + GAP) + HEAD
    layout = base_layout(pixel_height + 30, 12, 12, 20, 10)
    data, notes, edges = [], [], []
    window = {"mode": "lines+markers", "hoverinfo": "skip"}
    for slot, (name, (text, traces)) in enumerate(text_and_traces_by_net.items()):
        top = 1 - (HEAD + GAP - 26 + slot * (ROW + GAP)) / pixel_height
        y_domain = [max(0.0, top - ROW / pixel_height), top]
        notes.append(text_annotation(f"<b>{escape(name)}</b>  {escape(text)}", 0, top, 4))
        for column, (kind, (x_domain, _)) in enumerate(COLUMNS.items()):
            subplot = len(COLUMNS) * slot + column
            height, width = traces[kind]["z"].shape
            number, around = axis_name_suffix(subplot), 0.02 if kind == "dreams" else AROUND
            data.append(trace(
                "heatmap", f"{kind} {slot}", subplot, colorscale="Greys", zmin=0, zmax=255,
                showscale=False, hoverinfo="skip", **traces[kind],
            ))  # fmt: skip
            if kind in WINDOWS:
                line, outlined = {"color": WINDOWS[kind], "width": 2.5}, f"{kind} window"
                data.append(trace(
                    "scatter", f"{outlined} {slot}", subplot, line=line, **window,
                    **traces[outlined],
                ))  # fmt: skip
                edges.append({  # the picture's edge, for windows reach over it
                    "type": "rect", "xref": f"x{number}", "yref": f"y{number}",
                    "x0": 0.5, "x1": width + 0.5, "y0": 0.5, "y1": height + 0.5,
                    "line": {"color": GREY, "width": 1},
                })  # fmt: skip
            x_range = [0.5 - around * width, width + 0.5 + around * width]
            y_range = [height + 0.5 + around * height, 0.5 - around * height]
            fixed = QUIET | {"constrain": "domain"}
            y = {"domain": y_domain, "range": y_range, "scaleanchor": f"x{number}"}
            layout |= subplot_axes(
                subplot, fixed | {"domain": x_domain, "range": x_range}, fixed | y
            )
    for (left, _), words in COLUMNS.values():
        notes.append(text_annotation(words, left, 1 - HEAD / pixel_height, 4))
    return {"data": data, "layout": layout | {"annotations": notes, "shapes": edges}}


def pixel_trace(image: np.ndarray) -> dict[str, Any]:
    """Return an image whose pixels are counted from 1."""
    height, width = image.shape
    x, y = np.arange(1.0, width + 1), np.arange(1.0, height + 1)
    return {"z": np.asarray(image, np.uint8), "x": x, "y": y}


def window_and_filter_centers_trace(window: FilterGrid) -> dict[str, Any]:
    """Return the outline of a window and a dot for the middle of each filter.

    The outline lies a deviation around the outer filters; a dot is larger where its filter
    sees more.
    """
    half = (window.filters_per_side - 1) * window.stride / 2 + window.sigma
    corner = np.array([-1.0, 1, 1, -1, -1])
    middles = (
        np.arange(window.filters_per_side) - (window.filters_per_side - 1) / 2
    ) * window.stride
    across, down = (each.ravel() for each in np.meshgrid(middles, middles))
    # a gap before each dot, or a line would join them
    dots = np.full((2, 2 * window.filters_per_side**2), np.nan)
    dots[:, 1::2] = window.center_x + across, window.center_y + down
    large = float(np.rint(np.clip(4 + 2 * window.sigma, 4, 14)))
    return {
        "x": np.r_[window.center_x + half * corner, dots[0]],
        "y": np.r_[window.center_y + half * corner[[0, 0, 2, 2, 0]], dots[1]],
        "marker": {"size": [0.0] * 5 + [large] * dots.shape[1], "opacity": 0.75},
    }


def tile_images(images: np.ndarray) -> np.ndarray:
    """Return images (N, height, width) in rows of equally many, a pixel of paper between."""
    count, height, width = images.shape
    across = int(np.ceil(count**0.5))
    down = -(-count // across)
    framed = np.zeros((down * across, height + 1, width + 1), np.uint8)
    framed[:count, :height, :width] = images
    rows = framed.reshape(down, across, height + 1, width + 1).transpose(0, 2, 1, 3)
    return rows.reshape(down * (height + 1), -1)[:-1, :-1]
