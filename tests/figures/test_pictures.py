"""Pictures in rows: each pixel where it belongs."""

from typing import Any

import numpy as np

from lnlab.figures.tables import pictures


def test_every_picture_stands_in_its_row_and_column_inside_a_white_frame():
    cases = np.random.default_rng(0).random((2, 3, 3, 4, 5))
    figure: Any = pictures(cases, rows=["a", "b"], made_on="synthetic data")
    sheet = figure.data[0].z
    assert sheet.shape == (2 * 6, 3 * 7, 3)
    there = sheet[6 + 1 : 6 + 5, 2 * 7 + 1 : 2 * 7 + 6]
    np.testing.assert_array_equal(there, np.rint(255 * cases[1, 2].transpose(1, 2, 0)))
    assert (sheet[[0, 5, 6, 11]] == 255).all()
    assert (sheet[:, [0, 6, 7, 20]] == 255).all()
    assert list(figure.layout.yaxis.tickvals) == [3, 9]
