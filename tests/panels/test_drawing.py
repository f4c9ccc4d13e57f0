"""The drawing panel: what it shows is what the runs kept, glimpse by glimpse."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.draw.evaluate import SAMPLES
from lnlab.papers.draw.panel import DrawingState, FilterGrid, outline, tiled
from lnlab.papers.draw.panel import drawing as drawing_panel

SIDE, GLIMPSES = 6, 3


def digits(count=3):
    return 255 * np.random.default_rng(9).integers(0, 2, (count, SIDE, SIDE), np.uint8)


def drawer(seed=0, glimpses=GLIMPSES) -> Any:
    """A run that kept drawings of two pictures, at two moments; at a third it did not."""
    random = np.random.default_rng(seed)
    rows = pd.DataFrame({
        "seed": 0, "update": [0, 40, 80], "valid_bound": [180.0, 90.25, 80.5],
        "valid_kl": [0.0, 8, 9],
    })  # fmt: skip
    kept = {
        update: {
            "canvas": random.integers(0, 256, (glimpses, 2, SIDE, SIDE), np.uint8),
            "windows": random.uniform(1, 4, (2, 4, glimpses, 2)).astype(np.float32),
            "dreams": random.integers(0, 256, (SAMPLES, SIDE, SIDE), np.uint8),
        }
        for update in (40, 80)
    }
    config = {"read_size": 2, "write_size": 5, "glimpses": glimpses}
    return SimpleNamespace(metrics=lambda: rows, pictures=lambda seed: kept, config=config)


def test_what_is_shown_is_what_was_kept():
    runs = {"none": drawer(), "layer": drawer(1)}
    panel = drawing_panel(runs, digits())
    assert len(panel.controls["picture"].options) == 2, "of the third no drawing was kept"
    panel.state = DrawingState(1, 2, 40)
    plot = panel.plots["drawing"]
    for slot, run in enumerate(runs.values()):
        kept = run.pictures(0)[40]
        np.testing.assert_array_equal(plot.current(f"looked {slot}")["z"], digits()[1])
        np.testing.assert_array_equal(plot.current(f"canvas {slot}")["z"], kept["canvas"][1, 1])
        np.testing.assert_array_equal(
            plot.current(f"dreams {slot}")["z"], tiled(kept["dreams"])
        )
        for kind, count, window in zip(
            ("looked", "canvas"), (2, 5), kept["windows"], strict=True
        ):
            wanted = outline(FilterGrid(*map(float, window[:, 1, 1]), count))
            drawn = plot.current(f"{kind} window {slot}")
            np.testing.assert_array_equal(drawn["x"], wanted["x"])
            assert drawn["marker"] == wanted["marker"]
        note = plot._layout["annotations"][slot]["text"]
        assert note.endswith("90.2 nats a picture, 8.0 of them for z")


def test_the_nearest_moment_is_shown_and_minus_one_is_the_last():
    runs = {"none": drawer()}
    assert drawing_panel(runs, digits()).state == DrawingState(0, GLIMPSES, 80)
    early = drawing_panel(runs, digits(), glimpse=1, update=3)
    assert early.state == DrawingState(0, 1, 40)


def test_a_window_has_its_filters_where_the_formula_has_them():
    shown = outline(FilterGrid(4.0, 3.0, 2.0, 1.0, 3))
    edge, dots = shown["x"][:5], shown["x"][6::2]
    assert np.isnan(shown["x"][5::2]).all(), "dots are not joined"
    assert (edge.min(), edge.max()) == (1.0, 7.0)
    assert sorted(set(dots)) == [2.0, 4.0, 6.0]
    assert sorted(set(shown["y"][6::2])) == [1.0, 3.0, 5.0]


def test_a_sheet_has_every_picture_once():
    sheet = tiled(digits(5))
    assert sheet.shape == (2 * (SIDE + 1) - 1, 3 * (SIDE + 1) - 1)
    np.testing.assert_array_equal(sheet[SIDE + 1 :, SIDE + 1 : 2 * SIDE + 1], digits(5)[4])
    assert not sheet[SIDE].any()


def test_runs_that_cannot_stand_together_are_refused():
    with pytest.raises(ValueError, match="4 runs: show at most 3"):
        drawing_panel({str(k): drawer() for k in range(4)}, digits())
    with pytest.raises(ValueError, match=r"\[3, 4\] glimpses"):
        drawing_panel({"none": drawer(), "layer": drawer(glimpses=4)}, digits())
