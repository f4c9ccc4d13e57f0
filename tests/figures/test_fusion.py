"""Pictures of the fused recurrence, and of the race."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lnlab.figures.curves import CONTENDERS, contenders, race
from lnlab.figures.tables import WORK, kept, step, timeline


def boxes(figure: Any, work: str) -> list:
    return [s for s in figure.layout.shapes if s.fillcolor == WORK[work][1]]


@pytest.mark.parametrize("slices", [[16], [12, 12], [8, 8, 9]])
def test_every_thread_has_every_step_in_both_ways(slices):
    figure: Any = timeline(slices, steps=5, chunk=2)
    n = len(slices)
    assert len(boxes(figure, "recurrent")) == 2 * n * 5
    assert len(boxes(figure, "input")) == n + n * 3  # once for all, and once a chunk
    texts = [a.text for a in figure.layout.annotations]
    assert [f"thread {i}: {cases} cases" in texts for i, cases in enumerate(slices, 1)] == [
        True
    ] * n


def test_only_the_loop_makes_threads_wait():
    figure: Any = timeline([12, 12], steps=3)
    waits = [s for s in figure.layout.shapes if s.type == "line"]
    lowest = max(s.y1 for s in boxes(figure, "recurrent") if s.y1 < 2)
    assert len(waits) == 1 + 3 * 5
    assert min(s.y0 for s in waits) > lowest


def test_boxes_of_a_lane_do_not_overlap():
    figure: Any = timeline([12], steps=4, chunk=3)
    rects = [s for s in figure.layout.shapes if s.type == "rect"]
    for lane in {s.y0 for s in rects}:
        spans = sorted((s.x0, s.x1) for s in rects if s.y0 == lane)
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(spans))


def test_a_step_says_what_is_kept():
    figure: Any = step()
    framed = [s for s in figure.layout.shapes if s.line.width == 4]
    # h and c of both steps, both products, three times mu and sigma
    assert len(framed) == 9


def test_bars_are_as_long_as_what_they_show():
    figure: Any = kept({"<a>": 3.0, "b": 5.0}, unit="bytes")
    assert list(figure.data[0].x) == [3.0, 5.0]
    assert figure.data[0].y[0] == "&lt;a&gt;"


def row(cell: str, phase: str, T: int, ratio: float) -> dict:
    times = {"ours_ms": ratio * 10, "torch_ms": 10.0, "reference_ms": 40.0, "floor_ms": 5.0}
    script = {"script_ms": 30.0} if cell == "LN-LSTM" else {}
    shown = {"ratio": ratio, "range": [ratio - 0.1, ratio + 0.2]}
    return {"cell": cell, "phase": phase, "size": [T, 8, 4, 16], **shown, **times, **script}


def test_contenders_are_read_from_the_rows_of_the_benchmark():
    rows = [row(c, p, T, 0.7) for T in (10, 20) for c in ("LN-LSTM", "LN-GRU") for p in "ab"]
    panel = contenders(rows, 0, "a")
    assert set(panel) == set(CONTENDERS)
    fused, loop = panel["LN-LSTM, fused"], panel["LN-LSTM, loop of operators"]
    np.testing.assert_allclose(fused, [(10, 0.7, 0.6, 0.9), (20, 0.7, 0.6, 0.9)])
    np.testing.assert_allclose(loop, [(10, 4, 4, 4), (20, 4, 4, 4)])


def test_the_race_draws_medians_and_quartiles():
    panel = contenders([row("LN-LSTM", "train", T, 0.5) for T in (10, 20)], 0, "train")
    figure: Any = race({"T": panel, "again": panel}, made_on="<here>")
    (first, *_) = [t for t in figure.data if t.name == "LN-LSTM, fused"]
    np.testing.assert_allclose(first.y, [0.5, 0.5])
    np.testing.assert_allclose(first.error_y.array, [0.2, 0.2])
    np.testing.assert_allclose(first.error_y.arrayminus, [0.1, 0.1])
    assert len([t for t in figure.data if t.showlegend]) == len(panel)
    assert any("&lt;here&gt;" in a.text for a in figure.layout.annotations)
    assert [s.y0 for s in figure.layout.shapes] == [1, 1]


@pytest.mark.parametrize("name", CONTENDERS)
def test_a_legend_shows_how_a_line_is_dashed(name):
    look = CONTENDERS[name][2]
    width = look.get("width", 2)
    named = {"dash": 3, "longdash": 5, "dot": 1, "dashdot": 3}  # plotly's, times the width
    dash = look.get("dash", "solid")
    if dash in named:
        first = named[dash] * max(width, 3)
    else:
        first = 0 if dash == "solid" else int(dash.split("px")[0])
    # its line has 30 pixels and a dot of 8 in the middle, which would cover the gap
    assert first < 15


def test_a_race_without_runners_is_a_figure_too():
    figure: Any = race({"T": contenders([], 0, "train")}, made_on="here")
    assert len(figure.data) == 0
