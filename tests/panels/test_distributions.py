"""The panel of notebook 15, driven from Python as the page would drive it."""

import numpy as np
import pytest

from lnlab import panels

STEPS = [2, 4, 6]


@pytest.fixture(scope="module")
def shared(frames):
    return panels.distributions(frames)


@pytest.fixture
def panel(shared):
    shared.reset()
    return shared


def median(panel, slot):
    return panel.plots["distributions"].current(f"median {slot}")["y"]


def edges(panel, slot):
    wide = panel.plots["distributions"].current(f"wide {slot}")["y"]
    return wide.max(), wide.min()


def test_layers_stand_in_their_order(panel, frames):
    panel.controls["net"].value = "deep"
    at = panel.plots["distributions"].current("wide 1")
    np.testing.assert_array_equal(at["x"][:12], np.arange(1.0, 13))
    uppers = at["y"][:12]
    np.testing.assert_allclose(uppers[1:] / uppers[:-1], 0.5)  # layer 10 behind layer 2


def test_the_step_is_the_one_that_was_recorded(panel, frames):
    for step in STEPS:
        panel.controls["step"].value = step
        high, _ = edges(panel, 0)
        frame = frames["shallow"]["none"]
        row = frame[
            (frame.step == step) & (frame.name == "1") & (frame["what"] == "activations")
        ]
        assert high == pytest.approx(row.q95.iloc[0])
        assert panel.bar.sentence.startswith(f"shallow: what f is given, step {step}.")
    assert list(panel.controls["step"].options) == [(str(s), s) for s in STEPS]


def test_activations_keep_their_axis_and_gradients_follow_it(panel):
    def reach():
        return panel.plots["distributions"]._layout["yaxis"]["range"][1]

    for what, same in (("activations", True), ("gradients", False)):
        panel.controls["what"].value = what
        seen = []
        for step in STEPS:
            panel.controls["step"].value = step
            seen.append(reach())
            assert max(edges(panel, 0)[0], edges(panel, 1)[0]) <= seen[-1]
        assert (len(set(seen)) == 1) == same


def test_the_sentence_has_the_ratio_of_widths(panel):
    panel.controls["net"].value = "deep"
    assert panel.bar.sentence.endswith("none 1, layer 5e-4.")


def test_what_was_not_recorded_shows_nothing(frames):
    heard = {"net": {"none": frames["shallow"]["none"].query("what == 'activations'")}}
    panel = panels.distributions(heard, what="gradients")
    assert panel.bar.error == ""
    assert panel.bar.sentence.endswith("There is nothing to see of it.")


def test_records_of_different_steps_are_refused(frames):
    other = frames["shallow"]["none"].query("step > 2")
    with pytest.raises(ValueError, match="different steps"):
        panels.distributions({"net": {"none": frames["shallow"]["none"], "layer": other}})
    with pytest.raises(ValueError, match="nothing was recorded"):
        panels.distributions({"net": {}})


def test_subplots_share_a_scale_and_hold_quantiles(panel, frames):
    layout = panel.plots["distributions"]._layout
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"]
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    frame = frames["shallow"]["layer"].query("what == 'activations' and step == 2")
    for ribbon, low, high in (("wide", "q05", "q95"), ("half", "q25", "q75")):
        y = panel.plots["distributions"].current(f"{ribbon} 1")["y"]
        np.testing.assert_array_equal(y, [*frame[high], *frame[low][::-1]])
    assert not panel.plots["distributions"].current("median 2")["visible"]
