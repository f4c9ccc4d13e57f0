"""Several choices at once, and a size with a sign."""

import pytest

from lnlab.panels.controls import Chips, SignedLog


@pytest.fixture
def chips():
    return Chips(["layer", "batch", "weight"], description="normalizers", most=2)


@pytest.fixture
def heard():
    """Values that a control has reported, in order."""
    return []


def test_values_press_buttons_and_buttons_make_values(chips, heard):
    chips.observe(lambda change: heard.append(change["new"]), "value")
    chips.value = ("weight", "batch")
    assert [name for name, b in chips.buttons.items() if b.value] == ["batch", "weight"]
    chips.buttons["weight"].value = False
    chips.buttons["layer"].value = True
    assert heard == [("weight", "batch"), ("batch",), ("batch", "layer")]


def test_no_more_than_the_most_can_be_pressed(chips):
    chips.value = ("weight", "batch")
    assert [name for name, b in chips.buttons.items() if b.disabled] == ["layer"]
    with pytest.raises(ValueError, match="at most 2"):
        chips.value = ("weight", "batch", "layer")
    assert chips.value == ("weight", "batch")
    chips.value = ()
    assert not any(b.disabled or b.value for b in chips.buttons.values())


def test_an_unknown_choice_is_refused_by_name(chips):
    with pytest.raises(ValueError, match="'nobody' is no choice: choose from layer, batch"):
        chips.value = ("nobody",)


def test_a_signed_number_goes_to_both_its_parts_and_back(heard):
    control = SignedLog("δ", -4, 4)
    control.observe(lambda change: heard.append(change["new"]), "value")
    control.value = -100.0
    assert (control.size.value, control.sign.value) == (100.0, -1)
    control.size.value = 10.0
    control.sign.value = 1
    assert heard == [-100.0, -10.0, 10.0]
