"""Seeds and other values as people write them, for notebooks and for experiments."""

import pytest

from lnlab.cli.notebooks import check_available, parse_parameter
from lnlab.cli.train import parse_settings
from lnlab.papers import EXPERIMENTS
from lnlab.seeds import read_seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", [0, 1, 2]),
        ("3-5", [3, 4, 5]),
        (" 3, 4 ,", [3, 4]),
        ("3 4", [3, 4]),
        ("(7,)", [7]),
        ("[]", []),
    ],
)
def test_seeds_are_a_number_of_them_a_list_or_a_range(text, seeds):
    assert parse_parameter("seeds", text) == seeds
    assert parse_settings(EXPERIMENTS["mnist"], [f"seeds={text}"])["seeds"] == tuple(seeds)


@pytest.mark.parametrize("text", ["", "0", "3.5", "5-3", "-1", "1,,x", "3 3", "[1)"])
def test_anything_else_is_refused_with_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"-p seeds .*: write how many \(3 is 0, 1, 2\)"):
        parse_parameter("seeds", text)


@pytest.mark.parametrize(("value", "seeds"), [(3, (0, 1, 2)), ([3], (3,)), ((4, 1), (4, 1))])
def test_seeds_of_a_notebook_mean_the_same_in_an_experiment(value, seeds):
    assert read_seeds(value) == EXPERIMENTS["mnist"].budget("smoke", seeds=value).seeds == seeds
    with pytest.raises(ValueError, match=r"^seeds "):
        EXPERIMENTS["mnist"].budget("smoke", seeds=[0.5])


@pytest.mark.parametrize(
    ("name", "text", "default", "value"),
    [
        ("units", "8,8", None, [8, 8]),
        ("data", "mnist=some/where", "", "mnist=some/where"),
        ("panel", '{"delta": 2}', {}, {"delta": 2}),
        ("sources", "6.60", "", "6.60"),
        ("device", "cuda:1", "auto", "cuda:1"),
    ],
)
def test_a_value_is_of_the_kind_of_its_default(name, text, default, value):
    assert parse_parameter(name, text, default) == value


@pytest.mark.parametrize(
    ("name", "text", "default", "message"),
    [
        ("it", "3", {}, r"-p it '3': write names and values in braces"),
        ("it", "True", 0, "a whole number"),
        ("budget", "tiny", "", "'tiny': choose from smoke, notebook, paper"),
        ("device", "gpu", "", "'gpu': write auto, cpu, cuda"),
        ("data", "mnst", "", "unknown data 'mnst': choose from embedded, "),
    ],
)
def test_what_no_notebook_could_use_is_refused_at_once(name, text, default, message):
    with pytest.raises(ValueError, match=message):
        parse_parameter(name, text, default)


def test_what_this_machine_lacks_is_refused_before_a_kernel_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path))
    for values, message in (
        ({"device": "cuda:77"}, "'cuda:77' cannot be used here"),
        ({"data": "mnist"}, "-p data mnist: not here: lnlab data fetch mnist brings"),
        ({"data": "mnist=no/where"}, "-p data mnist=no/where: not here: there is no no/where"),
    ):
        with pytest.raises(ValueError, match=message):
            check_available(values)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "files").write_text("1")
    for values in ({"device": "cpu", "data": ""}, {"data": "mnist"}, {"data": "digits"}):
        check_available(values)
