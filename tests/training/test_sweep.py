"""A sweep ends in the same bytes whichever way it is worked off, and whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from dask import config
from distributed import Client

from lnlab.papers import PermutationInvariantMNIST
from lnlab.training.runs import read
from lnlab.training.sweep import apart, client, grid, sweep


def tasks(full: bool) -> list[PermutationInvariantMNIST]:
    """24 runs, or 6: about half a second each."""
    axes = {
        "norm": ["none", "layer", "batch"],
        "batch_size": [4, 128] if full else [4],
        "seeds": [(0, 1, 2, 3) if full else (0, 1)],
    }
    return apart(grid(PermutationInvariantMNIST, "smoke", axes))


def left(root: Path) -> dict[str, tuple[bytes, str]]:
    """Weights and metrics, less times, of every run; all are done and nothing else is there."""
    assert not list(root.rglob("*.part"))
    return {
        run.key: (
            (run.folder / "weights.safetensors").read_bytes(),
            run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv(),
        )
        for run in read(root)
        if run.done
    }


def finished(outcomes) -> int:
    """How many came to their ends; the errors of the others are shown."""
    outcomes = list(outcomes)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    return len(outcomes)


def workers_of(pid: int) -> list[int]:
    """The processes that a process has started to work: not the one that counts semaphores."""
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if any("spawn_main" in word for word in child.cmdline()):
                found.append(child.pid)
    return found


@pytest.fixture(scope="module")
def serial(tmp_path_factory, request):
    """What every way must end in, and the size of it."""
    root, full = tmp_path_factory.mktemp("serial"), request.config.getoption("--full")
    assert finished(sweep(tasks(full), root=root, jobs=1)) == len(tasks(full))
    return left(root)


def test_grid_is_every_combination_at_its_budget():
    found = grid(
        PermutationInvariantMNIST, "smoke", {"norm": ["rms", "none"], "epochs": [1, 3]}
    )
    told = [(task.norm, task.epochs, task.units) for task in found]
    assert told == [(n, e, (32, 32)) for n in ("rms", "none") for e in (1, 3)]
    assert [task.seeds for task in apart(found[:1])] == [(0,), (1,)]


def test_nothing_is_done_twice(full, tmp_path):
    some = tasks(False)[:2]
    assert not any(outcome.read_back for outcome in sweep(some, root=tmp_path, jobs=1))
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert sum(outcome.read_back for outcome in sweep(some, root=tmp_path, jobs=1)) == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == stamps


def test_run_that_fails_is_reported_and_stops_no_other(tmp_path):
    class Broken(PermutationInvariantMNIST):
        def evaluate(self, model, dataset, moment):
            raise ArithmeticError("no")

    some = tasks(False)[:3]
    outcomes = list(
        sweep([some[0], Broken.budget("smoke", epochs=1), some[1]], root=tmp_path, jobs=1)
    )
    assert [outcome.error for outcome in outcomes] == [None, "ArithmeticError: no", None]
    assert len([run for run in read(tmp_path) if run.done]) == 2


@pytest.mark.dear
@pytest.mark.stress
def test_killed_workers_cost_no_run_and_a_fatal_one_is_given_up(serial, full, tmp_path):
    """Cores of this machine; also: nobody else can reach the workers."""

    class Fatal(PermutationInvariantMNIST):
        def evaluate(self, model, dataset, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    fatal = Fatal.budget("smoke", epochs=1)
    outcomes = []
    # quick: the second death of a worker that runs it is enough
    with config.set({"distributed.scheduler.allowed-failures": 3 if full else 1}):
        for outcome in sweep([*tasks(full), fatal], root=tmp_path, jobs=2, save_every=0.05):
            outcomes.append(outcome)
            if len(outcomes) == 1:
                assert listening() == {"127.0.0.1"}
            if len(outcomes) <= (3 if full else 1):
                os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
    (failed,) = (outcome for outcome in outcomes if outcome.error)
    assert failed.task == fatal
    assert failed.error.startswith("KilledWorker")
    assert left(tmp_path) == serial


def listening() -> set[str]:
    """The addresses on which this process and its children accept connections."""
    here = {os.getpid(), *workers_of(os.getpid())}
    addresses = {
        connection.laddr.ip
        for connection in psutil.net_connections("tcp")
        if connection.pid in here and connection.status == psutil.CONN_LISTEN
    }
    assert addresses
    return addresses


@pytest.mark.stress
def test_stranger_is_not_admitted():
    with client(1) as workers:
        address = workers.scheduler_info()["address"]
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises((OSError, TypeError, ValueError)):
            Client(address, timeout=2, set_as_default=False)


@contextmanager
def external(root: Path):
    """A scheduler and two workers that were started by somebody else; their process ids."""
    file = root.parent / "scheduler.json"
    base = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    base += ["--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file)]
    work += ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
    quiet = subprocess.DEVNULL
    commands = [[*base, "--scheduler-file", str(file)], work, work]
    processes = [subprocess.Popen(commands[0], stdout=quiet, stderr=quiet)]
    try:
        while not file.exists():
            time.sleep(0.05)
        processes += [subprocess.Popen(c, stdout=quiet, stderr=quiet) for c in commands[1:]]
        yield file, [process.pid for process in processes[1:]]
    finally:
        for process in processes[::-1]:
            process.terminate()
            process.wait(20)


@pytest.mark.dear
@pytest.mark.stress
def test_cluster_of_another_gives_the_same_bytes(serial, full, tmp_path, monkeypatch):
    """Named in Dask's own configuration; one of its workers is killed."""
    with external(tmp_path / "runs") as (file, workers):
        address = json.loads(file.read_text())["address"]
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
        with config.set(config.collect_env()):
            outcomes = []
            for outcome in sweep(tasks(full), root=tmp_path / "runs", save_every=0.05):
                outcomes.append(outcome)
                if len(outcomes) == 1:
                    os.kill(workers_of(workers[0])[0], signal.SIGKILL)
    assert finished(outcomes) == len(tasks(full))
    assert left(tmp_path / "runs") == serial


PROGRAM = """
import sys
from pathlib import Path
from lnlab.training.runs import Run
from lnlab.training.sweep import apart, grid, sweep
from lnlab.papers import PermutationInvariantMNIST as MNIST

def finish(run, *ending, finish=Run.finish):
    finish(run, *ending)
    print("trained", run.key, flush=True)

Run.finish = finish  # in this process: workers have their own
if __name__ == "__main__":
    root, sizes, seeds, jobs = Path(sys.argv[1]), *map(eval, sys.argv[2:])
    axes = {"norm": ["none", "layer", "batch"], "batch_size": sizes, "seeds": [seeds]}
    tasks = apart(grid(MNIST, "smoke", axes))
    for outcome in sweep(tasks, root=root, jobs=jobs, save_every=0.05):
        print("ended", outcome.error, flush=True)
"""


def driver(root: Path, full: bool, jobs: int) -> subprocess.Popen:
    """The sweep as a program of its own."""
    path = root.parent / "driver.py"
    path.write_text(PROGRAM)
    size = ["[4, 128]", "(0, 1, 2, 3)"] if full else ["[4]", "(0, 1)"]
    command = [sys.executable, str(path), str(root), *size, str(jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.dear
@pytest.mark.stress
def test_killed_driver_leaves_no_process_and_is_simply_run_again(serial, full, tmp_path):
    root = tmp_path / "runs"
    first = driver(root, full, 2)
    assert first.stdout is not None
    first.stdout.readline()
    family = [first.pid, *(child.pid for child in psutil.Process(first.pid).children())]
    assert len(family) >= 3
    first.kill()
    first.communicate()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in family):
        assert time.monotonic() < deadline, "orphans after 10 s"
        time.sleep(0.1)
    assert sum(run.done for run in read(root)) < len(serial)
    assert finished(sweep(tasks(full), root=root, jobs=2 if full else 1)) == len(tasks(full))
    assert left(root) == serial


@pytest.mark.dear
@pytest.mark.stress
def test_three_sweeps_over_one_folder_do_nothing_twice(serial, full, tmp_path):
    """One is killed while it trains; the others finish its run as well."""
    root = tmp_path / "runs"
    sweeps = [driver(root, full, 1) for _ in range(3)]
    try:
        assert sweeps[0].stdout is not None
        said = [sweeps[0].stdout.readline()]
        time.sleep(0.2)
        sweeps[0].kill()
        said += [
            line for sweep in sweeps for line in sweep.communicate(timeout=300)[0].split("\n")
        ]
    finally:
        for process in sweeps:
            process.kill()
    assert left(root) == serial
    told = Counter(line.strip() for line in said)
    trained = {line.split()[1]: times for line, times in told.items() if "trained" in line}
    assert trained == dict.fromkeys(serial, 1)
    assert [line for line in told if line.startswith("ended")] == ["ended None"]
    assert told["ended None"] >= 2 * len(serial)
