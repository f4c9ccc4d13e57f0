"""`lnlab check`, tried on the CPU: what it finds, writes and says when something is wrong."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from benchmarks import _check, _device
from lnlab.cli import app, bench
from lnlab.tasks import TASKS

CPU = torch.device("cpu")


@pytest.fixture
def small(monkeypatch):
    """One task, one small size timed for a moment, and the module that the tests change."""
    monkeypatch.setattr(_check, "TASKS", {"mnist": TASKS["mnist"]})
    monkeypatch.setattr(_check, "SIZES", [(3, 2, 4, 5)])
    monkeypatch.setattr(
        _check, "rows", lambda where, sizes, seconds: _device.rows(where, sizes, seconds / 50)
    )
    monkeypatch.setattr(bench, "shared", lambda name: _check)


def check(tmp_path, *options):
    out = tmp_path / "check.json"
    given = ["check", "--device", "cpu", "--out", str(out), *options]
    done = CliRunner().invoke(app, given)
    return done, json.loads(out.read_text()) if out.is_file() else None


def test_it_says_what_is_right_and_writes_it_to_a_file(small, tmp_path, monkeypatch):
    passed = _check.Finding("tests on pretend", "right", "1 passed")
    monkeypatch.setattr(_check, "tested", lambda *given: iter([passed]))
    done, report = check(tmp_path)
    assert report is not None
    states = {found["about"]: found["state"] for found in report["findings"]}
    assert states["tests on pretend"] == states["task mnist"] == "right", done.output
    assert done.exit_code == 0, done.output
    assert {"torch", "device_name", "cuda"} <= report["environment"].keys()
    assert [row["size"] for row in report["recurrent"]] == [[3, 2, 4, 5]] * 4
    assert all(row["ours_ms"] > 0 for row in report["recurrent"])


def test_what_is_wrong_is_said_and_ends_with_1(small, tmp_path, monkeypatch):
    given = iter([{"loss 0": 1.0}, {"loss 0": 1.01}])
    monkeypatch.setattr(_check, "numbers", lambda task, device: next(given))
    done, report = check(tmp_path, "--quick", "--tests", "tests/nowhere")
    assert report is not None
    states = {found["about"]: found["state"] for found in report["findings"]}
    assert states["tests on pretend"] == states["task mnist"] == "wrong"
    assert "tests/nowhere" in done.output
    assert "off by 1.0e-02" in done.output
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("inside", "state"), [("", "right"), ("<failure/>", "wrong"), ("<skipped/>", "missing")]
)
def test_a_test_that_fails_is_named(inside, state, monkeypatch):
    def run(command, **_):
        (file,) = (given.split("=")[1] for given in command if "junitxml" in given)
        cases = f'<testcase name="test_one">{inside}</testcase>'
        Path(file).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return subprocess.CompletedProcess(command, int(state == "wrong"), "", "")

    monkeypatch.setattr(_check.subprocess, "run", run)
    (finding,) = _check.tested(CPU, "tests", 1.0)
    assert finding.state == state
    assert ("test_one" in finding.said) == (state == "wrong")


def test_a_device_that_is_not_there_is_named(small, tmp_path):
    done = CliRunner().invoke(app, ["check", "--device", "cuda:99"])
    assert "device 'cuda:99' cannot be used here" in done.output
    assert done.exit_code == 1


@pytest.mark.parametrize("name", _device.LAYERS)
def test_the_model_counts_what_is_launched(name):
    T, B, inputs, H = 5, 2, 3, 4
    gates = {"LN-LSTM": 4, "LN-GRU": 3}[name]
    row = _device.modelled(name, (T, B, inputs, H))
    once = row["launches"] - 4 * T
    assert once == _device.modelled(name, (2 * T, B, inputs, H))["launches"] - 8 * T > 0
    big = _device.modelled(name, (30, 64, 300, 1024))
    # W_h h, its two slopes and those of W_x, each 2 T B G H n
    products = 2 * 30 * 64 * gates * 1024 * (3 * 1024 + 3 * 300)
    assert big["GFLOP"] == pytest.approx(products / 1e9, abs=0.01)
    assert big["model_ms"] >= big["model_ms_as_graph"] >= 1e3 * products / _device.PEAK
