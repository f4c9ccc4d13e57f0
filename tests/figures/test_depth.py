"""A line over the parts of a net has every part, and names those that fit."""

from typing import Any

import numpy as np

from lnlab.figures.curves import LETTERS, over_depth


def test_every_part_is_drawn_in_its_order():
    names = [f"blocks.{i}.attention.output.projection.weight" for i in range(60)]
    figure: Any = over_depth(names, {"norm": np.arange(1.0, 61)}, y="||dL/dW||")
    (line,) = figure.data
    np.testing.assert_array_equal(line.y, np.arange(1.0, 61))
    assert list(line.customdata) == names
    shown = figure.layout.xaxis.ticktext
    assert len(shown) <= 24
    assert all(len(text) <= LETTERS + 1 for text in shown)
    assert figure.layout.yaxis.type == "log"


def test_what_has_no_logarithm_is_left_out():
    figure: Any = over_depth(["unused", "first", "last"], {"norm": [0.0, 0.1, 1.0]}, y="norm")
    assert list(figure.data[0].y) == [None, 0.1, 1.0]


def test_values_that_are_close_are_labelled_as_the_whole_decade_is():
    figure: Any = over_depth(["first", "last"], {"rate": [2.78, 3.12]}, y="1 / ||w||²")
    axis = figure.layout.yaxis
    low, high = axis.range
    assert (low, high) == (0, 1)
    shown = [at for at in axis.tickvals if 10**low <= at <= 10**high]
    assert shown == [1, 2, 5, 10]
