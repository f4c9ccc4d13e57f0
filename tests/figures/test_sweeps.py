"""Many decades of both axes, with a place for what is exactly 0."""

from typing import Any

import numpy as np

from lnlab.figures.curves import FLOOR, sweeps
from lnlab.figures.style import line

AT = np.array([1e-3, 1.0, 1e3])


def test_curves_are_drawn_over_both_logarithms():
    figure: Any = sweeps(AT, {"layer": np.array([1e-9, 1e-3, 1.0])}, x="delta", y="defect")
    (curve,) = figure.data
    assert (curve.name, curve.mode, curve.line.color) == (
        "layer",
        "lines",
        line("layer")["color"],
    )
    np.testing.assert_array_equal(curve.x, AT)
    np.testing.assert_array_equal(curve.y, [1e-9, 1e-3, 1.0])
    for axis, title in ((figure.layout.xaxis, "delta"), (figure.layout.yaxis, "defect")):
        assert (axis.title.text, axis.type, axis.exponentformat) == (title, "log", "power")


def test_variants_of_one_normalizer_can_be_told_apart():
    names = [f"layer, eps = {eps:g}" for eps in (0, 1e-12, 1e-5, 1e-3)]
    figure: Any = sweeps(AT, dict.fromkeys(names, AT), x="delta", y="defect")
    assert len({curve.line.color for curve in figure.data}) == 4


def test_zero_stands_at_the_foot_and_nan_nowhere():
    figure: Any = sweeps(AT, {"layer": np.array([0.0, np.nan, 1e-16])}, x="delta", y="defect")
    np.testing.assert_array_equal(figure.data[0].y, [FLOOR, np.nan, 1e-16])
    assert figure.layout.yaxis.range[0] == np.log10(FLOOR)
