"""A plotly figure that lives in a notebook: traces made once, then patched in place."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import plotly.graph_objects as go
import traitlets
from plotly.offline import get_plotlyjs_version

from lnlab.panels.playable import Figure

HERE = Path(__file__).parent


class PlotlyScript(ipywidgets.Widget):
    """plotly.js as the state of one model per kernel, from which every plot of a page draws.

    As state it reaches the page when it is made, also in the middle of a busy cell, and
    again when the page is reloaded; a request from the page would wait for the kernel.
    """

    packed = traitlets.Bytes().tag(sync=True)
    version = traitlets.Unicode().tag(sync=True)


@cache
def plotly_script() -> PlotlyScript:
    """Return the one copy of plotly.js of this kernel: plotly's own file, compressed."""
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    packed = gzip.compress(source.read_bytes())
    return PlotlyScript(packed=packed, version=get_plotlyjs_version())


class LivePlot(anywidget.AnyWidget):
    """A live plotly figure: :meth:`show` sends what differs in its traces, and only that.

    Patches that arrive faster than the page can draw are merged there, so that nothing
    queues. Zoom and pan stay while their axes are left alone. Arrays keep their precision
    (float32 or float64; others become float64) and travel as bytes.

    Args:
        figure: its traces have a name each.
        label: what a screen reader says for the picture.
        least_width: pixels; in a narrower window the figure is scrolled.
    """

    _esm = HERE / "live_plot.js"
    _css = HERE / "live_plot.css"
    figure = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    least_width = traitlets.Int(0).tag(sync=True)
    script = traitlets.Instance(PlotlyScript).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, figure: Figure, label: str = "", least_width: int = 0) -> None:
        super().__init__(label=label, least_width=least_width, script=plotly_script())
        self._replace_figure(figure)
        self.on_msg(self._on_page_ready)

    def update_figure(self, figure: Figure) -> None:
        """Show another figure; of the same traces and axes only what differs is sent."""
        if trace_and_axis_names(figure) != trace_and_axis_names(
            {"data": self._traces, "layout": self._layout}
        ):
            self._replace_figure(figure)
            return
        buffers: list[bytes] = []
        traces = []
        for index, wanted in enumerate(figure["data"]):
            if new := update_and_list_changes(self._traces[index], wanted):
                traces.append([index, move_arrays_to_buffers(new, buffers)])
        layout = move_arrays_to_buffers(
            update_and_list_changes(self._layout, figure["layout"]), buffers
        )
        if traces or layout:
            self.send({"kind": "patch", "traces": traces, "layout": layout}, buffers)

    def _replace_figure(self, figure: Figure) -> None:
        self._traces = [dict(trace) for trace in figure["data"]]
        self._layout = dict(figure["layout"])
        self.figure = to_plotly_dict(go.Figure(figure))

    def reset_camera(self) -> None:
        """Turn a figure in space back to how it was drawn first."""
        self.send({"kind": "reset"})

    def current_trace(self, name: str) -> dict[str, Any]:
        """Return all attributes that one trace has now."""
        (trace,) = (trace for trace in self._traces if trace["name"] == name)
        return trace

    def _on_page_ready(self, _: object, content: dict[str, Any], __: object) -> None:
        # a page that was opened or reloaded late has only the figure that was whole last
        if content.get("kind") == "ready":
            self._replace_figure({"data": self._traces, "layout": self._layout})


def trace_and_axis_names(figure: Figure) -> tuple[list[str], set[str]]:
    """Return the names of the traces and of the axes of a figure."""
    names = [trace["name"] for trace in figure["data"]]
    return names, {name for name in figure["layout"] if "axis" in name}


def to_plotly_dict(figure: go.Figure) -> dict[str, Any]:
    """Return a figure as plotly.js takes it."""
    return json.loads(figure.to_json() or "")


def update_and_list_changes(known: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of ``wanted`` that is not ``known`` yet; it is known from now on."""
    new = {
        key: value
        for key, value in wanted.items()
        if key not in known or not is_equal(known[key], value)
    }
    known.update(new)
    return new


def move_arrays_to_buffers(value: Any, buffers: list[bytes]) -> Any:
    """Return ``value`` with each array replaced by its index in ``buffers``."""
    if isinstance(value, Mapping):
        return {key: move_arrays_to_buffers(item, buffers) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "fiub":
        return value.tolist()
    dtype = value.dtype if value.dtype == np.float32 else np.float64
    array = np.ascontiguousarray(value, dtype)
    buffers.append(array.tobytes())
    return {"buffer": len(buffers) - 1, "dtype": array.dtype.name, "shape": array.shape}


def is_equal(one: Any, other: Any) -> bool:
    """Return True if two attributes are equal; NaN is equal to itself."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    return type(one) is type(other) and (one == other or (one != one and other != other))
