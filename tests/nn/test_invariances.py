"""Claims: Table 1 of Ba et al. (2016) and its extension, yes and no, and where they end."""

import numpy as np
import pytest
import torch

from lnlab.analysis.magnitudes import EXACT, relative_change
from lnlab.analysis.normalized_layer import NormalizedLayer, cast, random_given, random_shift
from lnlab.nn.table1 import (
    ROWS,
    TABLE_1,
    TRANSFORMATIONS,
    Statistics,
    eps_ratio,
)

YES = 1e-12
"""Rounding: the worst over six seeds is 1e-14."""
NO = 5e-3
"""Visibly moved: the least over six seeds is 8e-3, batch layer norm's O(1/m) at m = 16."""

SCALED = [T for T in TRANSFORMATIONS if T.scales]
SHIFTED = [T for T in TRANSFORMATIONS if not T.scales]


def layer(name: str, *, seed: int = 0, **settings) -> NormalizedLayer:
    row = ROWS[name]
    given = random_given(place=row.layer_kind, seed=seed)
    return NormalizedLayer(row, given, seed=seed, **settings)


def bias_of(measured: NormalizedLayer) -> torch.Tensor:
    """The bias b behind the normalizer, ready to be taken off y."""
    b = getattr(measured.norm, "b", None)
    b = torch.zeros(1) if b is None else b.detach()
    return b.reshape(-1, *(1,) * measured.row.layer_kind.space)


def cells(transformations=TRANSFORMATIONS, letters: str = "YN"):
    return [
        pytest.param(name, T, id=f"{name}-{T.column}")
        for name, row in ROWS.items()
        for T in transformations
        if row.letters[T.column - 1] in letters
    ]


def test_table_1_is_the_papers():
    in_words = {
        "batch": "Invariant No Invariant Invariant Invariant No",
        "weight": "Invariant No Invariant No No No",
        "layer": "Invariant Invariant No Invariant No Invariant",
    }
    assert [T.name for T in TRANSFORMATIONS[:6]] == [
        "weight matrix re-scaling",
        "weight matrix re-centering",
        "weight vector re-scaling",
        "dataset re-scaling",
        "dataset re-centering",
        "single training case re-scaling",
    ]
    assert {
        name: words.replace("Invariant", "Y").replace("No", "N").replace(" ", "")
        for name, words in in_words.items()
    } == TABLE_1


@pytest.mark.parametrize(("name", "transformation"), cells())
def test_cell(name, transformation):
    for seed in range(3):
        moved = layer(name, seed=seed).defect(transformation, 3.7)
        assert moved < YES if ROWS[name].claims(transformation.column) else moved > NO


@pytest.mark.parametrize("name", ROWS)
def test_column_11_says_whether_a_case_depends_on_the_others(name):
    moved = layer(name).dependence()
    assert moved < YES if ROWS[name].claims(11) else moved > NO


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.letters[11] != "-"])
def test_column_12_says_whether_training_and_evaluation_agree(name):
    moved = layer(name).gap()
    assert moved < YES if ROWS[name].claims(12) else moved > NO


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.variants])
def test_variants_change_nothing(name):
    for variant in ROWS[name].variants:
        assert layer(name).defect(variant, 3.7) < YES


# Conditions: with them the cell holds (tested above), without them it does not.


def test_statistics_must_be_taken_again_after_the_change():
    for T in TRANSFORMATIONS:
        if ROWS["batch, recomputed"].claims(T.column):
            assert layer("batch", statistics=Statistics.FROZEN).defect(T, 3.7) > NO


@pytest.mark.parametrize("column", [3, 5, 8])
def test_batch_layer_norm_moves_by_one_over_m(column):
    cases = np.array([16, 64, 256, 1024])
    layers = [
        [
            NormalizedLayer(ROWS["batch layer"], random_given(cases=m, seed=seed))
            for seed in range(6)
        ]
        for m in cases
    ]
    T = TRANSFORMATIONS[column - 1]
    moved = [np.mean([one.defect(T, 3.7) for one in of_size]) for of_size in layers]
    slope = np.polyfit(np.log(cases), np.log(moved), 1)[0]
    assert -1.25 < slope < -0.75
    assert column in ROWS["batch layer"].conditions


# Delta: its size and its sign.


@pytest.mark.parametrize(("name", "transformation"), cells(SCALED, "Y"))
def test_yes_holds_over_60_decades(name, transformation):
    deltas = np.logspace(-30, 30, 7)
    assert layer(name).against_delta(transformation, deltas).max() < YES


@pytest.mark.parametrize(("name", "transformation"), cells(SCALED, "N"))
def test_no_is_never_silently_zero(name, transformation):
    moved = layer(name).against_delta(transformation, [1e-30, 1e-10, 0.5, 2.0, 1e10, 1e30])
    assert moved.min() > NO / 2  # at delta = 1/2 less happens than at 3.7


@pytest.mark.parametrize(("name", "transformation"), cells(SCALED, "Y"))
def test_a_negative_delta_flips_the_sign(name, transformation):
    measured = layer(name)
    bias = bias_of(measured)
    changed = transformation(measured.given, -3.7, random_shift(measured.given))
    y, flipped = measured.y - bias, measured.output(changed) - bias
    if ROWS[name].odd:
        where = {3: np.s_[:, :1], 6: np.s_[:1]}.get(transformation.column, np.s_[:])
        expected = y.clone()
        expected[where] *= -1
        torch.testing.assert_close(flipped, expected, rtol=0, atol=YES * float(y.abs().max()))
    else:
        assert relative_change(flipped, y) > NO
        assert relative_change(flipped, -y) > NO


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
    a = measured.given.pre_activations(measured.norm)
    var = a.var(VARIANCE_AXES[name], correction=0, keepdim=True)
    ratio = eps_ratio(var, EPS, DELTA).expand_as(a)
    bias = bias_of(measured)
    for T in SCALED:
        if not ROWS[name].claims(T.column):
            continue
        y = measured.output(T(measured.given, DELTA, random_shift(measured.given))) - bias
        where = {3: np.s_[:, :1], 6: np.s_[:1]}.get(T.column, np.s_[:])
        expected = (measured.y - bias).clone()
        expected[where] *= ratio[where]
        torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-13)
        assert relative_change(y, measured.y - bias) > 1e-4, T.name  # and it is no exact Y


@pytest.mark.parametrize(("name", "transformation"), cells(SHIFTED, "Y"))
def test_centring_stays_exact_whatever_eps(name, transformation):
    assert layer(name, eps=EPS).defect(transformation) < YES


# Precision.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["layer", "batch", "weight", "rms", "group", "instance"])
def test_yes_and_no_in_lower_precision(name, dtype):
    row = ROWS[name]
    measured = NormalizedLayer(row, cast(random_given(place=row.layer_kind), dtype), seed=0)
    for T in TRANSFORMATIONS:
        moved = measured.defect(T, 3.7, 0.1 * random_shift(measured.given))
        if row.claims(T.column):
            assert moved < EXACT[dtype], T.name
        elif T.scales:
            assert moved > EXACT[dtype], T.name
