"""Numbers in the words of figures."""

import pytest

from lnlab.figures.style import number


@pytest.mark.parametrize(
    ("defect", "said"),
    [
        (0.0, "0"),
        (0.00949, "9e-3"),
        (0.00994, "0.0099"),
        (0.00999, "0.01"),
        (0.01, "0.01"),
        (999.4, "1e3"),
        (float("inf"), "inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_that_are_written_alike_are_alike_in_form(defect, said):
    assert number(defect) == said
