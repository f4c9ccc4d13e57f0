"""Several choices at once, a size with a sign, and numbers that are typed."""

from typing import Any

import ipywidgets
import numpy as np
import pytest

from lnlab.panels.controls import (
    Chips,
    SignedLog,
    choice,
    choice_slider,
    list_stops,
    log_slider,
    set_typed,
    text_box,
)


@pytest.fixture
def chips():
    return Chips("normalizers", ["layer", "batch", "weight"], max_chosen=2)


def test_no_more_than_the_most_can_be_pressed(chips):
    chips.value = ("weight", "batch")
    assert [name for name, b in chips.buttons.items() if b.disabled] == ["layer"]
    with pytest.raises(ValueError, match="at most 2"):
        chips.value = ("weight", "batch", "layer")
    with pytest.raises(ValueError, match="is 'nobody': choose from layer, batch"):
        chips.value = ("nobody",)
    assert chips.value == ("weight", "batch")
    # what a pointer over the button is told
    assert chips.buttons["layer"].tooltip == chips.why.value != ""
    assert chips.why.value == "2 at most: release one to choose another"
    chips.value = ()
    assert not any(b.disabled or b.value or b.tooltip for b in chips.buttons.values())


def test_a_signed_number_goes_to_both_its_parts_and_back():
    control, values = SignedLog("δ", -4, 4), []
    control.observe(lambda change: values.append(change["new"]), "value")
    control.value = -100.0
    assert (control.size.value, control.sign.value) == (100.0, -1)
    control.size.value = 10.0
    control.sign.value = 1
    assert values == [-100.0, -10.0, 10.0]


def sliders() -> Any:
    return {
        "chips": Chips("normalizers", ["layer"], max_chosen=1),
        "delta": SignedLog("δ", -4, 4),
        "size": log_slider("W times", -1, 1),
        "eps": choice_slider("ε", [0.0, 1e-5, 0.1]),
        "batch": choice_slider("batch size", [1, 8, 1024]),
        "pen": ipywidgets.IntSlider(description="pen, %", min=0, max=100),
    }


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("δ", "2,5", 2.51),
        ("δ", " −3 ", -3.16),
        ("ε", "1e-5", 1e-5),
        ("ε", "0,09", 0.1),
        ("pen, %", "40", 40),
    ],
)
def test_a_number_that_is_typed_is_taken_or_the_nearest_place(name, text, value):
    controls = sliders()
    note = set_typed(controls, name, text)
    (control,) = (
        each for each in controls.values() if getattr(each, "size", each).description == name
    )
    assert control.value == pytest.approx(value, rel=2e-3)
    typed = float(text.replace(",", ".").replace("−", "-"))
    assert bool(note) == (typed != value)
    assert not note or f"{name} stands at {value:g}, the place of its slider nearest" in note


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("W times", "1e9", "W times is 1e9: give 0.1 to 10."),
        ("δ", "-1e9", "δ is -1e9: give 0.0001 to 10000 in size."),
        ("δ", "much", "δ is 'much': type a number"),
        ("δ", "1,000", "δ is '1,000': write 1000 without the comma."),
        ("pen, %", "101", "pen, % is 101: give 0 to 100."),
    ],
)
def test_what_cannot_be_taken_is_refused_in_words(name, text, says):
    controls = sliders()
    before = [control.value for control in controls.values()]
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        set_typed(controls, name, text)
    assert [control.value for control in controls.values()] == before


def test_on_a_page_a_control_stops_at_its_places_and_at_its_value():
    found = list_stops(log_slider("W times", -1, 1), 2.51)
    assert [*found][:3] + [*found][-1:] == ["0.1", "0.126", "0.158", "10"]
    np.testing.assert_allclose([*found.values()], np.logspace(-1, 1, 21), rtol=1e-3)
    assert found["2.51"] == 2.51, "in place of its equal"
    assert list_stops(choice("cell", {"a": 1, "b": 2}), 1) == {"a": 1, "b": 2}
    assert [*list_stops(text_box("caption", ["one", "two"]), "mine")] == ["mine", "one", "two"]


def test_options_of_one_label_are_all_there():
    options = choice_slider("epoch", [1.0, 1234567.0, 1234568.0]).options
    labels, values = zip(*options, strict=True)
    assert labels == ("1", "1.23457e+06", "1.23457e+06 (2)")
    assert values == (1.0, 1234567.0, 1234568.0)
