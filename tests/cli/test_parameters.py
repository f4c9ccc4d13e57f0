"""Seeds as people write them."""

import pytest

from lnlab.cli.notebooks import BUDGETS, check_available, parse_parameter
from lnlab.cli.train import parse_settings
from lnlab.papers import TASKS
from lnlab.seeds import read_seeds


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
    assert parse_parameter("seeds", text) == meant
    assert read_seeds(text) == tuple(meant)


def test_seeds_mean_the_same_wherever_they_are_said():
    kind = TASKS["mnist"]
    for said, meant in ((3, (0, 1, 2)), ([3], (3,)), ((4, 1), (4, 1))):
        text = str(said)  # as a command line has it; papermill makes a Python value of it
        assert (
            tuple(parse_parameter("seeds", text))
            == parse_settings(kind, [f"seeds={text}"])["seeds"]
        )
        assert read_seeds(said) == read_seeds(text) == meant
        assert kind.budget("smoke", seeds=said).seeds == meant
        assert {arm.seeds for arm in kind.arms("smoke", seeds=said).values()} == {meant}
    assert kind.budget("smoke", seeds=[]).seeds == kind.budget("smoke").seeds
    for wrong in ("[1", 0, -1, [1, 1], [0.5], True):
        with pytest.raises(ValueError, match=r"^seeds "):
            kind.budget("smoke", seeds=wrong)


@pytest.mark.parametrize(
    "text",
    ["", "0", "x", "3.5", "5-3", "-1", "1,,x", "3,,4", "3 3", "1-2-3", "[1", "1]", "[1)"],
)
def test_anything_else_is_refused_with_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"-p seeds .*: write how many \(3 is 0, 1, 2\)"):
        parse_parameter("seeds", text)


def test_other_parameters_are_python_or_text():
    assert parse_parameter("units", "8,8") == [8, 8]
    assert parse_parameter("data", "fsdd=x y") == "fsdd=x y"


def test_a_value_is_of_the_kind_of_its_default():
    assert parse_parameter("panel", '{"delta": 2}', {}) == {"delta": 2}
    assert parse_parameter("seed", "7", 0) == 7
    assert parse_parameter("sources", "6.60", "") == "6.60"
    for text, default, what in (
        ("3", {}, r"-p it '3': write names and values in braces"),
        ("{3}", {}, "in braces"),
        ("one", 0, "'one': write a whole number"),
        ("True", 0, "a whole number"),
    ):
        with pytest.raises(ValueError, match=what):
            parse_parameter("it", text, default)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("budget", "tiny", "'tiny': choose from smoke, notebook, paper"),
        ("device", "gpu", "'gpu': write auto, cpu, cuda"),
        ("data", "mnst", "unknown data 'mnst': choose from embedded, "),
    ],
)
def test_what_no_notebook_could_use_is_refused_at_once(name, text, what):
    with pytest.raises(ValueError, match=what):
        parse_parameter(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("budget", "smoke"),
        ("device", "cuda:1"),
        ("device", "auto"),
        ("data", ""),
        ("data", "mnist=some/where"),
    ],
)
def test_what_a_notebook_may_be_told_is_taken(name, text):
    assert parse_parameter(name, text) == text


def test_every_experiment_has_the_budgets_that_a_notebook_may_be_told():
    assert all(tuple(task.budgets()) == BUDGETS for task in TASKS.values())


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"device": "cuda:77"}, "'cuda:77' cannot be used here"),
        ({"data": "mnist"}, "-p data mnist: not here: lnlab data fetch mnist brings"),
        ({"data": "mnist=no/where"}, "-p data mnist=no/where: not here: there is no no/where"),
        ({"data": "timit"}, "-p data timit: not here: get it from its authors"),
    ],
)
def test_what_this_machine_lacks_is_refused_before_a_kernel_starts(
    monkeypatch, tmp_path, told, what
):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=what):
        check_available(told)


def test_what_this_machine_has_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "files").write_text("1")
    for told in ({}, {"device": "cpu", "data": ""}, {"data": "mnist"}, {"data": "digits"}):
        check_available(told)
    check_available({"data": f"fsdd={tmp_path}"})
