import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lnlab.analysis.arguments import cast, random_given, random_shift
from lnlab.analysis.invariance import NormalizedLayer, relative_change, table
from lnlab.nn import BatchNorm, Normalizer
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Place, Row, Statistics

WEIGHTS_SCALED, WEIGHTS_SHIFTED = TRANSFORMATIONS[:2]


def test_defect_is_the_largest_change_over_the_largest_output():
    given = random_given(3, 2, 4)
    a, shift = given.x @ given.W.T, random_shift(given)
    moved = given.x @ (given.W + shift[:2]).T - a
    none = NormalizedLayer(ROWS["none"], given)
    expected = float(moved.abs().max() / a.abs().max())
    assert none.defect(WEIGHTS_SHIFTED) == pytest.approx(expected, rel=1e-12)
    assert none.defect(WEIGHTS_SCALED, 3.0) == pytest.approx(2, rel=1e-12)


def test_table_agrees_at_eps_0_and_shows_where_eps_breaks_it():
    exact = table()
    assert len(exact) == 12 * len(ROWS) - 2  # two rows have no column 12
    assert exact.agrees.all(), exact[~exact.agrees]
    layer = {name: ROWS[name] for name in ("layer",)}
    with_eps = table(layer, eps=1e-2)
    assert with_eps[~with_eps.agrees].column.tolist() == [1, 4, 6]


def test_table_of_other_sizes_and_rows():
    six_lines = {"mine": Row(Doubled, "NNNNNNNNNNYY", "twice a")}
    assert table(six_lines, units=5, inputs=3, cases=4, seed=7).agrees.all()


class Doubled(Normalizer):
    def forward(self, a, W=None, t=None):
        return 2 * a


@pytest.mark.parametrize("name", ROWS)
def test_measuring_leaves_nothing_behind(name):
    layer = NormalizedLayer(ROWS[name], random_given(place=ROWS[name].place), seed=0)
    before = {k: v.clone() for k, v in layer.norm.state_dict().items()}
    random_numbers = torch.get_rng_state()
    first = [layer.defect(T, 3.7) for T in TRANSFORMATIONS]
    layer.dependence()
    layer.gap()
    assert [layer.defect(T, 3.7) for T in TRANSFORMATIONS] == first
    assert torch.equal(torch.get_rng_state(), random_numbers)
    after = layer.norm.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_statistics_can_be_chosen_against_the_row():
    given = random_given()
    defects = {
        s: NormalizedLayer(ROWS["batch"], given, statistics=s).defect(WEIGHTS_SCALED, 3.7)
        for s in Statistics
    }
    assert defects[Statistics.BATCH] < 1e-12
    assert defects[Statistics.RECOMPUTED] < 1e-12
    assert defects[Statistics.FROZEN] > 0.1


def test_frozen_statistics_are_those_of_what_is_given():
    given = random_given()
    y = NormalizedLayer(ROWS["batch, frozen"], given).y
    torch.testing.assert_close(y, given.output(BatchNorm(12, eps=0.0)).detach())


def test_against_delta_is_defect_at_each_delta():
    layer, deltas = (
        NormalizedLayer(ROWS["layer"], random_given(), eps=1e-3),
        [-2.0, 1e-3, 0.5, 1e4],
    )
    shift = random_shift(layer.given, seed=5)
    for T in TRANSFORMATIONS:
        each = [
            layer.defect(T, d, shift) if T.scales else layer.defect(T, shift=d * shift)
            for d in deltas
        ]
        np.testing.assert_array_equal(layer.against_delta(T, deltas, shift), each)


def test_the_first_cases_are_the_same_at_any_batch_size():
    small, large = random_given(cases=3), random_given(cases=300)
    assert torch.equal(small.W, large.W)
    assert torch.equal(small.x, large.x[:3])
    assert not torch.equal(small.x, random_given(cases=3, seed=1).x)


def test_given_of_each_place():
    padded = random_given(5, 3, 2, Place.PADDED, side=8, kernel=5, bias_inside=True)
    y = NormalizedLayer(ROWS["batch, padded"], padded).y
    assert y.shape == (2, 5, 8, 8)
    assert NormalizedLayer(ROWS["instance"], replace(padded, padding=0)).y.shape == (2, 5, 4, 4)


def test_underflow_in_float32_is_never_a_silent_zero():
    single = cast(random_given(), torch.float32)
    assert NormalizedLayer(ROWS["layer"], single, eps=1e-5).defect(WEIGHTS_SCALED, 1e-30) > 0.9
    assert not math.isfinite(
        NormalizedLayer(ROWS["layer"], single).defect(WEIGHTS_SCALED, 1e-30)
    )
    assert NormalizedLayer(ROWS["layer"], random_given()).defect(WEIGHTS_SCALED, 1e-30) < 1e-12


def test_one_case_of_batch_norm_has_nothing_to_normalize():
    alone = NormalizedLayer(ROWS["batch"], random_given(cases=1))
    assert math.isnan(alone.defect(WEIGHTS_SCALED, 2.0))  # 0/0, and shown as such


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("which", ["W", "x", "c"])
def test_given_that_is_not_finite_is_refused_by_name(which, bad):
    given = random_given(bias_inside=True)
    spoilt = getattr(given, which).clone()
    spoilt.view(-1)[-1] = bad
    with pytest.raises(ValueError, match=f"^{which} is {bad} at "):
        NormalizedLayer(ROWS["layer"], replace(given, **{which: spoilt}))


@pytest.mark.parametrize("delta", [0.0, float("nan"), float("inf"), 1e200, -1e-200])
def test_delta_out_of_range_is_refused(delta):
    layer = NormalizedLayer(ROWS["layer"], random_given())
    with pytest.raises(ValueError, match="delta is"):
        layer.defect(WEIGHTS_SCALED, delta)
    with pytest.raises(ValueError, match="delta is"):
        layer.against_delta(WEIGHTS_SCALED, [1.0, delta])


def test_shift_that_is_not_finite_or_too_short_is_refused():
    layer = NormalizedLayer(ROWS["layer"], random_given(12, 7, 8))
    with pytest.raises(ValueError, match="shift is nan at"):
        layer.defect(WEIGHTS_SHIFTED, shift=torch.full((12,), torch.nan))
    with pytest.raises(ValueError, match="vector of at least 12"):
        layer.defect(WEIGHTS_SHIFTED, shift=torch.ones(7))


def test_relative_change_of_nothing():
    zero, one = torch.zeros(2), torch.ones(2)
    assert relative_change(zero, zero) == 0
    assert math.isnan(relative_change(zero / zero, zero))
    assert relative_change(one, zero) == math.inf
