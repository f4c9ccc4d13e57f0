"""Table 1 measured: the number, the claim, and whether they agree."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.style import number
from lnlab.panels.invariance_panel import Measured, cell, table, table_layout


def measured(**settings):
    defects = np.array([[2e-16, 0.5], [0.0, np.nan]])
    claims = np.array([[True, False], [True, True]])
    given: dict[str, Any] = {
        "rows": ["batch", "layer"], "columns": ["W → δW", "X → δX"], "defects": defects,
        "claims": claims, "exact": 1e-12, "boxed": (1, 2),
    }  # fmt: skip
    return Measured(**given | settings)


@pytest.mark.parametrize(
    ("defect", "text"),
    [
        (0.0, "0"),
        (5e-324, "5e-324"),
        (2.2e-16, "2e-16"),
        (0.0123, "0.012"),
        (1.0, "1"),
        (684.0, "680"),
        (12345.0, "1e4"),
        (np.inf, "inf"),
        (np.nan, "NaN"),
    ],
)
def test_only_an_exact_zero_is_written_zero(defect, text):
    assert number(defect) == text


@pytest.mark.parametrize(
    ("defect", "claim", "text"),
    [
        (2e-16, True, "✓ 2e-16"),
        (0.5, False, "✗ 0.5"),
        (4e-7, True, "<b>✓ 4e-7!</b>"),
        (0.0, False, "<b>✗ 0!</b>"),
        (np.nan, True, "NaN"),
    ],
)
def test_a_cell_says_whether_the_claim_holds(defect, claim, text):
    assert cell(defect, claim, 1e-12) == text


def test_colour_is_the_power_of_ten_and_nan_has_none():
    figure: Any = table(measured())
    np.testing.assert_allclose(figure.data[0].z[0], np.log10([2e-16, 0.5]))
    assert figure.data[0].z[1][0] == figure.data[0].zmin
    assert np.isnan(figure.data[0].z[1][1])


def test_the_columns_are_numbered_and_the_first_row_is_on_top():
    figure: Any = table(measured())
    assert list(figure.data[0].x) == ["1<br>W →<br>δW", "2<br>X →<br>δX"]
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    assert list(figure.layout.yaxis.ticktext) == ["batch", "layer"]


def test_the_papers_own_cells_and_the_chosen_column_are_framed():
    paper, chosen = table_layout(measured(), 1, [])["shapes"]
    assert [paper[key] for key in ("x0", "x1", "y0", "y1")] == [-0.5, 1.5, -0.5, 0.5]
    assert [chosen[key] for key in ("x0", "x1", "y0", "y1")] == [0.5, 1.5, -0.5, 1.5]
    assert len(table_layout(measured(boxed=(0, 0)), None, [])["shapes"]) == 0


def test_the_rows_that_are_looked_at_have_their_colours():
    labels = table_layout(measured(), None, ["layer"])["yaxis"]["ticktext"]
    assert labels[0] == "batch"
    assert "#0072B2" in labels[1]
