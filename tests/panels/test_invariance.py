"""The panel of notebook 02: driven as the page would, and against what it measures."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lnlab.nn
from lnlab import panels
from lnlab.analysis.magnitudes import EXACT
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS, Statistics, eps_ratio
from lnlab.panels.controls import digits
from lnlab.panels.invariance_panel import (
    FLOOR,
    NORMALIZERS,
    PAPER,
    SWEEP,
    TABLE,
    InvarianceState,
    cell,
    change_in_words,
    defect,
    histogram,
    layers,
    on_axis,
    page_change,
    page_size,
    show,
    spread,
    strings,
    table_defects,
    table_figure,
)

EXACTLY = InvarianceState(eps=0.0)


@pytest.fixture(scope="module")
def shared():
    return panels.invariance(eps=0.0)


@pytest.fixture
def panel(shared):
    """The panel at eps = 0, on no page."""
    shared.state = EXACTLY
    return shared


def trace(panel, name):
    return panel.plots["movement"].current(name)


def movement(panel, slot):
    """How far the ends of the strings are apart."""
    x = trace(panel, f"strings {slot}")["x"]
    return np.abs(x[0::3] - x[1::3]).max()


def traces(state):
    return {trace["name"]: trace for trace in show(state).figure["data"]}


def here(state):
    """The defects that the markers stand at."""
    return dict(zip(state.normalizers, traces(state)["here"]["y"], strict=True))


# What it shows.


def test_dragging_delta_moves_the_pre_activations_and_not_layer_norm(panel):
    panel.state = replace(EXACTLY, normalizers=("layer",))
    before = trace(panel, "after 1")["y"]
    for size in (1e-3, 0.1, 10.0, 1e3):
        panel.controls["delta"].size.value = size
        np.testing.assert_array_equal(trace(panel, "after 1")["y"], before)
        assert movement(panel, 1) < 1e-12
        assert movement(panel, 0) > 1
    panel.controls["delta"].sign.value = -1
    assert panel.state.delta == -1e3
    assert movement(panel, 1) > 1


def test_weight_norm_moves_with_the_data(panel):
    panel.state = replace(EXACTLY, transformation=4, normalizers=("weight", "layer"))
    panel.controls["delta"].size.value = 100.0
    assert movement(panel, 1) > 1
    assert movement(panel, 2) < 1e-12
    assert "weight changed by" in panel.bar.sentence


def test_only_the_control_that_is_read_can_be_moved(panel):
    for change in TRANSFORMATIONS:
        panel.controls["transformation"].value = change.column
        assert panel.controls["delta"].size.disabled is not change.scales
        assert panel.controls["shift"].disabled is change.scales
        reasons = panel.controls["delta"].why.value, panel.controls["shift"].why.value
        assert [bool(why) for why in reasons] == [not change.scales, change.scales]


@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_normalizer_can_be_looked_at_in_every_way(name):
    for settings in (
        {"transformation": 6, "batch": 1, "delta": -1e4},
        {"transformation": 5, "mode": "recomputed", "shift": 1e4, "dtype": "bfloat16"},
        {"transformation": 3, "mode": "frozen", "eps": 0.0, "dtype": "float32"},
    ):
        assert name in show(InvarianceState(normalizers=(name,), **settings)).sentence


def test_alone_it_shows_delta_and_a_picture_until_more_is_asked_for():
    panel = panels.invariance(alone=True)
    delta, _, more, rest = panel.children[0].children
    assert delta is panel.controls["delta"]
    hidden = [rest, panel.plots["table"], delta.sign]
    assert [part.layout.display for part in hidden] == ["none"] * 3
    more.value = True
    assert [part.layout.display for part in hidden] == [""] * 3
    assert "lnlab-beside" not in panel._dom_classes


def test_played_delta_goes_to_its_end_and_begins_again_if_it_can_be_moved(panel):
    seen = []
    for _ in range(41):
        panel._on_message(None, {"kind": "step"}, None)
        seen.append(panel.state.delta)
    assert max(seen) == 1e4
    assert min(seen) == seen[seen.index(1e4) + 1] == 1e-4
    assert seen[-1] == 2.51
    panel.controls["transformation"].value = 2
    panel._on_message(None, {"kind": "step"}, None)
    assert "this change adds a shift and has no δ" in panel.bar.error
    assert panel.state.delta == 2.51


class Largest(lnlab.nn.AffineNormalizer):
    def stats(self, a, W=None, t=None):
        return lnlab.nn.Stats(a.new_zeros(()), a.abs().amax(-1, keepdim=True))


def test_a_normalizer_of_ones_own_is_a_chip():
    panel = panels.invariance(own={"largest": Largest}, normalizers=["weight"])
    panel.controls["normalizers"].value = ("weight", "largest")
    panel.controls["transformation"].value = 4
    assert panel.bar.error == ""
    assert movement(panel, 1) > 0.1
    assert movement(panel, 2) < 1e-12
    assert "largest unchanged" in panel.bar.sentence
    again = panels.invariance(own={"largest": Largest}, **panel.parameters)
    assert again.bar.sentence == panel.bar.sentence


@pytest.mark.parametrize(
    ("name", "norm", "says"),
    [
        ("mine", nn.LayerNorm, "own normalizer 'mine' makes a LayerNorm: give a factory such"),
        ("mine", "layer", "own normalizer 'mine' is 'layer': give a factory such"),
        ("rms", Largest, "own normalizer 'rms': this name is taken"),
    ],
)
def test_what_is_no_normalizer_is_no_chip(name, norm, says):
    with pytest.raises((TypeError, ValueError), match=says):
        panels.invariance(own={name: norm})


@pytest.mark.parametrize("delta", [2.51, -2.5])
def test_on_a_page_the_one_slider_is_the_size_of_whichever_change(delta):
    state = InvarianceState(delta=delta)
    size, change = page_size(state), page_change(state)
    for words, value in size.stops.items():
        for column in change.stops.values():
            there = change.put(size.put(state, value), column)
            assert there.transformation == column
            assert digits(abs(there.amount)) == words
            assert np.sign(there.delta) == np.sign(delta)


# What it measures.


@pytest.mark.parametrize("column", range(1, 7))
def test_the_curves_say_what_table_1_says(column):
    state = replace(EXACTLY, transformation=column, normalizers=tuple(TABLE_1))
    for slot, name in enumerate(TABLE_1, 1):
        defects = traces(state)[f"defect {slot}"]["y"]
        if TABLE_1[name][column - 1] == "Y":
            # a shift of 1e4 itself is rounded to 1e-12
            assert defects[SWEEP < 1e3].max() < EXACT[torch.float64]
        else:
            assert defects[SWEEP > 10].min() > 0.05


def test_the_table_measures_every_claim_and_begins_with_the_papers():
    defects = table_defects(2.51, 1.0, 0.0, torch.float64, 128)
    claims = np.array([[ROWS[name].claims(c) for c in range(1, 11)] for name in TABLE])
    assert ((defects < EXACT[torch.float64]) == claims).all()
    papers = {
        name: "".join("NY"[int(claim)] for claim in row[:6])
        for name, row in zip(PAPER, claims, strict=False)
    }
    assert papers == TABLE_1
    assert set(NORMALIZERS) < set(TABLE)


def test_curve_marker_and_picture_measure_the_same():
    state = replace(EXACTLY, delta=-3.0, normalizers=("none", "rms"))
    for slot, (name, of) in enumerate(layers(state).items(), 1):
        y = of.output(TRANSFORMATIONS[0](of.given, -3.0, torch.zeros(1)))
        moved = float((y - of.y).abs().max() / of.y.abs().max())
        assert here(state)[name] == pytest.approx(moved, rel=1e-12)
        assert traces(state)[f"defect {slot}"]["y"][5] == defect(of, 1, -SWEEP[5])


def test_the_knee_stands_where_eps_takes_half_the_variance():
    state = InvarianceState(eps=1e-4, normalizers=("layer",))
    drawn = traces(state)
    knee = drawn["knee"]["x"][0]
    assert knee**2 * spread() ** 2 == pytest.approx(1e-4)
    # delta^2 var = eps leaves 1/sqrt(2) of the output, but for eps beside var itself
    ratio = eps_ratio(torch.tensor(spread() ** 2), 1e-4, knee)
    assert float(ratio) == pytest.approx(0.5**0.5, rel=1e-4)
    # the prediction is of one variance, and each case has its own: a factor of two
    near = drawn["defect 1"]["y"] / drawn["predicted"]["y"]
    assert 0.3 < near.min() < near.max() < 2
    for other in (EXACTLY, replace(state, transformation=2), replace(state, normalizers=())):
        assert np.isnan(traces(other)["knee"]["x"]).all()


def test_axes_are_those_of_the_normalizer_whatever_the_state():
    states = [InvarianceState(), InvarianceState(delta=1e4, eps=1.0, batch=1, dtype="bfloat16")]
    ranges = [
        [show(state).figure["layout"][f"xaxis{n}"]["range"] for n in ("", 2, 3, 4)]
        for state in states
    ]
    assert ranges[0] == ranges[1]


def test_of_one_case_batch_norm_says_b_and_without_eps_is_no_number():
    state = InvarianceState(batch=1, normalizers=("batch",), delta=1e4)
    norm: Any = layers(state)["batch"].norm
    np.testing.assert_array_equal(layers(state)["batch"].y[0], norm.b.detach())
    assert "its output is b, whatever comes in" in show(state).sentence
    assert "batch 0/0: not a number" in show(replace(state, eps=0.0)).sentence


def test_only_statistics_over_cases_have_a_mode_and_frozen_ones_know_all_cases():
    state = InvarianceState(mode="frozen", normalizers=("layer", "batch"), batch=1)
    modes = {name: of.statistics for name, of in layers(state).items()}
    assert modes == {"layer": Statistics.BATCH, "batch": Statistics.FROZEN}
    assert len(layers(state)["batch"].y) == 128


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_everything_has_the_precision_of_the_state(dtype):
    state = InvarianceState(dtype=dtype, normalizers=("layer",), transformation=7)
    of = layers(state)["layer"]
    assert of.y.dtype == of.given.W.dtype == of.norm.g.dtype == getattr(torch, dtype)
    # rounding is seen, and no more of it than the precision has
    assert 0 < here(state)["layer"] < EXACT[of.y.dtype]


def test_the_sentence_says_what_stays_and_what_moves():
    words = show(InvarianceState(normalizers=("weight", "none"), delta=10.0)).sentence
    changed = r"W → δW with δ = 10: weight unchanged to \de-16, none changed by 900 %, of"
    assert re.match(changed, words)
    shift = InvarianceState(transformation=2, shift=1000.0)
    assert "a shift of 1000" in show(shift).sentence
    assert "Choose a normalizer" in show(InvarianceState(normalizers=())).sentence


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        (0.0, "unchanged"),
        (1e-16, "unchanged to 1e-16"),
        (1e-9, "changed by 1e-9"),
        (0.61, "changed by 61 %"),
        (9.94, "changed by 990 %"),
        (9.99, "changed by × 10"),
        (2509.0, "changed by × 2,510"),
        (1e9, "changed by × 1e9"),
        (np.inf, "changed by × inf"),
        (np.nan, "0/0: not a number"),
    ],
)
def test_a_number_is_never_rounded_to_nothing(defect, words):
    assert change_in_words(defect, 1e-12) == words


# How it draws.


def test_a_histogram_holds_every_value_once_those_beyond_at_its_ends_and_nan_nowhere():
    x, y = histogram(np.random.default_rng(0).standard_normal(300), 4.0)
    widths, heights = np.diff(x), y[1:]
    assert heights[widths > 0].sum() == pytest.approx(1.0)
    assert (x[0], x[-1], y[0], y[-1]) == (-4.0, 4.0, 0.0, 0.0)
    _, y = histogram(np.array([-100.0, 0.0, 7.0, np.inf]), 4.0)
    assert (y[1], y[-2]) == pytest.approx((0.25, 0.5))
    assert not histogram(np.array([np.nan, np.nan]), 4.0)[1].any()


def test_strings_hang_straight_where_nothing_moves_and_cross_where_the_sign_turns():
    values = np.random.default_rng(0).standard_normal(300)
    x, y = strings(values, values, 4.0)
    np.testing.assert_array_equal(x[0::3], x[1::3])
    assert np.isnan(x[2::3]).all()
    assert len(set(y[0::3])) == len(set(y[1::3])) == 1
    x, _ = strings(values, -values, 10.0)
    np.testing.assert_allclose(x[0::3], -x[1::3])
    assert len(strings(np.ones(1), np.ones(1), 4.0)[0]) == 3


def test_an_exact_zero_stands_on_the_floor_where_it_says_0():
    drawn = on_axis(np.array([0.0, 1e-16, 0.3, np.nan]))
    np.testing.assert_array_equal(drawn, [FLOOR, 1e-16, 0.3, np.nan])
    axis = show(EXACTLY).figure["layout"]["yaxis6"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True))[FLOOR] == "0"


@pytest.mark.parametrize(
    ("defect", "claim", "text"),
    [
        (2e-16, True, "✓ 2e-16"),
        (0.5, False, "✗ 0.5"),
        (4e-7, True, "<b>✓ 4e-7!</b>"),
        (0.0, False, "<b>✗ 0!</b>"),
        (np.nan, True, "NaN"),
    ],
)
def test_a_cell_says_whether_the_claim_holds(defect, claim, text):
    assert cell(defect, claim, 1e-12) == text


def test_the_table_frames_the_papers_cells_and_the_column_and_colours_the_rows():
    layout = table_figure(replace(EXACTLY, transformation=2, normalizers=("layer",)))["layout"]
    paper, chosen = layout["shapes"]
    assert [paper[key] for key in ("x0", "x1", "y0", "y1")] == [-0.5, 5.5, -0.5, 2.5]
    assert [chosen[key] for key in ("x0", "x1")] == [0.5, 1.5]
    labels = dict(zip(TABLE, layout["yaxis"]["ticktext"], strict=True))
    assert labels["batch"] == "batch"
    assert "#0072B2" in labels["layer"]
