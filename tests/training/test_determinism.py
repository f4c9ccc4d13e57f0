"""The same bytes in every process, on any number of threads, killed at any moment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lnlab.training.runs import read

HERE = Path(__file__).parent
MODELS = {
    "running statistics": ("lnlab.papers.mnist:Experiment", {"norm": "batch"}),
    "recurrent": (
        "lnlab.papers.sequential_digits:Experiment",
        {"norm": "layer", "cell": "lstm"},
    ),
    "random steps": (f"{HERE / 'conftest.py'}:Noisy", {"epochs": 5}),
}

HEAD = """
import importlib.util, json, os, random, signal, sys, time
import sklearn.datasets, torch, torch._dynamo  # else each child would import them
from lnlab.training import train_steps
from lnlab.training.runs import environment

def experiment(place, changes):
    place, _, name = place.rpartition(":")
    if not place.endswith(".py"):
        kind = getattr(importlib.import_module(place), name)
        return kind.budget("smoke", seeds=(0, 1), epochs=1, batch_size=32, **changes)
    spec = importlib.util.spec_from_file_location("task", place)
    module = sys.modules["task"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)(**changes)

def train(experiment, root, save_every=30, update_done=lambda: None):
    for _ in train_steps(experiment, root=root, save_every=save_every):
        update_done()
"""

# one process imports torch, and its children are forked from it
KILLED = f"""{HEAD}
def child(root, save_every, pipe=None):
    "A process that trains to the end, and writes a byte at each update."
    pid = os.fork()
    if pid:
        return pid
    train(task, root, save_every, lambda: pipe is not None and os.write(pipe, b"."))
    os._exit(0)

def is_killed(root, updates):
    "Kill a child after so many updates and a moment; True if that ended it."
    read, write = os.pipe()
    pid = child(root, chance.choice([0, 0.01]), write)
    os.close(write)
    for _ in range(updates):
        os.read(read, 1)
    time.sleep(chance.uniform(0, 0.005))
    os.kill(pid, signal.SIGKILL)
    os.close(read)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

environment()  # asks git, which each child would do
chance = random.Random(0)
for model, (place, changes) in json.loads(sys.argv[1]).items():
    task, root = experiment(place, changes), f"{{sys.argv[2]}}/{{model}}"
    # at most a quarter of the updates each: the second kill finds it on its way
    kills = [is_killed(root, chance.randrange(1, 8)) for _ in range(2)]
    print(all(kills), os.waitpid(child(root, 30), 0)[1])
"""

FRESH = f"""{HEAD}
print(torch.get_num_threads())
for model, (place, changes) in json.loads(sys.argv[1]).items():
    train(experiment(place, changes), f"{{sys.argv[2]}}/{{model}}")
"""


def contents(root: Path) -> tuple[bytes, str]:
    (run,) = read(root)
    assert run.done
    assert not list(run.folder.glob("*.part"))
    rows = run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv()
    return (run.folder / "weights.safetensors").read_bytes(), rows


def start(program, threads, root):
    """A process with other hashes of text, on so many threads."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", program, json.dumps(MODELS), str(root)]
    env |= {"PYTHONHASHSEED": root.name}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_killed_or_on_more_threads_it_ends_in_the_same_bytes(tmp_path):
    roots = [tmp_path / name for name in "123"]
    programs = [
        start(FRESH, 1, roots[0]),
        start(FRESH, 2, roots[1]),
        start(KILLED, 1, roots[2]),
    ]
    lines = [program.communicate(timeout=600)[0].splitlines() for program in programs]
    assert lines == [["1"], ["2"], ["True 0"] * len(MODELS)]
    for model in MODELS:
        expected, threads, killed = (contents(root / model) for root in roots)
        assert (threads == expected, killed == expected) == (True, True), model
