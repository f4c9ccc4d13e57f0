"""The drawing panel: what it shows is what the runs kept, glimpse by glimpse."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.draw import panel as draw
from lnlab.papers.draw.evaluate import DREAMS
from lnlab.papers.draw.panel import Drawers, DrawingState, measure

SIDE, GLIMPSES = 6, 3


def digits(count=3):
    return 255 * np.random.default_rng(9).integers(0, 2, (count, SIDE, SIDE), np.uint8)


def drawer(seed=0, glimpses=GLIMPSES):
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
            "dreams": random.integers(0, 256, (DREAMS, SIDE, SIDE), np.uint8),
        }
        for update in (40, 80)
    }
    config = {"read_size": 2, "write_size": 5, "glimpses": glimpses}
    return SimpleNamespace(metrics=lambda: rows, pictures=lambda seed: kept, config=config)


def test_what_is_shown_is_what_was_kept():
    runs = {"none": drawer(), "layer": drawer(1)}
    there = Drawers(runs, digits())
    assert len(there.pictures) == 2, "of the third nobody kept a drawing"
    found = measure(there, DrawingState(1, 2, 40))
    assert np.array_equal(found.picture, digits()[1])
    for name, run in runs.items():
        kept, sketch = run.pictures(0)[40], found.sketches[name]
        assert np.array_equal(sketch.canvas, kept["canvas"][1, 1])
        assert np.array_equal(sketch.dreams, kept["dreams"])
        assert sketch.look == draw.Framed(*map(float, kept["windows"][0, :, 1, 1]), count=2)
        assert sketch.write == draw.Framed(*map(float, kept["windows"][1, :, 1, 1]), count=5)
        assert sketch.text == "90.2 nats a picture, 8.0 of them for z"


def test_the_nearest_moment_is_shown_and_minus_one_is_the_last():
    there = Drawers({"none": drawer()}, digits())
    assert there.whole(DrawingState()) == DrawingState(0, GLIMPSES, 80)
    assert there.whole(DrawingState(0, 1, 3)) == DrawingState(0, 1, 40)


def test_a_window_has_its_filters_where_the_formula_has_them():
    shown = draw.frame(draw.Framed(4.0, 3.0, 2.0, 1.0, 3))
    outline, dots = shown["x"][:5], shown["x"][6::2]
    assert np.isnan(shown["x"][5::2]).all(), "dots are not joined"
    assert (outline.min(), outline.max()) == (1.0, 7.0)
    assert sorted(set(dots)) == [2.0, 4.0, 6.0]
    assert sorted(set(shown["y"][6::2])) == [1.0, 3.0, 5.0]
    corners = {*zip(outline, shown["y"][:5], strict=True)}
    assert corners == {(1.0, 0.0), (7.0, 0.0), (7.0, 6.0), (1.0, 6.0)}


def test_a_sheet_has_every_picture_once():
    found = draw.sheet(digits(5))
    assert found.shape == (2 * (SIDE + 1) - 1, 3 * (SIDE + 1) - 1)
    assert np.array_equal(found[SIDE + 1 :, SIDE + 1 : 2 * SIDE + 1], digits(5)[4])
    assert not found[SIDE].any()


def test_runs_that_cannot_stand_together_are_refused():
    with pytest.raises(ValueError, match="4 runs: show at most 3"):
        Drawers({str(k): drawer() for k in range(4)}, digits())
    with pytest.raises(ValueError, match=r"\[3, 4\] glimpses"):
        Drawers({"none": drawer(), "layer": drawer(glimpses=4)}, digits())
