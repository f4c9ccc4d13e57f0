"""Seeds and other values as people write them, for notebooks and for experiments."""

from itertools import permutations

import pytest
from click.testing import CliRunner

from lnlab.cli import app
from lnlab.cli.notebooks import parse_parameter
from lnlab.cli.train import parse_settings
from lnlab.papers import EXPERIMENTS
from lnlab.seeds import format_seeds, read_seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", [0, 1, 2]),
        ("3-5", [3, 4, 5]),
        ("105-134", [*range(105, 135)]),
        ("9, 0-2 ,7", [9, 0, 1, 2, 7]),
        ("(3 4,)", [3, 4]),
        ("7,", [7]),
        ("[]", []),
    ],
)
def test_seeds_are_a_number_of_them_a_list_or_a_range(text, seeds):
    assert parse_parameter("seeds", text) == seeds
    assert parse_settings(EXPERIMENTS["mnist"], [f"seeds={text}"])["seeds"] == tuple(seeds)


@pytest.mark.parametrize("count", range(1, 6))
def test_seeds_that_are_written_are_read_back(count):
    for seeds in permutations(range(6), count):
        assert read_seeds(format_seeds(seeds)) == seeds
    assert format_seeds([105, 106, 107, 3, 4, 9]) == "105-107,3,4,9"


@pytest.mark.parametrize("text", ["", "0", "3.5", "0,5-3", "-1", "3 2-4"])
def test_anything_else_is_refused_with_how_to_write_it(text):
    with pytest.raises(ValueError, match=r"^seeds .*: write how many \(3: seeds 0, 1, 2\)"):
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
        ("panel", "{'delta': 2, 'dtype': None}", {}, {"delta": 2, "dtype": None}),
        ("play", '{"playing": false}', {}, {"playing": False}),
        ("sources", "6.60", "", "6.60"),
    ],
)
def test_a_value_is_of_the_kind_of_its_default(name, text, default, value):
    assert parse_parameter(name, text, default) == value


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("02 -p panel delta=2", "-p panel 'delta=2': write a dictionary"),
        ("02 -p panel {'delta':", "write a dictionary"),
        ("02 -p panel 4", "write a dictionary"),
        ("04 05 -p data cifar", "04_permutation_invariant_mnist: unknown data 'cifar': choose"),
        ("05 -p data mnist=no/such/folder", "mnist=no/such/folder names no file or folder"),
        ("01 05 -p data mnist=no/file", "-p data: not a parameter of 01_one_equation\n"),
    ],
)
def test_a_wrong_value_is_refused_before_a_notebook_runs(arguments, complaint, tmp_path):
    out = tmp_path / "out"
    options = [*arguments.split(), "-p", "budget", "smoke", "--out", str(out)]
    result = CliRunner().invoke(app, ["run", *options])
    assert result.exit_code == 1
    assert complaint in result.output
    assert not out.exists()
