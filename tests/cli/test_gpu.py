"""Benchmarks in small, and `make gpu` tried without one: what it records, and how it fails."""

import json
import re
import sys
import time

import psutil
import pytest
import torch

from benchmarks import _device, gpu

CPU = torch.device("cpu")
ONE_TEST = "tests/kernels/test_on_device.py::test_a_fused_layer_is_that_of_the_cpu[RNN-False]"


@pytest.fixture
def plan():
    """Small steps, none of which a GPU is needed for; notebook 99 is not there."""
    return gpu.without_gpu()._replace(tests=[ONE_TEST], notebooks=["99"])


@pytest.mark.slow
def test_every_step_is_recorded_and_one_that_fails_costs_no_other(plan, tmp_path, capsys):
    out = tmp_path / "gpu.json"
    assert gpu.run_steps(plan, out, []) == ["notebook 99"]
    report = json.loads(out.read_text())
    assert {"name", "driver", "torch", "cuda", "cudnn"} < report["device"].keys()
    assert report["device"]["gpu"] is False
    steps = report["steps"]
    assert list(steps) == ["tests", "recurrent 3, 2, 4, 5", "mnist", "notebook 99"]
    assert all(step["seconds"] >= 0 and step["date"] for step in steps.values())
    assert steps["tests"]["passed"] == 1
    rows = steps["recurrent 3, 2, 4, 5"]["rows"]
    assert len(rows) == 4
    assert all(row["ms"].keys() == _device.ELSEWHERE.keys() for row in rows)
    assert all(row["ratio"].keys() == {"fused", "loop"} for row in rows)
    assert all(len(steps["mnist"][norm]["test_errors"]) == 1 for norm in ("none", "layer"))
    assert "notebook 99: FAILED exit status 1" in capsys.readouterr().out
    page = tmp_path / "speed.md"
    page.write_text("before\n<!-- gpu -->\nold\n<!-- /gpu -->\nafter\n")
    gpu.write_page(report, page)
    text = page.read_text()
    assert re.match("before\n<!-- gpu -->\n\nMeasured by `make gpu` on one ", text)
    assert "\n- notebook 99: exit status 1" in text
    assert text.endswith("\n<!-- /gpu -->\nafter\n")
    assert re.search(
        r"\| \w+-LSTM \| train \| 3, 2, 4, 5 \| [\d.]+ \| [\d.]+ \([\d.]+\) ", text
    )
    assert re.search(r"\| none \| \d+ \| [\d.]+ \| [\d.]+ % \|", text)
    assert "1 passed, 0 failed, 0 skipped" in text


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # a contender
def test_benchmarks_measure_networks_of_any_size(monkeypatch):
    from benchmarks import draw, handwriting, over_examples, thoughts

    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(thoughts, "ROUNDS", 2)
    monkeypatch.setattr(handwriting, "POINTS", 20)
    results = [
        *draw.ratios({"glimpses": 3, "units": (16,), "batch_size": 4}).values(),
        *handwriting.ratios(16).values(),
        thoughts.update((16, 8, 50)),
        over_examples.ratio((5, 4, 3, 8), over_examples.ragged(5, 4)),
    ]
    assert all(result["ratio"] > 0 for result in results)


def test_a_command_that_fails_or_hangs_is_ended_and_quoted(tmp_path):
    code = f"print({str(tmp_path)!r} + '/file is damaged'); raise SystemExit(3)"
    with pytest.raises(gpu.StepFailed, match=r"^exit status 3: \./file is damaged$"):
        gpu.call([sys.executable, "-c", code], 60, tmp_path)
    started = tmp_path / "child"
    parent = (
        "import pathlib, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"pathlib.Path({str(started)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    with pytest.raises(gpu.StepFailed, match="not finished after 3 s"):
        gpu.call([sys.executable, "-c", parent], 3)
    child = int(started.read_text())
    for _ in range(100):  # a moment for the signal
        if not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie":
            return
        time.sleep(0.05)
    pytest.fail("its child still runs")


def test_the_page_shows_the_report():
    report = json.loads(gpu.REPORT.read_text()) if gpu.REPORT.is_file() else None
    assert report is None or report["device"]["gpu"]
    (shown,) = gpu.BETWEEN_MARKS.findall(gpu.PAGE.read_text())
    assert shown == f"\n{gpu.markdown(report)}\n", "python -m benchmarks.gpu --page"
