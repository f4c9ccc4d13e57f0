"""Seeds and other values as people write them, for notebooks and for experiments."""

import pytest

from lnlab.cli.notebooks import BUDGETS, check_available, parse_parameter
from lnlab.cli.train import parse_settings
from lnlab.papers import EXPERIMENTS
from lnlab.seeds import read_seeds


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("3", [0, 1, 2]),
        ("3-5", [3, 4, 5]),
        ("3 4", [3, 4]),
        (" 3, 4 ,", [3, 4]),
        ("[3, 4]", [3, 4]),
        ("(7,)", [7]),
        ("7,", [7]),
        ("[]", []),
    ],
)
def test_seeds_are_a_number_of_them_a_list_or_a_range(text, meant):
    assert parse_parameter("seeds", text) == meant
    assert read_seeds(text) == tuple(meant)


@pytest.mark.parametrize("text", ["", "0", "x", "3.5", "5-3", "-1", "1,,x", "3 3", "[1", "[1)"])
def test_anything_else_is_refused_with_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"-p seeds .*: write how many \(3 is 0, 1, 2\)"):
        parse_parameter("seeds", text)


def test_seeds_mean_the_same_wherever_they_are_said():
    kind = EXPERIMENTS["mnist"]
    for said, meant in ((3, (0, 1, 2)), ([3], (3,)), ((4, 1), (4, 1))):
        text = str(said)  # as a command line has it; papermill makes a Python value of it
        settings = parse_settings(kind, [f"seeds={text}"])
        assert tuple(parse_parameter("seeds", text)) == settings["seeds"]
        assert read_seeds(said) == read_seeds(text) == meant
        assert kind.budget("smoke", seeds=said).seeds == meant
        assert {arm.seeds for arm in kind.arms("smoke", seeds=said).values()} == {meant}
    assert kind.budget("smoke", seeds=[]).seeds == kind.budget("smoke").seeds
    for wrong in ("[1", 0, [1, 1], [0.5], True):
        with pytest.raises(ValueError, match=r"^seeds "):
            kind.budget("smoke", seeds=wrong)


@pytest.mark.parametrize(
    ("name", "text", "default", "meant"),
    [
        ("units", "8,8", None, [8, 8]),
        ("data", "mnist=some/where", "", "mnist=some/where"),
        ("panel", '{"delta": 2}', {}, {"delta": 2}),
        ("seed", "7", 0, 7),
        ("sources", "6.60", "", "6.60"),
        ("device", "cuda:1", "auto", "cuda:1"),
    ],
)
def test_a_value_is_of_the_kind_of_its_default(name, text, default, meant):
    assert parse_parameter(name, text, default) == meant


@pytest.mark.parametrize(
    ("name", "text", "default", "what"),
    [
        ("it", "3", {}, r"-p it '3': write names and values in braces"),
        ("it", "True", 0, "a whole number"),
        ("budget", "tiny", "", "'tiny': choose from smoke, notebook, paper"),
        ("device", "gpu", "", "'gpu': write auto, cpu, cuda"),
        ("data", "mnst", "", "unknown data 'mnst': choose from embedded, "),
    ],
)
def test_what_no_notebook_could_use_is_refused_at_once(name, text, default, what):
    with pytest.raises(ValueError, match=what):
        parse_parameter(name, text, default)


def test_every_experiment_has_the_budgets_that_a_notebook_may_be_told():
    assert all(tuple(task.budgets()) == BUDGETS for task in EXPERIMENTS.values())


def test_what_this_machine_lacks_is_refused_before_a_kernel_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    for told, what in (
        ({"device": "cuda:77"}, "'cuda:77' cannot be used here"),
        ({"data": "mnist"}, "-p data mnist: not here: lnlab data fetch mnist brings"),
        ({"data": "mnist=no/where"}, "-p data mnist=no/where: not here: there is no no/where"),
        ({"data": "timit"}, "-p data timit: not here: get it from its authors"),
    ):
        with pytest.raises(ValueError, match=what):
            check_available(told)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "files").write_text("1")
    for told in ({}, {"device": "cpu", "data": ""}, {"data": "mnist"}, {"data": "digits"}):
        check_available(told)
    check_available({"data": f"fsdd={tmp_path}"})
