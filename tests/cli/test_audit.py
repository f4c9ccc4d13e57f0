"""``lnlab audit`` reads a function of the user's, and says what is wrong with it."""

import json
import sys

import pytest
from click.testing import CliRunner

from lnlab.cli import app

SOURCE = """
from dataclasses import dataclass
import torch
from torch import nn
import beside

def make():
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)), torch.randn(8, 4)

def with_loss():
    return *make(), lambda y: y.pow(4).mean()

def from_data(data):
    return nn.Sequential(nn.Linear(4, int(data)), nn.LayerNorm(int(data))), torch.randn(8, 4)

def risk():
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3, eps=1.0)), torch.randn(8, 4)

def fault():
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)), torch.full((8, 4), torch.inf)

def wrong():
    return nn.Linear(4, 3)

def misfit():
    return nn.Linear(4, 3), torch.randn(8, 5)

def no_module():
    return len, torch.randn(8, 5)
"""


BESIDE_PACKAGES = """
from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn

@dataclass
class Settings:
    units: int = len(Path(__file__).stem)

def make():
    return nn.Linear(4, Settings().units), torch.randn(8, 4)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "net.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "net.py"


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_prints_findings_or_json_and_writes_the_page(file, tmp_path):
    done = run(f"{file}:with_loss", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "curvature" in done.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert json.loads(run(f"{file}:make", "--json").stdout)["module"] == "Sequential"


def test_rules_are_chosen_and_explained(file):
    done = run(
        f"{file}:make", "--only", "LN1", "--only", "no-norm", "--skip", "LN101", "--json"
    )
    assert {f["id"][:3] for f in json.loads(done.stdout)["findings"]} <= {"LN1"}
    assert "has no eps" not in done.output
    told = run("--explain", "LN114").output
    assert "eps-missing" in told
    assert "print(lnlab.audit(net, x))" in told
    assert "no rule or check 'LN999'" in run("--explain", "LN999").output


@pytest.mark.parametrize(
    ("target", "fail_on", "status"),
    [("fault", "fault", 4), ("fault", "never", 0), ("risk", "fault", 0), ("risk", "risk", 3)],
)
def test_exit_status_tells_the_severity(file, target, fail_on, status):
    assert run(f"{file}:{target}", "--fail-on", fail_on).exit_code == status


def test_a_file_hides_no_module_of_its_name(tmp_path):
    (tmp_path / "random.py").write_text(BESIDE_PACKAGES)
    done = run(f"{tmp_path / 'random.py'}:make", "--json")
    assert done.exit_code == 0, done.output
    assert "shuffle" in dir(sys.modules["random"])


def test_data_reach_the_function(file):
    assert "35 parameters" in run(f"{file}:from_data", "--data", "5").output


@pytest.mark.parametrize(
    ("target", "data", "message"),
    [
        ("net.py", (), "is no FILE.py:FUNCTION: there is no file ''"),
        ("net.py:male", (), "raised AttributeError: module 'lnlab_file_net' has no attribute"),
        ("net.py:make", ("--data", "5"), "raised TypeError: make() takes 0 positional"),
        ("net.py:wrong", (), "let it return (module, input)"),
        ("net.py:misfit", (), "does not take the input"),
        ("net.py:no_module", (), "give a torch.nn.Module"),
    ],
)
def test_mistakes_end_in_one_line(file, target, data, message):
    done = run(target, *data)
    assert done.exit_code == 1
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
