"""Several choices at once, and a size with a sign."""

from typing import Any

import ipywidgets
import pytest

from lnlab.panels.controls import Chips, SignedLog, choice_slider, log_slider, put, typed


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
    assert chips.why.value == "2 at most: release one to choose another"
    # what a pointer over the button is told
    assert chips.buttons["layer"].tooltip == chips.why.value
    assert not chips.buttons["batch"].tooltip
    chips.value = ()
    assert chips.why.value == ""
    assert not any(b.disabled or b.value or b.tooltip for b in chips.buttons.values())


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2,5", 2.5),
        (" 2.5 ", 2.5),
        ("-3", -3.0),
        ("−3", -3.0),
        ("1e3", 1000.0),
        ("0,001", 1e-3),
    ],
)
def test_what_is_typed_is_taken(text, number):
    controls: Any = {"chips": Chips(["layer"], description="δ", most=1)}
    controls |= {"delta": SignedLog("δ", -4, 4), "size": log_slider("W times", -1, 1)}
    assert typed(text, "δ") == number
    said = put(controls, "δ", text)
    # half of a tenth of a decade
    assert controls["delta"].value == pytest.approx(number, rel=10**0.05 - 1)
    assert bool(said) == (f"{controls['delta'].value:.3g}" != f"{number:.3g}")
    assert controls["size"].value == 1.0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("W times", "1e9", "W times is 1e9: give 0.1 to 10."),
        ("W times", "-3", "W times is -3: give 0.1 to 10."),
        ("δ", "-1e9", "δ is -1e9: give 0.0001 to 10000 in size."),
        ("δ", "0", "δ is 0: give 0.0001"),
        ("δ", "much", "δ is 'much': type a number"),
        ("δ", "", "δ is '': type a number"),
        ("δ", "nan", "δ is 'nan': type a number"),
        ("δ", "1,000", "δ is '1,000': write 1000 without the comma."),
    ],
)
def test_what_cannot_be_taken_is_refused_in_words(name, text, says):
    controls: Any = {"chips": Chips(["layer"], description="δ", most=1)}
    controls |= {"delta": SignedLog("δ", -4, 4), "size": log_slider("W times", -1, 1)}
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        put(controls, name, text)
    assert controls["delta"].value == controls["size"].value == 1.0


EPSILONS = [("0", 0.0), ("1e-05", 1e-5), ("0.1", 0.1)]
BATCHES = [(str(batch), batch) for batch in (1, 8, 1024)]


def listed() -> Any:
    """Sliders over a list of values, and over whole numbers."""
    pen = ipywidgets.IntSlider(description="pen, %", min=0, max=100)
    return {
        "eps": choice_slider("ε", EPSILONS),
        "batch": choice_slider("batch size", BATCHES),
        "pen": pen,
    }


@pytest.mark.parametrize(
    ("control", "text", "value", "says"),
    [
        ("eps", "1e-5", 1e-5, ""),
        ("eps", "0,09", 0.1, "ε stands at 0.1, the place of its slider nearest to 0,09."),
        ("batch", "1024", 1024, ""),
        ("batch", "1023", 1024, "batch size stands at 1024, the place of its slider near"),
        ("pen", "40", 40, ""),
        ("pen", "2,5", 2, "pen, % stands at 2, the place of its slider nearest to 2,5."),
    ],
)
def test_a_number_is_taken_beside_a_slider_over_a_list(control, text, value, says):
    controls = listed()
    said = put(controls, controls[control].description, text)
    assert controls[control].value == value
    assert said.startswith(says)
    assert bool(said) == bool(says)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("ε", "-3", "ε is -3: give 0 to 0.1."),
        ("batch size", "1e9", "batch size is 1e9: give 1 to 1024."),
        ("pen, %", "101", "pen, % is 101: give 0 to 100."),
    ],
)
def test_what_a_list_does_not_reach_is_refused_in_words(name, text, says):
    controls = listed()
    before = [control.value for control in controls.values()]
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        put(controls, name, text)
    assert [control.value for control in controls.values()] == before
