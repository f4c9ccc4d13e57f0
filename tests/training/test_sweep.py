"""A sweep ends in the same bytes whichever way it is worked off, and whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from lnlab.papers import mnist
from lnlab.training.runs import read
from lnlab.training.sweep import grid, sweep

AXES = {"norm": ["none", "layer", "batch"], "batch_size": [4], "seeds": [(0,), (1,)]}


def experiments() -> list[mnist.Experiment]:
    """6 runs of about half a second each."""
    return grid(mnist.Experiment, "smoke", AXES)


def contents(root: Path) -> dict[str, tuple[bytes, str]]:
    """Weights and metrics, less times, of every finished run."""
    assert not list(root.rglob("*.part"))
    return {
        run.key: (
            (run.folder / "weights.safetensors").read_bytes(),
            run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv(),
        )
        for run in read(root)
        if run.done
    }


def errors(outcomes) -> list[str]:
    return [outcome.error for outcome in outcomes if outcome.error]


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """What every way must end in."""
    root = tmp_path_factory.mktemp("serial")
    assert errors(sweep(experiments(), root=root, jobs=1)) == []
    assert len(contents(root)) == 6
    return contents(root)


def test_grid_is_every_combination_at_its_budget():
    found = grid(mnist.Experiment, "smoke", {"norm": ["rms", "none"], "epochs": [1, 3]})
    fields = [(one.norm, one.epochs, one.units) for one in found]
    assert fields == [(n, e, (32, 32)) for n in ("rms", "none") for e in (1, 3)]


class Broken(mnist.Experiment):
    def evaluate(self, model, dataset, evaluation):
        raise ArithmeticError("no")


class Fatal(mnist.Experiment):
    def evaluate(self, model, dataset, evaluation):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_run_that_fails_stops_no_other_and_nothing_is_done_twice(tmp_path):
    first, second, *_ = experiments()
    some = [first, Broken.budget("smoke", epochs=1), second]
    outcomes = list(sweep(some, root=tmp_path, jobs=1))
    assert [one.error for one in outcomes] == [None, "ArithmeticError: no", None]
    assert not any(one.was_read_back for one in outcomes)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    again = list(sweep([first, second], root=tmp_path, jobs=1))
    assert [one.was_read_back for one in again] == [True, True]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")} == stamps


@pytest.mark.slow
def test_killed_processes_cost_no_run_and_a_fatal_one_is_given_up(serial, tmp_path):
    fatal, outcomes = Fatal.budget("smoke", epochs=1), []
    for outcome in sweep([*experiments(), fatal], root=tmp_path, jobs=2, save_every=0.05):
        outcomes.append(outcome)
        if len(outcomes) == 1:
            assert not psutil.Process().net_connections()  # pipes alone
            children = psutil.Process().children(recursive=True)
            next(p for p in children if "popen_loky_posix" in " ".join(p.cmdline())).kill()
    assert errors(outcomes) == ["TerminatedWorkerError: its process died"]
    assert [one.experiment for one in outcomes if one.error] == [fatal]
    assert len(outcomes) == 7
    assert contents(tmp_path) == serial


@contextmanager
def scheduler(folder: Path):
    """The address of a Dask scheduler with two workers, and their process ids."""
    file = folder / "scheduler.json"
    base = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    base += ["--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file)]
    work += ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*base, "--scheduler-file", str(file)], **quiet)]
    try:
        while not file.exists():
            time.sleep(0.05)
        processes += [subprocess.Popen(work, **quiet) for _ in range(2)]
        yield json.loads(file.read_text())["address"], [p.pid for p in processes[1:]]
    finally:
        for process in processes[::-1]:
            process.terminate()
            process.wait(20)


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes(serial, tmp_path):
    """One of its workers is killed on the way."""
    pytest.importorskip("distributed")
    root, outcomes = tmp_path / "runs", []
    with scheduler(tmp_path) as (address, pids):
        for outcome in sweep(experiments(), root=root, cluster=address, save_every=0.05):
            outcomes.append(outcome)
            if len(outcomes) == 1:
                psutil.Process(pids[0]).children()[0].kill()
    assert errors(outcomes) == []
    assert len(outcomes) == len(serial)
    assert contents(root) == serial


PROGRAM = f"""
import sys
from pathlib import Path
from lnlab.training.sweep import grid, sweep
from lnlab.papers.mnist import Experiment

if __name__ == "__main__":
    some = grid(Experiment, "smoke", {AXES!r})
    for outcome in sweep(some, root=Path(sys.argv[1]), jobs=2, save_every=0.05):
        print("ended", outcome.error, flush=True)
"""


@pytest.mark.slow
def test_a_killed_sweep_trains_no_more_and_goes_on_when_it_is_run_again(serial, tmp_path):
    root, path = tmp_path / "runs", tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, str(path), str(root)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    first.stdout.readline()
    children = psutil.Process(first.pid).children()
    assert len(children) >= 2
    first.kill()
    _, left = psutil.wait_procs(children, timeout=10)
    assert not left, "orphans after 10 s"
    first.communicate()
    assert sum(run.done for run in read(root)) < len(serial)
    assert errors(sweep(experiments(), root=root, jobs=1)) == []
    assert contents(root) == serial
