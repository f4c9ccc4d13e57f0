"""Logarithmic axes are labelled by numbers that one can read."""

import numpy as np
import pytest

from lnlab.figures.style import linear, logarithmic, plain


@pytest.mark.parametrize(
    ("values", "some"),
    [
        ([0.02, 0.7], ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]),
        ([1.2, 1.9], ["1", "2"]),
        ([1e-3, 1e4], ["0.001", "0.01", "1000", "10000"]),
        ([1e-30, 1.0], ["10<sup>-28</sup>", "10<sup>-24</sup>", "1"]),
    ],
)
def test_labels_are_powers_or_one_two_and_five_of_them(values, some):
    axis = logarithmic([np.array(values)])
    assert axis["type"] == "log"
    assert set(some) <= set(axis["ticktext"])
    assert not [text for text in axis["ticktext"] if text[0] in "346789"]
    assert axis["tickvals"] == sorted(axis["tickvals"])
    assert axis["tickvals"][0] < min(values) < max(values) < axis["tickvals"][-1]


@pytest.mark.parametrize("values", [[], [np.array([0.0, np.nan, -1.0, np.inf])]])
def test_an_axis_of_nothing_is_one_too(values):
    assert "1" in logarithmic(values)["ticktext"]


def test_long_numbers_are_powers():
    assert plain(2, -5) == "2·10<sup>-5</sup>"
    assert plain(1, 6) == "10<sup>6</sup>"
    assert plain(5, 2) == "500"


@pytest.mark.parametrize(
    "ends", [(2.1, 2.9), (1.1, 1.9), (0.021, 0.049), (6.0, 9.5), (0.9, 1.1)]
)
def test_an_axis_between_two_of_its_numbers_has_others(ends):
    axis = logarithmic([np.array(ends)])
    inside = [at for at in axis["tickvals"] if ends[0] <= at <= ends[1]]
    assert 2 <= len(inside) <= 5
    assert [float(text) for text in axis["ticktext"]] == pytest.approx(axis["tickvals"])
    assert all(len(text) <= 5 for text in axis["ticktext"])


def test_an_axis_of_one_value_is_no_error():
    assert logarithmic([np.array([2.5, 2.5])])["tickvals"]


@pytest.mark.parametrize(
    ("values", "each"),
    [
        ([[1, 2, 3, 4, 5], [2, 4]], True),  # epochs
        ([[2, 3, 4, 6]], True),
        ([[0, 100, 200]], False),
        ([[0, 0.5, 1, 2]], False),
        ([[0, 7]], False),
        ([[3]], False),
        ([[]], False),
        ([], False),
        ([[1, np.nan, 3]], False),
    ],
)
def test_a_few_whole_numbers_have_a_label_each(values, each):
    axis = linear(np.array(one, float) for one in values)
    assert axis == {"type": "linear"} | ({"dtick": 1} if each else {})
