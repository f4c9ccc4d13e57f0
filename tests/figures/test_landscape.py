"""A landscape is drawn as it was measured, and says where its statistics came from."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lnlab.figures.landscape import (
    loss_lines_and_range_bands,
    loss_surfaces,
    path_on_plane,
)

X, Y = np.linspace(-1, 1, 5), np.linspace(-2, 2, 3)
MADE = "embedded data: digits"


def landscape(losses, *at, bn_stats="batch") -> Any:
    return SimpleNamespace(coordinates=at, losses=losses, centre_loss=0.5, bn_stats=bn_stats)


def line(offset=0.0, bn_stats="batch"):
    return landscape(0.5 + offset + X**2, X, bn_stats=bn_stats)


def sheet(bn_stats="batch"):
    return landscape(0.5 + X[:, None] ** 2 + Y**2 / 10, X, Y, bn_stats=bn_stats)


def notes(figure):
    return [note.text for note in figure.layout.annotations]


def test_a_band_holds_every_line():
    figure: Any = loss_lines_and_range_bands(
        {"here": {"layer": [line(), line(1.0), line(-0.2)]}}, x="α", made_on=""
    )
    band, *each = figure.data
    np.testing.assert_array_equal(band.y[:5], 1.5 + X**2)
    np.testing.assert_array_equal(band.y[5:], (0.3 + X**2)[::-1])
    assert [trace.y[2] for trace in each] == [0.5, 1.5, 0.3]
    assert band.fill == "toself"
    assert figure.layout.yaxis.type == "log"


def test_surfaces_share_heights_and_are_stamped():
    low = sheet()
    high = landscape(10 * low.losses, X, Y, bn_stats="running")
    figure: Any = loss_surfaces({"one": low, "other": high}, made_on=MADE)
    one, peg, other, _ = figure.data
    np.testing.assert_allclose(10.0**one.z, low.losses.T)
    np.testing.assert_allclose(one.customdata, low.losses.T)
    assert one.z.shape == (len(Y), len(X))
    assert (one.cmin, one.cmax) == (other.cmin, other.cmax)
    assert figure.layout.scene.zaxis.range == figure.layout.scene2.zaxis.range
    assert peg.z[0] == pytest.approx(np.log10(0.5))
    assert "frozen (running averages)" in notes(figure)[1]


def test_a_plane_of_losses_below_0_is_refused():
    low = landscape(X[:, None] ** 2 + Y**2 / 10 - 2.0, X, Y)
    with pytest.raises(ValueError, match=r"losses go down to -2, .* add a constant"):
        loss_surfaces({"low": low}, made_on=MADE)


def test_a_path_lies_on_its_plane_and_its_distance_beside_it():
    way = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    figure: Any = path_on_plane(
        sheet(),
        way,
        explained_variance_ratio=[0.7, 0.2],
        distances_from_plane=np.array([1.0, 2.0, 0.0]),
        made_on=MADE,
    )
    ground, trace, off, moved = figure.data
    np.testing.assert_allclose(10.0**ground.z, sheet().losses.T)
    np.testing.assert_array_equal(np.stack([trace.x, trace.y], 1), way)
    np.testing.assert_array_equal(off.y, [1, 2, 0])
    np.testing.assert_array_equal(moved.y, [5, 1, 0])
    assert figure.layout.xaxis.title.text == "component 1: 70% of the variance"
    assert figure.layout.yaxis.title.text == "component 2: 20% of the variance"
    assert "of the batch" in notes(figure)[0]
    assert "Color: the loss (nats)" in notes(figure)[-1].replace("<br>", " ")
