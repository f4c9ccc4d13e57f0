"""kill -9 at any moment, again and again: the end is the same bytes, of every kind of model."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lnlab.training.runs import read

HERE = Path(__file__).parent
MODELS = {
    "layer": ("lnlab.papers:PermutationInvariantMNIST", {"norm": "layer"}),
    "running statistics": ("lnlab.papers:PermutationInvariantMNIST", {"norm": "batch"}),
    "recurrent": ("lnlab.papers:SequentialDigits", {"norm": "layer", "cell": "lstm"}),
    "every generator": (f"{HERE / 'conftest.py'}:Drawing", {"epochs": 5}),
}

# one process imports torch, and its children are forked from it
PROGRAM = """
import importlib.util, json, os, random, signal, sys, time
import sklearn.datasets, torch._dynamo  # else each child would
from lnlab.training.runs import environment
from lnlab.training import train

def task_of(place, changes):
    place, _, name = place.rpartition(":")
    if not place.endswith(".py"):
        kind = getattr(importlib.import_module(place), name)
        return kind.budget("smoke", seeds=(0, 1), epochs=1, batch_size=32, **changes)
    spec = importlib.util.spec_from_file_location("task", place)
    module = sys.modules["task"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)(**changes)

def trained(root, save_every, tell=None):
    "A child that trains to the end, and says so at each update."
    child = os.fork()
    if child:
        return child
    for _ in train(task, root=root, save_every=save_every):
        if tell is not None:
            os.write(tell, b".")
    os._exit(0)

def killed(root, updates):
    "Whether a child died of being killed, after so many updates and a moment."
    told, tell = os.pipe()
    child = trained(root, chance.choice([0, 0.01]), tell)
    os.close(tell)
    for _ in range(updates):
        os.read(told, 1)
    time.sleep(chance.uniform(0, 0.005))
    os.kill(child, signal.SIGKILL)
    os.close(told)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

environment()  # asks git, likewise
chance = random.Random(0)
for model, (place, changes) in json.loads(sys.argv[1]).items():
    task = task_of(place, changes)
    for root in sys.argv[2:]:
        # at most a quarter of the updates each: the second kill finds it on its way
        times = 0 if root.endswith("clean") else chance.choice([2, 2, 3])
        kills = sum(killed(f"{root}/{model}", chance.randrange(1, 8)) for _ in range(times))
        print(kills == times, os.waitpid(trained(f"{root}/{model}", 30), 0)[1])
"""


def left(root: Path) -> tuple[bytes, str]:
    (run,) = read(root)
    assert run.done
    assert not list(run.folder.glob("*.part"))
    rows = run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv()
    return (run.folder / "weights.safetensors").read_bytes(), rows


@pytest.mark.dear
@pytest.mark.stress
def test_killed_at_any_moment_it_ends_in_the_same_bytes(full, tmp_path):
    """``--full``: 10 runs of each model."""
    clean, *roots = [tmp_path / "clean", *(tmp_path / str(i) for i in range(10 if full else 1))]
    arguments = [json.dumps(MODELS), str(clean), *map(str, roots)]
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    output = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert output.returncode == 0, output.stderr
    assert output.stdout.splitlines() == ["True 0"] * len(MODELS) * (1 + len(roots)), output
    for model in MODELS:
        expected = left(clean / model)
        assert [left(root / model) == expected for root in roots] == [True] * len(roots), model
