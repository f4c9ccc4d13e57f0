"""Several choices at once, values of controls on a page, and the player."""

import numpy as np
import pytest

from lnlab.panels.controls import (
    MultiSelectButtons,
    control_values_by_label,
    dropdown,
    log_slider,
    options_slider,
    play_buttons,
    text_box,
)


@pytest.fixture
def chips():
    return MultiSelectButtons("normalizers", ["layer", "batch", "weight"], max_chosen=2)


def test_no_more_than_the_most_can_be_pressed(chips):
    chips.value = ("weight", "batch")
    assert [name for name, b in chips.buttons.items() if b.disabled] == ["layer"]
    with pytest.raises(ValueError, match="at most 2"):
        chips.value = ("weight", "batch", "layer")
    with pytest.raises(ValueError, match="is 'nobody': choose from layer, batch"):
        chips.value = ("nobody",)
    assert chips.value == ("weight", "batch")
    assert chips.full.value == "2 at most: deselect one to choose another"
    chips.value = ()
    assert not any(b.disabled or b.value for b in chips.buttons.values())


def test_a_player_moves_its_slider_from_end_to_end_while_it_can_be_moved():
    slider = log_slider("δ", -4, 4)
    play = play_buttons(slider, step=2, interval_ms=120)
    play.value = play.max
    assert slider.value == 1e4
    play.value = 0
    assert slider.value == 1e-4
    slider.disabled = True
    assert play.disabled


def test_on_a_page_a_control_stops_at_its_places_and_at_its_value():
    found = control_values_by_label(log_slider("W times", -1, 1), 2.51)
    assert [*found][:3] + [*found][-1:] == ["0.1", "0.126", "0.158", "10"]
    np.testing.assert_allclose([*found.values()], np.logspace(-1, 1, 21), rtol=1e-3)
    assert found["2.51"] == 2.51, "in place of its equal"
    assert [*control_values_by_label(log_slider("δ", -4, 4), 3.0, [0.1, 3.001])] == ["0.1", "3"]
    assert control_values_by_label(dropdown("cell", {"a": 1, "b": 2}), 1) == {"a": 1, "b": 2}
    assert [*control_values_by_label(text_box("caption", ["one", "two"]), "mine")] == [
        "mine",
        "one",
        "two",
    ]


def test_a_slider_over_values_starts_at_its_first_or_last():
    for at_end, value in ((False, 0.5), (True, 1234568.0)):
        slider = options_slider("epoch", [0.5, 1234567.0, 1234568.0], start_at_last=at_end)
        assert [label for label, _ in slider.options] == ["0.5", "1.23457e+06", "1.23457e+06"]
        assert slider.value == value
