"""The defect of a layer, and the random numbers and sizes that it is made of."""

import math

import pytest
import torch

from lnlab.analysis.magnitudes import relative_change, root_mean_square, vector_norm
from lnlab.analysis.normalized_layer import (
    NormalizedLayer,
    cast,
    measure_table1,
    random_given,
    random_shift,
)
from lnlab.analysis.random import normal, uniform
from lnlab.nn import BatchNorm
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Statistics

WEIGHTS_SCALED, WEIGHTS_SHIFTED = TRANSFORMATIONS[:2]


@pytest.mark.parametrize("draw", [normal, uniform])
def test_random_numbers_are_those_of_their_seed_and_stream(draw):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert torch.equal(draw(3, 1, 4, 5).flatten()[:7], draw(3, 1, 7))
    streams = [draw(*which, 3) for which in ((0, 1), (1, 0), (1, 1), (0, (1, 1)), (0, (1, 2)))]
    assert len({tuple(numbers.tolist()) for numbers in streams}) == len(streams)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("exponent", [-38, -20, 0, 20, 38])
def test_float32_has_the_sizes_that_float64_has(exponent):
    a = (10.0**exponent * (torch.rand(5, 4, 3) * 4 - 1)).float()  # up to 3e38
    for dim in ((), 0, (0, 2)):
        over = dim if dim != () else None
        norm, square = a.double().norm(dim=over), a.double().square().mean(over)
        torch.testing.assert_close(vector_norm(a, dim), norm, rtol=1e-12, atol=0)
        torch.testing.assert_close(root_mean_square(a, dim), square.sqrt(), rtol=1e-12, atol=0)


def test_relative_change_of_nothing():
    zero, one = torch.zeros(2), torch.ones(2)
    assert relative_change(zero, zero) == 0
    assert math.isnan(relative_change(zero / zero, zero))
    assert relative_change(one, zero) == math.inf


def test_defect_is_the_largest_change_over_the_largest_output():
    given = random_given(3, 2, 4)
    a, shift = given.x @ given.W.T, random_shift(given)
    moved = given.x @ (given.W + shift[:2]).T - a
    none = NormalizedLayer(ROWS["none"], given)
    expected = float(moved.abs().max() / a.abs().max())
    assert none.defect(WEIGHTS_SHIFTED) == pytest.approx(expected, rel=1e-12)
    assert none.defect(WEIGHTS_SCALED, 3.0) == pytest.approx(2, rel=1e-12)


def test_table_agrees_at_eps_0_and_shows_where_eps_breaks_it():
    exact = measure_table1().to_frame()
    assert len(exact) == 12 * len(ROWS) - 2  # two rows have no column 12
    assert exact.agrees.all(), exact[~exact.agrees]
    with_eps = measure_table1({"layer": ROWS["layer"]}, eps=1e-2).to_frame()
    assert with_eps[~with_eps.agrees].column.tolist() == [1, 4, 6]


def test_statistics_can_be_chosen_against_the_row():
    given = random_given()
    layers = {s: NormalizedLayer(ROWS["batch"], given, statistics=s) for s in Statistics}
    defects = {s: layer.defect(WEIGHTS_SCALED, 3.7) for s, layer in layers.items()}
    assert defects[Statistics.BATCH] < 1e-12
    assert defects[Statistics.RECOMPUTED] < 1e-12
    assert defects[Statistics.FROZEN] > 0.1
    y = NormalizedLayer(ROWS["batch, frozen"], given).y
    torch.testing.assert_close(y, given.output(BatchNorm(12, eps=0.0)).detach())


def test_what_leaves_the_precision_is_never_a_silent_zero():
    single = cast(random_given(), torch.float32)
    assert NormalizedLayer(ROWS["layer"], single, eps=1e-5).defect(WEIGHTS_SCALED, 1e-30) > 0.9
    underflow = NormalizedLayer(ROWS["layer"], single).defect(WEIGHTS_SCALED, 1e-30)
    assert not math.isfinite(underflow)
    assert NormalizedLayer(ROWS["layer"], random_given()).defect(WEIGHTS_SCALED, 1e-30) < 1e-12
    alone = NormalizedLayer(ROWS["batch"], random_given(cases=1))
    assert math.isnan(alone.defect(WEIGHTS_SCALED, 2.0))  # 0/0, and shown as such
