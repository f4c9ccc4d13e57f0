"""The gate: every kept run is still the run of its task, and reads as it always did."""

import hashlib
import json
from pathlib import Path

import pytest

from lnlab import checkout
from lnlab.runs import Run, key, read
from lnlab.tasks import TASKS

RESULTS = checkout.place("results")
READINGS = json.loads(Path(__file__).with_name("kept.json").read_text())
"""SHA-256 of what each of these runs gave when it was read before anything was moved."""

THERE = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())
"""The tasks that have kept runs; a new one has none yet."""


def test_no_task_has_lost_its_runs():
    assert {name.split("/")[0] for name in READINGS} <= {*THERE} <= {*TASKS}


@pytest.fixture(scope="module", params=THERE)
def kept(request):
    return [run for run in read(RESULTS) if run.task == request.param]


def test_every_configuration_rebuilds_its_task_and_key(kept):
    assert kept
    for run in kept:
        task = TASKS[run.task].of(run.config)
        around = {name: run.config[name] for name in ("device", "precision")}
        again = key({**task.config(), **around}, run.data["checksum"])
        assert (again, json.loads(json.dumps({**task.config(), **around}))) == (
            run.folder.name,
            run.config,
        )


def reading(run: Run) -> str:
    """What a run gives to who reads it, as a hash."""
    rows = json.dumps(run.metrics().to_dict("records"), default=lambda value: value.tolist())
    whole = json.dumps([rows, run.result, run.data, run.config])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def test_every_run_reads_as_before(kept):
    readings = {f"{run.task}/{run.key}": reading(run) for run in kept}
    ours = {name: hash for name, hash in READINGS.items() if name.split("/")[0] == kept[0].task}
    assert {name: readings.get(name) for name in ours} == ours


def test_what_a_task_promises_is_in_its_runs(kept):
    for run in kept:
        task = TASKS[run.task].of(run.config)
        assert {*task.falls, *task.rises} <= {*run.metrics()}
