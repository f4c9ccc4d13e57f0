"""Claims: Table 1 of Ba et al. (2016) and its extension, yes and no, and where they end."""

import numpy as np
import pytest
import torch

from lnlab.analysis.magnitudes import EXACT, relative_max_change
from lnlab.analysis.normalized_layer import (
    NormalizedLayer,
    cast,
    random_layer_inputs,
    random_vector_for_any_shift,
)
from lnlab.nn.table1 import (
    ROWS,
    TABLE_1,
    TRANSFORMATIONS,
    BatchNormStatisticsSource,
    rescaled_output_ratio,
)

YES = 1e-12
"""Rounding: the worst over six seeds is 1e-14."""
NO = 5e-3
"""Visibly changed: the least over six seeds is 8e-3, batch layer norm's O(1/m) at m = 16."""

SCALED = [T for T in TRANSFORMATIONS if T.is_scaling]
SHIFTED = [T for T in TRANSFORMATIONS if not T.is_scaling]


def layer(name: str, *, seed: int = 0, **settings) -> NormalizedLayer:
    row = ROWS[name]
    given = random_layer_inputs(place=row.layer_kind, seed=seed)
    return NormalizedLayer(row, given, seed=seed, **settings)


def bias_of(measured: NormalizedLayer) -> torch.Tensor:
    """The bias b behind the normalizer, ready to be taken off y."""
    b = getattr(measured.norm, "b", None)
    b = torch.zeros(1) if b is None else b.detach()
    return b.reshape(-1, *(1,) * measured.row.layer_kind.spatial_axis_count)


def claimed(transformations):
    """The cells of the table that claim an invariance."""
    return [
        pytest.param(name, T, id=f"{name}-{T.column}")
        for name, row in ROWS.items()
        for T in transformations
        if row.claims_invariance(T.column)
    ]


def test_table_1_is_the_papers():
    assert [T.name for T in TRANSFORMATIONS[:6]] == [
        "weight matrix re-scaling",
        "weight matrix re-centering",
        "weight vector re-scaling",
        "dataset re-scaling",
        "dataset re-centering",
        "single training case re-scaling",
    ]
    assert TABLE_1 == {"batch": "YNYYYN", "weight": "YNYNNN", "layer": "YYNYNY"}


@pytest.mark.parametrize("name", ROWS)
def test_every_cell_of_a_row(name):
    row = ROWS[name]
    for seed in range(3):
        measured = layer(name, seed=seed)
        defects = {T.column: measured.defect(T, 3.7) for T in TRANSFORMATIONS}
        defects[11] = measured.batch_dependence()
        if row.yes_no_letter_per_column[11] != "-":
            defects[12] = measured.train_eval_gap()
        for column, defect in defects.items():
            assert defect < YES if row.claims_invariance(column) else defect > NO, column


# Conditions: with them the cell holds (tested above), without them it does not.


def test_statistics_must_be_taken_again_after_the_change():
    for T in TRANSFORMATIONS:
        if ROWS["batch, recomputed"].claims_invariance(T.column):
            assert (
                layer("batch", statistics=BatchNormStatisticsSource.FROZEN).defect(T, 3.7) > NO
            )


@pytest.mark.parametrize("column", [3, 5, 8])
def test_batch_layer_norm_moves_by_one_over_m(column):
    cases = np.array([16, 64, 256, 1024])
    layers = [
        [
            NormalizedLayer(ROWS["batch layer"], random_layer_inputs(examples=m, seed=seed))
            for seed in range(6)
        ]
        for m in cases
    ]
    T = TRANSFORMATIONS[column - 1]
    moved = [np.mean([one.defect(T, 3.7) for one in of_size]) for of_size in layers]
    slope = np.polyfit(np.log(cases), np.log(moved), 1)[0]
    assert -1.25 < slope < -0.75
    assert column in ROWS["batch layer"].conditions_by_column


# Delta: its size and its sign.


@pytest.mark.parametrize("name", ROWS)
def test_yes_holds_over_60_decades_and_no_is_never_silently_zero(name):
    for T in SCALED:
        for delta in (1e-30, 1e-10, 0.5, 2.0, 1e10, 1e30):
            defect = layer(name).defect(T, delta)
            # at delta = 1/2 less happens than at 3.7
            assert defect < YES if ROWS[name].claims_invariance(T.column) else defect > NO / 2


@pytest.mark.parametrize(("name", "transformation"), claimed(SCALED))
def test_a_negative_delta_flips_the_sign(name, transformation):
    measured = layer(name)
    bias = bias_of(measured)
    changed = transformation(
        measured.layer_inputs, -3.7, random_vector_for_any_shift(measured.layer_inputs)
    )
    y, flipped = measured.y - bias, measured.output(changed) - bias
    if ROWS[name].negative_delta_only_flips_sign:
        where = {3: np.s_[:, :1], 6: np.s_[:1]}.get(transformation.column, np.s_[:])
        expected = y.clone()
        expected[where] *= -1
        torch.testing.assert_close(flipped, expected, rtol=0, atol=YES * float(y.abs().max()))
    else:
        assert relative_max_change(flipped, y) > NO
        assert relative_max_change(flipped, -y) > NO


# Eps: the predicted deviation.

EPS, DELTA = 1e-2, 0.3


VARIANCE_AXES = {
    "layer": 1,
    "batch": 0,
    "instance": (2, 3),
    "batch, convolution": (0, 2, 3),
    "layer, convolution": (1, 2, 3),
}
"""What eps is added to: the variance over these axes."""


@pytest.mark.parametrize("name", VARIANCE_AXES)
def test_eps_ratio_is_exact(name):
    measured = layer(name, eps=EPS)
    a = measured.layer_inputs.unnormalized_pre_activations(measured.norm)
    var = a.var(VARIANCE_AXES[name], correction=0, keepdim=True)
    ratio = rescaled_output_ratio(var, EPS, DELTA).expand_as(a)
    bias = bias_of(measured)
    for T in SCALED:
        if not ROWS[name].claims_invariance(T.column):
            continue
        y = (
            measured.output(
                T(
                    measured.layer_inputs,
                    DELTA,
                    random_vector_for_any_shift(measured.layer_inputs),
                )
            )
            - bias
        )
        where = {3: np.s_[:, :1], 6: np.s_[:1]}.get(T.column, np.s_[:])
        expected = (measured.y - bias).clone()
        expected[where] *= ratio[where]
        torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-13)
        assert relative_max_change(y, measured.y - bias) > 1e-4, T.name  # and it is no exact Y


@pytest.mark.parametrize(("name", "transformation"), claimed(SHIFTED))
def test_centring_stays_exact_whatever_eps(name, transformation):
    assert layer(name, eps=EPS).defect(transformation) < YES


# Precision.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["layer", "batch", "weight", "rms", "group", "instance"])
def test_yes_and_no_in_lower_precision(name, dtype):
    row = ROWS[name]
    measured = NormalizedLayer(
        row, cast(random_layer_inputs(place=row.layer_kind), dtype), seed=0
    )
    for T in TRANSFORMATIONS:
        moved = measured.defect(
            T, 3.7, 0.1 * random_vector_for_any_shift(measured.layer_inputs)
        )
        if row.claims_invariance(T.column):
            assert moved < EXACT[dtype], T.name
        elif T.is_scaling:
            assert moved > EXACT[dtype], T.name
