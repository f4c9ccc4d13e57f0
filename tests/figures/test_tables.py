"""Matrices, configurations and pictures: every number and every part where it belongs."""

from itertools import product
from typing import Any

import numpy as np
from plotly.colors import sample_colorscale

from lnlab.figures.style import SIZES, text_color_on
from lnlab.figures.tables import (
    configuration_heatmaps,
    matrices,
    picture_rows,
)

A = np.array([[1.0, -2, 3], [4, -5, 0]])
CONFIGURATIONS = ["".join(letters) for letters in product("TF", repeat=4)]


def test_cells_are_the_numbers_on_one_scale_or_on_their_own():
    arrays = {"a": A, "mu": A.mean(1, keepdims=True)}
    figure: Any = matrices(arrays, rows="example", columns="unit")
    first, _ = figure.data
    np.testing.assert_array_equal(first.z, A)
    assert {(heat.zmin, heat.zmax) for heat in figure.data} == {(-5, 5)}
    assert first.hovertemplate.startswith("example %{y}, unit %{x}: ")
    own: Any = matrices(arrays, own_scale=True)
    assert [(heat.zmin, heat.zmax) for heat in own.data] == [(-5, 5), (-2 / 3, 2 / 3)]
    unbounded: Any = matrices({"a": np.array([[1.0, np.nan], [-np.inf, 0.5]])})
    assert unbounded.data[0].zmax == 1.0
    statistic: Any = matrices({"mu": A.mean(0)})
    assert np.shape(statistic.data[0].z) == (1, 3)


def test_every_configuration_stands_in_its_cell_in_black_or_white():
    means = np.linspace(0.0, 1.0, 16)
    squares = {"validation": (means, means - 0.1, means + 0.1), "test": (means,) * 3}
    figure: Any = configuration_heatmaps(
        squares, value="accuracy", made_on="synthetic data", outlined={"test": 6}
    )
    heat = figure.data[0]
    for place, letters in enumerate(CONFIGURATIONS):
        row, column = divmod(place, 4)
        assert heat.z[row][column] == means[place]
        expected = [letters, means[place] - 0.1, means[place] + 0.1]
        assert list(heat.customdata[row][column]) == expected
        (ground,) = sample_colorscale(SIZES, [means[place]])
        assert f"color:{text_color_on(ground)}" in heat.text[row][column]
    (shape,) = figure.layout.shapes  # around TFFT
    assert (shape.x0 + shape.x1, shape.y0 + shape.y1, shape.xref) == (4, 2, "x2")


def test_every_picture_stands_in_its_row_and_column_inside_a_white_frame():
    cases = np.random.default_rng(0).random((2, 3, 3, 4, 5))
    figure: Any = picture_rows(cases, rows=["a", "b"], made_on="synthetic data")
    sheet = figure.data[0].z
    assert sheet.shape == (2 * 6, 3 * 7, 3)
    there = sheet[6 + 1 : 6 + 5, 2 * 7 + 1 : 2 * 7 + 6]
    np.testing.assert_array_equal(there, np.rint(255 * cases[1, 2].transpose(1, 2, 0)))
    assert (sheet[[0, 5, 6, 11]] == 255).all()
    assert (sheet[:, [0, 6, 7, 20]] == 255).all()
