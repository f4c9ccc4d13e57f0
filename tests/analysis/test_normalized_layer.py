"""The defect of a layer, and the random numbers and sizes that it is made of."""

import math

import pytest
import torch

from lnlab.analysis.magnitudes import root_mean_square, vector_norm
from lnlab.analysis.normalized_layer import (
    NormalizedLayer,
    cast,
    measure_table1,
    random_layer_inputs,
    random_vector_for_any_shift,
)
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS

WEIGHTS_SCALED, WEIGHTS_SHIFTED = TRANSFORMATIONS[:2]


@pytest.mark.parametrize("exponent", [-38, -20, 0, 20, 38])
def test_float32_has_the_sizes_that_float64_has(exponent):
    a = (10.0**exponent * (torch.rand(5, 4, 3) * 4 - 1)).float()  # up to 3e38
    for dim in ((), 0, (0, 2)):
        over = dim if dim != () else None
        norm, square = a.double().norm(dim=over), a.double().square().mean(over)
        torch.testing.assert_close(vector_norm(a, dim), norm, rtol=1e-12, atol=0)
        torch.testing.assert_close(root_mean_square(a, dim), square.sqrt(), rtol=1e-12, atol=0)


def test_defect_is_the_largest_change_over_the_largest_output():
    given = random_layer_inputs(3, 2, 4)
    a, shift = given.x @ given.W.T, random_vector_for_any_shift(given)
    change = given.x @ (given.W + shift[:2]).T - a
    none = NormalizedLayer(ROWS["none"], given)
    expected = float(change.abs().max() / a.abs().max())
    assert none.defect(WEIGHTS_SHIFTED) == pytest.approx(expected, rel=1e-12)
    assert none.defect(WEIGHTS_SCALED, 3.0) == pytest.approx(2, rel=1e-12)


def test_eps_breaks_re_scaling_of_layer_norm_alone():
    table = measure_table1({"layer": ROWS["layer"]}, eps=1e-2).to_frame()
    assert table[~table.agrees].column.tolist() == [1, 4, 6]


def test_what_leaves_the_precision_is_never_a_silent_zero():
    single = NormalizedLayer(ROWS["layer"], cast(random_layer_inputs(), torch.float32))
    assert not math.isfinite(single.defect(WEIGHTS_SCALED, 1e-30))
    alone = NormalizedLayer(ROWS["batch"], random_layer_inputs(examples=1))
    assert math.isnan(alone.defect(WEIGHTS_SCALED, 2.0))  # 0/0, and shown as such
