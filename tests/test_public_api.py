"""`import lnlab` alone serves a user."""

import subprocess
import sys
from importlib import import_module
from inspect import isfunction, ismodule
from pathlib import Path

import pytest

import lnlab

PACKAGE = Path(lnlab.__file__).parent
MODULES = ["analysis", "data", "figures", "nn", "panels", "papers", "training"]


def run_python(code: str) -> str:
    """Run code in a fresh process, and return what it prints."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return run.stdout


def test_the_public_names_are_listed_and_nothing_else():
    assert dir(lnlab) == sorted(lnlab.__all__)
    assert len(dir(lnlab)) < 40
    printed = run_python("from lnlab import *\nprint(*[n for n in dir() if n[0] != '_'])")
    assert printed.split() == sorted(lnlab.__all__)
    assert [name for name in lnlab.__all__ if ismodule(getattr(lnlab, name))] == MODULES


def test_modules_are_reached_without_an_import_of_their_own():
    printed = run_python(
        "import lnlab\nprint(lnlab.training.batches.Batches.__name__, lnlab.paths.__name__,"
        "lnlab.nn.table1.__name__, lnlab.papers.las.evaluate.__name__)"
    )
    assert printed.split() == [
        "Batches",
        "lnlab.paths",
        "lnlab.nn.table1",
        "lnlab.papers.las.evaluate",
    ]
    with pytest.raises(AttributeError, match="'lnlab' has no attribute 'norms'"):
        _ = lnlab.norms


@pytest.mark.parametrize("package", ["lnlab", *(f"lnlab.{name}" for name in MODULES)])
def test_no_function_has_the_name_of_a_module_that_would_replace_it(package):
    module = import_module(package)
    functions = [name for name in dir(module) if isfunction(getattr(module, name))]
    paths = Path(module.__file__).parent.iterdir()
    beside = {path.stem for path in paths if path.suffix in ("", ".py")}
    assert not beside & {*functions}
