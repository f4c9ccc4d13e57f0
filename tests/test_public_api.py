"""`import lnlab` alone serves a user."""

import subprocess
import sys
from importlib import import_module
from inspect import isfunction, ismodule
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

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


class MyNorm(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(units))

    def forward(self, x):
        return self.gain * x / (1 + x.abs().mean(-1, keepdim=True))


def build(norm_layer):
    return nn.Sequential(nn.Linear(8, 16), norm_layer(16), nn.ReLU(), nn.Linear(16, 4))


@pytest.fixture
def data():
    return torch.randn(64, 8), torch.arange(64) % 4


def test_norms_are_compared(data):
    norms = {"LN": lnlab.nn.LayerNorm, "mine": MyNorm}
    runs = lnlab.compare(build, norms, data, seeds=2, updates=4, device="auto")
    assert list(runs.to_frame()["norm"]) == ["LN", "mine"]
    assert len(runs.plot().data) == 4


def test_a_module_is_analysed(data, tmp_path):
    (x, y), net = data, build(nn.LayerNorm)
    assert len(lnlab.check_invariances(net, x).to_frame())
    assert "layer" in str(lnlab.identify_norm(net[1], torch.randn(32, 16))).lower()
    with lnlab.record(net) as recorder:
        F.cross_entropy(net(x), y).backward()
    assert len(recorder.to_frame())
    arguments = net, x, y, F.cross_entropy
    results = [
        lnlab.loss_landscape(*arguments, points=5),
        lnlab.extreme_eigenvalues(*arguments),
        lnlab.hessian_spectrum(*arguments, steps=5),
    ]
    for result in results:
        assert len(result.to_frame())
        assert result.plot().data
    path = tmp_path / "audit.html"
    lnlab.audit(*arguments).save(path)
    assert path.stat().st_size


def test_normalizers_are_swapped(data):
    x, _ = data
    plan = lnlab.swap(build(nn.BatchNorm1d), {nn.BatchNorm1d: lnlab.nn.LayerNorm}, x)
    assert isinstance(plan.make()[1], lnlab.nn.LayerNorm)


def test_claims_are_a_table():
    assert len(lnlab.claims().to_frame()) > 100
