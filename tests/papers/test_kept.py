"""Every kept run is still a run of its task."""

import json

import pytest

from lnlab import paths
from lnlab.papers import EXPERIMENTS
from lnlab.training.runs import KEPT, key, read

RESULTS = paths.place("results")
THERE = sorted(path.name.removesuffix(KEPT) for path in RESULTS.glob(f"*{KEPT}"))
"""The tasks that have kept runs."""


def test_every_file_of_kept_runs_is_of_a_task():
    assert len(THERE) == 12
    assert {*THERE} <= {*EXPERIMENTS}


@pytest.fixture(scope="module", params=THERE)
def kept(request):
    return [run for run in read(RESULTS) if run.task == request.param]


def test_every_configuration_rebuilds_its_task_and_key(kept):
    assert kept
    for run in kept:
        task = EXPERIMENTS[run.task].from_config(run.config)
        around = {name: run.config[name] for name in ("device", "precision")}
        again = key({**task.config(), **around}, run.data["checksum"])
        assert (again, json.loads(json.dumps({**task.config(), **around}))) == (
            run.key,
            run.config,
        )


def test_what_a_task_promises_is_in_its_runs(kept):
    for run in kept:
        task = EXPERIMENTS[run.task].from_config(run.config)
        assert {*task.lower_is_better, *task.higher_is_better} <= {*run.metrics()}
