"""``lnlab audit`` reads a function of the user's, and says what is wrong with it."""

import json
import sys

import pytest
from click.testing import CliRunner

from lnlab.cli import app

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
import torch
from torch import nn
import beside

@dataclass
class Settings:
    units: int = 3

def make(data="3", eps=1e-5, x=None):
    net = nn.Sequential(nn.Linear(4, int(data)), nn.LayerNorm(int(data), eps))
    return net, torch.randn(8, 4) if x is None else x

def with_loss():
    return *make(), lambda y: y.pow(4).mean()

def told():
    net, x = make()
    def loss(y, target):
        assert torch.equal(target, torch.ones(8, 3))
        return (y - target).pow(4).mean()
    return net, x, torch.ones(8, 3), loss

def risk():
    return make(eps=1.0)

def fault():
    return make(x=torch.full((8, 4), torch.inf))

def wrong():
    return nn.Linear(4, Settings().units)

def misfit():
    return nn.Linear(4, 3), torch.randn(8, 5)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "random.py").write_text(SOURCE)  # it must not hide Python's own
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "random.py"


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_prints_findings_or_json_and_writes_the_page(file, tmp_path):
    done = run(f"{file}:with_loss", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "curvature" in done.output
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert json.loads(run(f"{file}:make", "--json").stdout)["module"] == "Sequential"
    assert "35 parameters" in run(f"{file}:make", "--data", "5").output
    assert "shuffle" in dir(sys.modules["random"])


def test_a_target_is_given_to_the_loss(file):
    done = run(f"{file}:told")
    assert done.exit_code == 0, done.output
    assert "LN701 curvature" in done.output


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


@pytest.mark.parametrize(
    ("target", "data", "message"),
    [
        ("random.py", (), "names no function: give FILE.py:FUNCTION, as net.py:make"),
        ("absent.py:make", (), "is no FILE.py:FUNCTION: there is no file 'absent.py'"),
        ("random.py:male", (), "'random.py' has no 'male'"),
        ("random.py:risk", ("--data", "5"), "raised TypeError: risk() takes 0 positional"),
        ("random.py:wrong", (), "let it return (module, input)"),
        ("random.py:misfit", (), "does not take the input"),
    ],
)
def test_mistakes_end_in_one_line(file, target, data, message):
    done = run(target, *data)
    assert done.exit_code == 1
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
