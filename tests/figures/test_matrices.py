"""Matrices are drawn number by number, in one scale of colours with 0 in its middle."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.tables import matrices

A = np.array([[1.0, -2, 3], [4, -5, 0]])


def test_cells_are_the_numbers_on_one_scale():
    figure: Any = matrices(
        {"a": A, "mu": A.mean(1, keepdims=True)}, rows="case", columns="unit"
    )
    first, second = figure.data
    np.testing.assert_array_equal(first.z, A)
    np.testing.assert_array_equal(second.z, A.mean(1, keepdims=True))
    assert {(heat.zmin, heat.zmax) for heat in figure.data} == {(-5, 5)}
    assert [note.text for note in figure.layout.annotations] == ["a", "mu"]
    assert first.hovertemplate.startswith("case %{y}, unit %{x}: ")
    assert figure.layout.yaxis.autorange == figure.layout.yaxis2.autorange == "reversed"


def test_a_scale_of_ones_own():
    figure: Any = matrices({"a": A, "mu": A.mean(1, keepdims=True)}, own_scale=True)
    assert [(heat.zmin, heat.zmax) for heat in figure.data] == [(-5, 5), (-2 / 3, 2 / 3)]


@pytest.mark.parametrize(
    ("value", "columns", "lettering"),
    [
        (-2.19, (8, 8), ("%{z:.2f}", 12)),
        (-2.19, (8, 8, 8), ("%{z:.1f}", 12)),
        (-2.19, (8, 8, 8, 8), ("%{z:.1f}", 10)),
        (-12.12, (8, 8), ("%{z:.2f}", 12)),
        (-12.12, (8, 1, 1, 8), ("%{z:.1f}", 12)),
    ],
)
def test_no_number_covers_its_neighbour_in_jupyterlab(value, columns, lettering):
    arrays = {str(n): np.full((6, H), value) for n, H in enumerate(columns)}
    figure: Any = matrices(arrays)
    assert {(heat.texttemplate, heat.textfont.size) for heat in figure.data} == {lettering}
    digits = int(lettering[0][-3])
    printed = lettering[1] * 0.6 * (len(f"{value:.{digits}f}") - 1)
    axes = [getattr(figure.layout, f"xaxis{n or ''}") for n in (0, *range(2, len(columns) + 1))]
    for axis, H in zip(axes, columns, strict=True):
        low, high = axis.domain
        assert (high - low) * (848 - 40) / H >= printed
    assert figure.layout.meta["width"] <= 848


@pytest.mark.parametrize(
    ("statistic", "shape"),
    [(A.mean(0), (1, 3)), (A.mean(0, keepdims=True), (1, 3)), (2.0, (1, 1))],
)
def test_a_statistic_is_a_row_or_a_cell(statistic, shape):
    figure: Any = matrices({"mu": np.asarray(statistic)})
    assert np.shape(figure.data[0].z) == shape


def test_what_is_not_finite_leaves_the_scale_alone():
    figure: Any = matrices(
        {"a": np.array([[1.0, np.nan], [-np.inf, 0.5]]), "b": np.full((2, 2), np.nan)}
    )
    assert {heat.zmax for heat in figure.data} == {1.0}
