"""Matrices are drawn number by number, in one scale of colours with 0 in its middle."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.matrices import matrices

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


def test_many_columns_get_fewer_digits():
    for count, form in ((3, "%{z:.2f}"), (4, "%{z:.1f}")):
        wide: Any = matrices({str(n): np.zeros((6, 8)) for n in range(count)})
        assert {heat.texttemplate for heat in wide.data} == {form}


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
