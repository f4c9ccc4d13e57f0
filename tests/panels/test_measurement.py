"""What the invariance panel computes, against the claims and the probe that measures them."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lnlab.analysis.magnitudes import EXACT
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS, Statistics, eps_ratio
from lnlab.panels.invariance_panel import (
    LAYER_SIZES,
    NORMALIZERS,
    TABLE,
    InvarianceState,
    framed,
    given,
    layer,
    layers,
    measure,
    measured,
    moves,
    parts,
    sentence,
    sweep,
    unit_shift,
)

EXACTLY = InvarianceState(eps=0.0)


def said(state):
    """What the panel says of a state."""
    return sentence(state, measure(state).sweep.here)


def moved(state, name):
    """Largest change of the outputs that the panel draws for one normalizer."""
    (part,) = (part for part in parts(state) if part.name == name)
    return np.abs(part.after - part.before).max()


def test_layer_norm_stands_still_where_the_weights_are_rescaled():
    state = replace(EXACTLY, transformation=1, delta=100.0)
    assert moved(state, "layer") < 1e-12
    assert moved(state, "summed inputs a") > 100


def test_weight_norm_moves_where_the_data_are_rescaled():
    state = replace(EXACTLY, transformation=4, delta=2.0)
    assert moved(state, "weight") > 1
    assert moved(state, "layer") < 1e-12


@pytest.mark.parametrize("column", range(1, 7))
def test_the_sweep_says_what_table_1_says(column):
    state = replace(EXACTLY, transformation=column, normalizers=tuple(TABLE_1))
    for name, defects in sweep(state).defects.items():
        if TABLE_1[name][column - 1] == "Y":
            # a shift of 1e4 itself is rounded to 1e-12
            assert defects[LAYER_SIZES < 1e3].max() < EXACT[torch.float64]
        else:
            assert defects[LAYER_SIZES > 10].min() > 0.05


@pytest.mark.parametrize("mode", ["batch", "frozen", "recomputed"])
def test_the_table_measures_every_claim(mode):
    cells = measured(replace(EXACTLY, batch=128, mode=mode))
    agree = (cells.defects < cells.exact) == cells.claims
    assert cells.rows == TABLE
    assert agree.all(), np.argwhere(~agree)


def test_the_three_rows_of_the_paper_come_first():
    cells = measured(EXACTLY)
    rows, columns = cells.boxed
    table = {
        name: "".join("NY"[int(claim)] for claim in claims[:columns])
        for name, claims in zip(cells.rows[:rows], cells.claims, strict=False)
    }
    assert table == TABLE_1


def test_curve_marker_and_picture_measure_the_same():
    state = replace(EXACTLY, delta=-3.0, normalizers=("none", "rms"))
    swept = sweep(state)
    for name, of in layers(state).items():
        part = next(part for part in parts(state) if part.name == name)
        largest = np.abs(part.before).max()
        assert swept.here[name] == pytest.approx(moved(state, name) / largest, rel=1e-12)
        on_grid = of.against_delta(TRANSFORMATIONS[0], [-LAYER_SIZES[5]])[0]
        assert swept.defects[name][5] == on_grid


def test_the_knee_stands_where_eps_takes_half_the_variance():
    state = InvarianceState(eps=1e-4, normalizers=("layer",))
    swept = sweep(state)
    var = float(given(torch.float64, 128).summed_inputs(layers(state)["layer"].norm).var())
    assert swept.knee**2 * var == pytest.approx(1e-4)
    ratio = eps_ratio(torch.tensor(var), 1e-4, swept.knee)
    # delta^2 var = eps leaves 1/sqrt(2) of the output, but for eps beside var itself
    assert float(ratio) == pytest.approx(0.5**0.5, rel=1e-4)
    # the prediction is of one variance, and each case has its own: a factor of two
    near = swept.defects["layer"] / swept.predicted
    assert 0.3 < near.min() < near.max() < 2


@pytest.mark.parametrize(
    "state",
    [
        replace(EXACTLY),
        InvarianceState(transformation=2),
        InvarianceState(normalizers=("none",)),
    ],
)
def test_no_knee_without_eps_scale_or_invariance(state):
    swept = sweep(state)
    assert np.isnan(swept.knee)
    assert np.isnan(swept.predicted).all()


def test_of_one_unit_or_case_only_that_is_drawn():
    state = InvarianceState(batch=16)
    assert [len(part.before) for part in parts(replace(state, transformation=3))] == [16] * 4
    assert [len(part.before) for part in parts(replace(state, transformation=6))] == [64] * 4
    assert [len(part.before) for part in parts(state)] == [16 * 64] * 4


def test_axes_are_those_of_the_normalizer_whatever_the_state():
    states = [InvarianceState(), InvarianceState(delta=1e4, eps=1.0, batch=1, dtype="bfloat16")]
    first, second = ([part.reach for part in parts(state)] for state in states)
    assert first == second


def test_of_one_case_batch_norm_says_b():
    state = InvarianceState(batch=1, normalizers=("batch",), delta=1e4)
    (_, part) = parts(state)
    norm: Any = layers(state)["batch"].norm
    np.testing.assert_array_equal(part.before, norm.b.detach().numpy())
    np.testing.assert_array_equal(part.after, part.before)
    assert "its output is b, whatever comes in" in said(state)


def test_of_one_case_without_eps_batch_norm_is_no_number():
    state = InvarianceState(batch=1, normalizers=("batch",), eps=0.0)
    assert np.isnan(sweep(state).here["batch"])
    assert "batch 0/0: not a number" in said(state)


def test_frozen_statistics_know_all_cases():
    state = InvarianceState(batch=1, normalizers=("batch",), mode="frozen", transformation=4)
    (_, part) = parts(state)
    assert len(part.before) == 128 * 64
    assert np.ptp(part.before) > 1
    assert framed(state) == (3, ["batch, frozen"])


def test_only_statistics_over_cases_have_a_mode():
    state = InvarianceState(mode="frozen", normalizers=("layer", "batch"))
    modes = {name: of.statistics for name, of in layers(state).items()}
    assert modes == {"layer": Statistics.BATCH, "batch": Statistics.FROZEN}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_everything_has_the_precision_of_the_state(dtype):
    state = InvarianceState(dtype=dtype, normalizers=("layer",), transformation=7)
    of = layers(state)["layer"]
    assert of.y.dtype == of.given.W.dtype == of.norm.g.dtype == state.precision
    assert unit_shift(state.precision).dtype == state.precision
    # rounding is seen, and no more of it than the precision has
    assert 0 < sweep(state).here["layer"] < EXACT[state.precision]


def test_the_sentence_says_what_stays_and_what_moves():
    words = said(InvarianceState(normalizers=("weight", "none"), delta=10.0))
    changed = r"W → δW with δ = 10: weight unchanged to \de-16, none changed by 900 %, of"
    assert re.match(changed, words)
    assert "a shift of 1000" in said(InvarianceState(transformation=2, shift=1000.0))
    assert "Choose a normalizer" in said(InvarianceState(normalizers=()))


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        (0.0, "unchanged"),
        (1e-16, "unchanged to 1e-16"),
        (1e-9, "changed by 1e-9"),
        (0.61, "changed by 61 %"),
        (9.94, "changed by 990 %"),
        (9.99, "changed by × 10"),
        (501.2, "changed by × 501"),
        (2509.0, "changed by × 2,510"),
        (1e9, "changed by × 1e9"),
        (np.inf, "changed by × inf"),
        (np.nan, "0/0: not a number"),
    ],
)
def test_a_number_is_never_rounded_to_nothing(defect, words):
    assert moves(defect, 1e-12) == words


def test_over_a_picture_rounding_is_no_change():
    notes = {part.name: part.note for part in parts(replace(EXACTLY, transformation=4))}
    assert notes["layer"] == notes["batch"] == "unchanged"
    assert re.fullmatch(r"changed by \d+ %", notes["weight"])


def test_a_list_will_do_for_the_normalizers():
    names: Any = ["rms"]
    assert InvarianceState(normalizers=names).normalizers == ("rms",)


def test_every_row_that_can_be_chosen_is_in_the_table():
    assert set(NORMALIZERS) < set(TABLE)
    assert all(ROWS[name].statistics is Statistics.BATCH for name in NORMALIZERS)


def test_layers_leave_torchs_generator_alone():
    state = torch.get_rng_state()
    layer.cache_clear()
    sweep(InvarianceState(normalizers=("layer", "batch", "weight")))
    assert torch.equal(torch.get_rng_state(), state)
