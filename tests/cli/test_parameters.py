"""Seeds as people write them."""

import pytest

from lnlab.cli.parameters import seeds, value


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("3", [0, 1, 2]),
        ("3-5", [3, 4, 5]),
        ("3 4", [3, 4]),
        ("3,4", [3, 4]),
        (" 3, 4 ,", [3, 4]),
        ("[3, 4]", [3, 4]),
        ("(7,)", [7]),
        ("7,", [7]),
        ("[7]", [7]),
        ("[]", []),
    ],
)
def test_seeds_are_a_number_of_them_a_list_or_a_range(text, meant):
    assert seeds(text) == value("seeds", text) == meant


@pytest.mark.parametrize("text", ["", "0", "x", "3.5", "5-3", "-1", "1,,x", "3 3", "1-2-3"])
def test_anything_else_is_refused_with_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"-p seeds .*: write how many \(3 is 0, 1, 2\)"):
        seeds(text)


def test_other_parameters_are_python_or_text():
    assert value("units", "8,8") == [8, 8]
    assert value("data", "an4=x y") == "an4=x y"
