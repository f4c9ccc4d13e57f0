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

def wrong():
    return nn.Linear(4, 3)

def raising():
    raise KeyError("weights")

def misfit():
    return nn.Linear(4, 3), torch.randn(8, 5)

def no_module():
    return len, torch.randn(8, 5)
"""


OF_ITS_OWN = """
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
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "net.py"


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_prints_the_findings_and_writes_the_page(file, tmp_path):
    done = run(f"{file}:with_loss", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "curvature" in done.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_file_knows_where_it_lies_and_who_it_is(tmp_path):
    (tmp_path / "random.py").write_text(OF_ITS_OWN)
    done = run(f"{tmp_path / 'random.py'}:make", "--json")
    assert done.exit_code == 0, done.output
    assert "shuffle" in dir(sys.modules["random"]), "it hides no module of that name"


def test_prints_json_alone(file):
    done = run(f"{file}:make", "--json")
    assert json.loads(done.stdout)["module"] == "Sequential"


def test_data_reach_the_function(file):
    assert "55 parameters" not in run(f"{file}:make").output
    assert "input (8, 4)" in run(f"{file}:from_data", "--data", "5").output
    assert "35 parameters" in run(f"{file}:from_data", "--data", "5").output


@pytest.mark.parametrize(
    ("where", "data", "said"),
    [
        ("net.py", (), "is no FILE.py:FUNCTION"),
        ("other.py:make", (), "there is no file"),
        ("net.py:male", (), "there are: make, with_loss"),
        ("net.py:make", ("--data", "5"), "does not fit --data"),
        ("net.py:from_data", (), "does not fit no --data"),
        ("net.py:wrong", (), "let it return (module, input)"),
        ("net.py:raising", (), "raised KeyError: 'weights'"),
        ("net.py:misfit", (), "does not take the input"),
        ("net.py:no_module", (), "give a torch.nn.Module"),
    ],
)
def test_mistakes_end_in_one_line(file, monkeypatch, where, data, said):
    monkeypatch.chdir(file.parent)
    done = run(where, *data)
    assert done.exit_code == 1
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize(("own", "threads"), [(None, "1"), ("3", "3")])
def test_runs_on_one_thread_unless_told(file, monkeypatch, own, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", own or "")  # put back afterwards
    if own is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    file.write_text(
        SOURCE + f"\nimport os\nassert os.environ['OMP_NUM_THREADS'] == '{threads}'"
    )
    assert run(f"{file}:make").exit_code == 0
