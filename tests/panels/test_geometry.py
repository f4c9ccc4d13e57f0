"""The panel of notebook 03, driven from Python as the page would drive it."""

import numpy as np
import pytest

from lnlab import panels
from lnlab.analysis.fisher import FAMILIES, gain_metric, metric
from lnlab.figures.curves import FLOOR
from lnlab.figures.style import line
from lnlab.panels.geometry_panel import NORMALIZERS, CostCurve, costs, geometry_figure, model

NONE, LAYER, BATCH, WEIGHT = range(4)


@pytest.fixture(scope="module")
def shared():
    return panels.geometry(units=4)


@pytest.fixture
def panel(shared):
    """The panel at 4 units, on no page."""
    shared.reset()
    return shared


def value(panel, part, slot):
    """What the dot of a normalizer shows."""
    (y,) = panel.plots["geometry"].current(f"{part} {slot} here")["y"]
    return y


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NORMALIZERS)
def test_costs_are_the_curvatures_of_the_metric(name, family):
    here = (name, family, 0.5, 2.0, 4)
    glm = model(*here)
    gain = gain_metric(glm).sum() / 4
    turn, stretch = costs(*here)
    # the step of 1e-4 is small, the divergence of what is nearly the same has 8 digits
    assert stretch == pytest.approx(float(gain), rel=1e-2)
    F = metric(glm)
    D = glm.W.shape[1]
    trace = float(sum(F[i, d, i, d] for i in range(4) for d in range(D))) / (4 * D)
    assert trace / 10 < turn < 10 * trace  # one direction of 24


def test_longer_weights_cost_less_to_turn_under_a_normalizer_alone(panel):
    before = {slot: value(panel, "turn", slot) for slot in range(4)}
    panel.controls["length"].value = 2.0
    for slot, factor in ((NONE, 1), (LAYER, 4), (BATCH, 4), (WEIGHT, 4)):
        assert before[slot] / value(panel, "turn", slot) == pytest.approx(factor, rel=1e-3)


def test_larger_inputs_cost_more_without_a_normalizer_and_under_weight_norm(panel):
    before = {slot: value(panel, "stretch", slot) for slot in range(4)}
    panel.controls["inputs"].value = 10.0
    for slot, factor in ((NONE, 100), (LAYER, 1), (BATCH, 1), (WEIGHT, 100)):
        assert value(panel, "stretch", slot) / before[slot] == pytest.approx(factor, rel=1e-3)


def test_more_units_bring_eq_13_closer_under_layer_norm_alone(panel):
    before = value(panel, "error", LAYER)
    panel.controls["units"].value = 16
    assert 2 < before / value(panel, "error", LAYER) < 10
    assert value(panel, "error", BATCH) < 1e-14
    assert value(panel, "error", WEIGHT) < 1e-14


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_lines_lie_on_their_axes_and_what_is_nothing_at_the_foot(scale):
    at = np.array([0.1, 1.0, 10.0])
    curve, zero = CostCurve(at, scale / at**2, 10.0, scale / 100), CostCurve(at, 0 * at, 1.0, 0)
    figure = geometry_figure({"layer": (curve, curve, zero)})
    traces = {trace["name"]: trace for trace in figure["data"]}
    low, high = figure["layout"]["yaxis"]["range"]
    assert low <= np.log10(0.01 * scale) < np.log10(100 * scale) <= high
    assert (traces["error 0"]["y"] == FLOOR).all()
    assert figure["layout"]["yaxis3"]["range"][0] < np.log10(FLOOR)
    assert traces["turn 0"]["line"]["color"] == line("layer")["color"]
    assert not traces["turn 1"]["visible"]
