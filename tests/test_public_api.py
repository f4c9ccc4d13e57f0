"""`import lnlab` alone serves a user."""

from importlib import import_module
from inspect import isfunction, ismodule
from pathlib import Path

import pytest

import lnlab
from tests.test_architecture import run_python

MODULES = ["analysis", "data", "figures", "nn", "panels", "papers", "training"]


def test_the_public_names_are_listed_and_modules_need_no_import_of_their_own():
    assert dir(lnlab) == sorted(lnlab.__all__)
    assert len(dir(lnlab)) < 40
    assert {"Batches", "fit"} <= {*dir(lnlab.training)}
    assert [name for name in lnlab.__all__ if ismodule(getattr(lnlab, name))] == MODULES
    paths, classes, *names = run_python(
        "import lnlab; print(lnlab.paths.__name__)\n"
        "print(lnlab.training.batches.Batches.__name__, lnlab.papers.las.evaluate.__name__)\n"
        "from lnlab import *\n"
        "for name in sorted(n for n in dir() if n[0] != '_'): print(name)"
    )
    assert paths == "lnlab.paths"
    assert classes == "Batches lnlab.papers.las.evaluate"
    assert [name for name in names if name not in ("lnlab", "sys")] == sorted(lnlab.__all__)
    with pytest.raises(AttributeError, match="'lnlab' has no attribute 'norms'"):
        _ = lnlab.norms


@pytest.mark.parametrize("package", ["lnlab", *(f"lnlab.{name}" for name in MODULES)])
def test_no_function_has_the_name_of_a_module_that_would_replace_it(package):
    module = import_module(package)
    functions = [name for name in dir(module) if isfunction(getattr(module, name))]
    paths = Path(module.__file__).parent.iterdir()
    beside = {path.stem for path in paths if path.suffix in ("", ".py")}
    assert not beside & {*functions}
