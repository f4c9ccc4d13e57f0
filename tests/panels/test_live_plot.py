"""What a live plot tells the page: what differs, as bytes, and nothing else."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.panels.live_plot import LivePlot, PlotlyScript, plotly_script, to_plotly_dict


def figure(x=(0.0, 1.0), y=(0.0, 1.0), other=(0.0, 1.0), **layout):
    """Return a figure of two traces."""
    traces = {"layer": {"x": x, "y": y}, "other": {"y": other}}
    data = [
        {"type": "scatter", "name": name, **{axis: np.array(v) for axis, v in values.items()}}
        for name, values in traces.items()
    ]
    return {"data": data, "layout": layout}


@pytest.fixture
def plot():
    """A plot of two traces; `sent` holds what it sends."""
    live: Any = LivePlot(figure(), "two lines")
    live.sent = []
    live.send = lambda content, buffers=None: live.sent.append((content, buffers))
    return live


def decoded(value, buffers) -> Any:
    """What the page makes of an encoded value."""
    if isinstance(value, dict) and "buffer" in value:
        flat = np.frombuffer(buffers[value["buffer"]], value["dtype"])
        return flat.reshape(value["shape"])
    if isinstance(value, dict):
        return {key: decoded(item, buffers) for key, item in value.items()}
    return value


def test_a_figure_arrives_as_it_was(plot):
    x, y = [5e-324, np.nan], np.arange(6, dtype=np.float32).reshape(2, 3)
    plot.update_figure(figure(x, y, title={"text": "δ"}))
    ((content, buffers),) = plot.sent
    ((index, patch),) = content["traces"]
    back = decoded(patch, buffers)
    assert (content["kind"], index) == ("patch", 0)
    np.testing.assert_array_equal(back["x"], x)
    np.testing.assert_array_equal(back["y"], y)
    assert (back["x"].dtype, back["y"].dtype) == (np.float64, np.float32)
    assert content["layout"] == {"title": {"text": "δ"}}


def test_only_what_differs_is_sent(plot):
    for x in (0.0, 1.0, 1.0):
        plot.update_figure(figure([x, np.nan], height=300))
    assert len(plot.sent) == 2
    content, _ = plot.sent[1]
    assert [list(patch) for _, patch in content["traces"]] == [["x"]]
    assert content["layout"] == {}


def test_a_page_that_comes_late_is_given_what_has_moved(plot):
    plot.update_figure(figure(y=[0.0, 0.0], other=[1.0, 1.0]))
    plot.update_figure(figure(y=[5.0, 5.0], other=[1.0, 1.0], height=300))
    assert "height" not in plot.figure["layout"]
    plot._on_page_ready(plot, {"kind": "ready"}, [])
    expected = figure(y=[5.0, 5.0], other=[1.0, 1.0], height=300)
    assert plot.figure == to_plotly_dict(go.Figure(expected))


def test_other_traces_come_as_a_whole_figure_to_which_patches_belong(plot):
    plot.update_figure(figure(y=[0.0, 0.0]))
    plot.sent.clear()
    other = figure(y=[0.0, 0.0])
    other["data"].append({"type": "bar", "name": "bars", "y": np.ones(2)})
    plot.update_figure(other)
    assert [trace["name"] for trace in plot.figure["data"]] == ["layer", "other", "bars"]
    assert not plot.sent
    other["data"][2] = other["data"][2] | {"y": np.zeros(2)}
    plot.update_figure(other)
    ((content, _),) = plot.sent
    assert [index for index, _ in content["traces"]] == [2]


def test_plotly_comes_once_a_kernel(plot):
    other = LivePlot(figure())
    assert other.script is plot.script is plotly_script()
    assert isinstance(plot.script, PlotlyScript)
    state = plot.get_state()
    assert state["script"] == f"IPY_MODEL_{plot.script.model_id}"
    # a few thousand characters, and not the 5 million of plotly.js
    assert len(state["_esm"]) < 10_000
