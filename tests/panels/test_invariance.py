"""The panel of notebook 02: moved as the page would, and against what it measures."""

from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lnlab.nn
from lnlab import panels
from lnlab.analysis.magnitudes import EXACT
from lnlab.nn.table1 import ROWS, TABLE_1, TRANSFORMATIONS, rescaled_output_ratio
from lnlab.panels.invariance_panel import (
    NORMALIZERS,
    PAPER,
    SWEEP,
    TABLE,
    InvariancePanelSettings,
    before_and_after_traces,
    draw,
    histogram_outline,
    invariance_defect,
    layers_by_name,
    output_axis_limit,
    pre_activation_std,
    rounding_limit,
    table_defects,
)

EXACTLY = InvariancePanelSettings(eps=0.0)


def movement(panel, slot):
    """Return how far the ends of the strings are apart."""
    x = panel.plots["movement"].current_trace(f"strings {slot}")["x"]
    return np.abs(x[0::3] - x[1::3]).max()


def traces(state):
    return {trace["name"]: trace for trace in draw(state).figure["data"]}


def test_dragging_delta_moves_the_pre_activations_and_not_layer_norm():
    panel = panels.invariance(eps=0.0, normalizers=("layer",))
    before = panel.plots["movement"].current_trace("after 1")["y"]
    for size in (1e-3, 0.1, 10.0, 1e3):
        panel.controls["delta"].value = size
        after = panel.plots["movement"].current_trace("after 1")["y"]
        np.testing.assert_array_equal(after, before)
        assert movement(panel, 1) < 1e-12
        assert movement(panel, 0) > 1
    panel.controls["delta_sign"].value = -1
    assert "δ = -1000:" in panel.footer.sentence
    assert movement(panel, 1) > 1
    panel.controls["transformation"].value = 2
    assert "a shift of -1000:" in panel.footer.sentence
    assert movement(panel, 1) < 1e-12


@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_normalizer_can_be_shown_in_every_way(name):
    for settings in (
        {"transformation": 6, "batch_size": 1, "delta": 1e4, "delta_sign": -1},
        {
            "transformation": 5,
            "statistics_source": "recomputed",
            "delta": 1e4,
            "dtype": "bfloat16",
        },
        {"transformation": 3, "statistics_source": "frozen", "eps": 0.0, "dtype": "float32"},
    ):
        assert name in draw(InvariancePanelSettings(normalizers=(name,), **settings)).sentence


def test_alone_it_shows_delta_and_a_picture_until_more_is_asked_for():
    panel = panels.invariance(only_delta=True)
    *_, more = panel.children[0].children
    assert "lnlab-alone" in panel._dom_classes
    more.value = True
    assert "lnlab-alone" not in panel._dom_classes
    assert [*panel.plots] == ["movement"]
    assert [*panel.page_values_by_field_and_label(panel.settings)] == [
        "delta", "transformation",
    ]  # fmt: skip


class Largest(lnlab.nn.AffineNormalizer):
    def stats(self, a, W=None, t=None):
        return lnlab.nn.MuSigma(a.new_zeros(()), a.abs().amax(-1, keepdim=True))


def test_a_users_normalizer_is_a_chip():
    panel = panels.invariance(own_norms={"largest": Largest}, normalizers=["weight"])
    panel.controls["normalizers"].value = ("weight", "largest")
    panel.controls["transformation"].value = 4
    assert panel.footer.error == ""
    assert movement(panel, 1) > 0.1
    assert movement(panel, 2) < 1e-12
    assert "largest unchanged" in panel.footer.sentence


def test_what_is_no_normalizer_is_no_chip():
    with pytest.raises(
        TypeError, match=r"own normalizer 'mine' is .*LayerNorm.*: give a factory"
    ):
        panels.invariance(own_norms={"mine": nn.LayerNorm})


@pytest.mark.parametrize("column", range(1, 7))
def test_the_curves_say_what_table_1_says(column):
    state = replace(EXACTLY, transformation=column, normalizers=tuple(TABLE_1))
    for slot, name in enumerate(TABLE_1, 1):
        defects = traces(state)[f"defect {slot}"]["y"]
        if TABLE_1[name][column - 1] == "Y":
            limits = [rounding_limit(ROWS[name], column, d, torch.float64) for d in SWEEP]
            assert (defects < limits).all()
        else:
            assert defects[SWEEP > 10].min() > 0.05


# bfloat16 loses every digit of the outputs in such a shift
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_large_shift_is_rounded_and_not_a_change(dtype):
    for column, delta in product((2, 5, 7, 8, 9, 10), (-1.0, 300.0, 1e4)):
        for name in NORMALIZERS:
            state = replace(
                EXACTLY, transformation=column, delta=abs(delta), delta_sign=np.sign(delta),
                dtype=str(dtype).removeprefix("torch."), normalizers=(name,),
            )  # fmt: skip
            says = f"{name} unchanged" in draw(state).sentence
            assert says == NORMALIZERS[name].claims_invariance(column), (column, delta, name)


def test_rounding_is_named_where_it_is_large():
    state = replace(EXACTLY, transformation=2, delta=1e4, normalizers=("layer",))
    assert "layer unchanged up to rounding (" in draw(state).sentence
    assert "The larger the shift, the larger the rounding errors." in draw(state).sentence
    assert "The larger" not in draw(replace(state, delta=1.0)).sentence
    assert traces(state)["note 1"]["text"] == ["unchanged"]
    _, cells = panels.invariance(**asdict(state)).plots.values()
    row, column = TABLE.index("layer"), 1
    assert "!" not in cells.current_trace("defects")["text"][row][column]


def test_the_table_measures_every_claim_and_begins_with_the_papers():
    defects = table_defects(2.51, 0.0, torch.float64, 128)
    claims = np.array(
        [[ROWS[name].claims_invariance(c) for c in range(1, 11)] for name in TABLE]
    )
    assert ((defects < EXACT[torch.float64]) == claims).all()
    papers = {
        name: "".join("NY"[int(claim)] for claim in row[:6])
        for name, row in zip(PAPER, claims, strict=False)
    }
    assert papers == TABLE_1


def test_of_a_change_of_one_unit_or_one_case_only_that_one_is_drawn():
    (layer,) = layers_by_name(InvariancePanelSettings(normalizers=("none",))).values()
    for column, values in ((3, layer.y[:, 0]), (6, layer.y[0])):
        _, heights = histogram_outline(values.numpy(), output_axis_limit(layer.row))
        drawn = before_and_after_traces(layer, column, 2.0)["before"]["y"]
        np.testing.assert_allclose(drawn, heights / heights.max())


def test_curve_marker_and_picture_measure_the_same():
    state = replace(EXACTLY, delta=3.0, delta_sign=-1, normalizers=("none", "rms"))
    markers = traces(state)["here"]["y"]
    for slot, layer in enumerate(layers_by_name(state).values(), 1):
        y = layer.output(TRANSFORMATIONS[0](layer.layer_inputs, -3.0, torch.zeros(1)))
        moved = float((y - layer.y).abs().max() / layer.y.abs().max())
        assert markers[slot - 1] == pytest.approx(moved, rel=1e-12)
        assert traces(state)[f"defect {slot}"]["y"][5] == invariance_defect(layer, 1, -SWEEP[5])


def test_the_knee_is_where_eps_takes_half_the_variance():
    state = InvariancePanelSettings(eps=1e-4, normalizers=("layer",))
    curves = traces(state)
    knee = curves["knee"]["x"][0]
    assert knee**2 * pre_activation_std() ** 2 == pytest.approx(1e-4)
    # delta^2 var = eps leaves 1/sqrt(2) of the output, but for eps beside var itself
    ratio = rescaled_output_ratio(torch.tensor(pre_activation_std() ** 2), 1e-4, knee)
    assert float(ratio) == pytest.approx(0.5**0.5, rel=1e-4)
    # the prediction is of one variance, and each example has its own: a factor of two
    near = curves["defect 1"]["y"] / curves["predicted"]["y"]
    assert 0.3 < near.min() < near.max() < 2
    for other in (EXACTLY, replace(state, transformation=2), replace(state, normalizers=())):
        assert np.isnan(traces(other)["knee"]["x"]).all()


def test_of_one_example_batch_norm_says_b_but_not_with_frozen_statistics():
    state = InvariancePanelSettings(batch_size=1, normalizers=("batch",), delta=1e4)
    norm: Any = layers_by_name(state)["batch"].norm
    np.testing.assert_array_equal(layers_by_name(state)["batch"].y[0], norm.b.detach())
    assert "for a single example its output is always the bias b" in draw(state).sentence
    assert "batch 0/0: not a number" in draw(replace(state, eps=0.0)).sentence
    assert len(layers_by_name(replace(state, statistics_source="frozen"))["batch"].y) == 128


def test_a_histogram_holds_every_value_once_those_beyond_at_its_ends_and_nan_nowhere():
    x, y = histogram_outline(np.random.default_rng(0).standard_normal(300), 4.0)
    widths, heights = np.diff(x), y[1:]
    assert heights[widths > 0].sum() == pytest.approx(1.0)
    _, y = histogram_outline(np.array([-100.0, 0.0, 7.0, np.inf]), 4.0)
    assert (y[1], y[-2]) == pytest.approx((0.25, 0.5))
    assert not histogram_outline(np.array([np.nan, np.nan]), 4.0)[1].any()
