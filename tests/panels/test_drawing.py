"""The drawing panel: what it shows is what the runs kept, glimpse by glimpse."""

import numpy as np
import pytest

from lnlab.papers.draw.panel import DrawingState, FilterGrid, outline, tiled
from lnlab.papers.draw.panel import drawing as drawing_panel
from tests.golden.write import digits, drawer

SIDE, GLIMPSES = 6, 3


def test_what_is_shown_is_what_was_kept():
    runs = {"none": drawer(0), "layer": drawer(1)}
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
    runs = {"none": drawer(0)}
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
    five = np.concatenate([digits(), digits()[:2]])
    sheet = tiled(five)
    assert sheet.shape == (2 * (SIDE + 1) - 1, 3 * (SIDE + 1) - 1)
    np.testing.assert_array_equal(sheet[SIDE + 1 :, SIDE + 1 : 2 * SIDE + 1], five[4])
    assert not sheet[SIDE].any()


def test_runs_that_cannot_stand_together_are_refused():
    with pytest.raises(ValueError, match="4 runs: show at most 3"):
        drawing_panel({str(k): drawer(0) for k in range(4)}, digits())
    with pytest.raises(ValueError, match=r"\[3, 4\] glimpses"):
        drawing_panel({"none": drawer(0), "layer": drawer(0, glimpses=4)}, digits())
