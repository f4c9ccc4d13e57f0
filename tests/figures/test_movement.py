"""Distributions before and after, strings between them, and defects over sizes."""

from typing import Any

import numpy as np
import pytest

from lnlab.figures.style import line
from lnlab.panels.invariance_panel import (
    FLOOR,
    SLOTS,
    Moved,
    Sweep,
    movement,
    movement_layout,
    movement_traces,
    outline,
    shown,
    strings,
)

SIZES = np.logspace(-2, 2, 9)


def values(scale=1.0):
    return scale * np.random.default_rng(0).standard_normal(300)


def picture(names=("layer", "none"), scale=1.0, here=1e-3):
    parts = [Moved(name, values(), values(scale), reach=4.0) for name in ("a", *names)]
    sweep = Sweep(
        what="size of δ",
        sizes=SIZES,
        defects={name: np.full(len(SIZES), here) for name in names},
        size=10.0,
        here=dict.fromkeys(names, here),
        predicted=np.full(len(SIZES), np.nan),
        knee=np.nan,
    )
    return parts, sweep


def test_an_outline_holds_every_value_once():
    x, y = outline(values(), 4.0)
    widths, heights = np.diff(x), y[1:]
    bins = widths > 0
    assert heights[bins].sum() == pytest.approx(1.0)
    assert (x[0], x[-1], y[0], y[-1]) == (-4.0, 4.0, 0.0, 0.0)


def test_values_beyond_the_axis_are_piled_up_at_its_ends():
    _, y = outline(np.array([-100.0, 0.0, 7.0, np.inf]), 4.0)
    assert y[1] == pytest.approx(0.25)
    assert y[-2] == pytest.approx(0.5)


def test_nan_is_in_no_bin():
    _, y = outline(np.array([np.nan, np.nan]), 4.0)
    assert not y.any()


def test_strings_hang_straight_where_nothing_moves():
    x, y = strings(values(), values(), 4.0)
    top, bottom = x[0::3], x[1::3]
    np.testing.assert_array_equal(top, bottom)
    assert np.isnan(x[2::3]).all()
    assert (np.diff(top) >= 0).all()
    assert len(set(y[0::3])) == len(set(y[1::3])) == 1


def test_strings_cross_where_the_sign_is_turned():
    x, _ = strings(values(), -values(), 10.0)
    np.testing.assert_allclose(x[0::3], -x[1::3])


def test_one_value_has_one_string():
    assert len(strings(np.ones(1), np.ones(1), 4.0)[0]) == 3


def test_a_prediction_is_dashed_and_drawn_over_what_was_measured():
    figure: Any = movement(*picture())
    order = [trace.name for trace in figure.data]
    assert order.index("predicted") > order.index("defect 1")
    looks = {trace.name: trace.line.dash for trace in figure.data}
    assert (looks["predicted"], looks["defect 1"]) == ("dash", "solid")


def test_what_stays_is_drawn_on_itself_and_what_moves_is_not():
    for scale, same in ((1.0, True), (1.5, False)):
        traces = movement_traces(*picture(scale=scale))
        assert np.array_equal(traces["before 1"]["y"], traces["after 1"]["y"]) is same


def test_axes_do_not_depend_on_what_moved():
    assert movement_layout(*picture(scale=1.0)) == movement_layout(*picture(scale=50.0))


def test_an_exact_zero_stands_on_the_floor_and_a_small_defect_above_it():
    drawn = shown(np.array([0.0, 1e-16, 0.3, np.nan]))
    np.testing.assert_array_equal(drawn, [FLOOR, 1e-16, 0.3, np.nan])
    axis = movement_layout(*picture())[f"yaxis{SLOTS + 1}"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True))[FLOOR] == "0"
    assert axis["range"][0] < np.log10(FLOOR)


@pytest.mark.parametrize("count", range(SLOTS))
def test_every_trace_that_is_named_is_drawn(count):
    names = ("layer", "batch", "weight", "none")[:count]
    parts, sweep = picture(names)
    figure: Any = movement(parts, sweep)
    traces = movement_traces(parts, sweep)
    assert set(traces) == {trace.name for trace in figure.data}
    visible = [t.name for t in figure.data if t.visible is not False and "after" in t.name]
    assert visible == [f"after {slot}" for slot in range(count + 1)]
    assert [a.text for a in figure.layout.annotations] == [
        f"<b>{name}</b>" for name in ("a", *names)
    ]


def test_a_curve_has_the_line_of_its_normalizer():
    figure: Any = movement(*picture(("rms",)))
    (curve,) = (trace for trace in figure.data if trace.name == "defect 1")
    assert curve.line.color == line("rms")["color"]
    np.testing.assert_array_equal(curve.x, SIZES)
