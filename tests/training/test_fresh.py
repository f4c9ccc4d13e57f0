"""A run is the same whoever starts it, and leaves its process as it was."""

import json
import os
import subprocess
import sys
import time

import pytest

from lnlab.training.runs import read, table

PROGRAM = """
import hashlib, json, sys
from pathlib import Path
import torch
from lnlab.training.runs import read
from lnlab.papers import PermutationInvariantMNIST, SequentialDigits
from lnlab.training import train

found = {"threads": torch.get_num_threads()}
for kind, norm in (
    (PermutationInvariantMNIST, "layer"), (PermutationInvariantMNIST, "batch"),
    (SequentialDigits, "layer"),
):
    task = kind.budget("smoke", norm=norm, epochs=1, batch_size=32)
    for _ in train(task, root=sys.argv[1]):
        pass
for run in read(Path(sys.argv[1])):
    rows = run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv()
    content = (run.folder / "weights.safetensors").read_bytes() + rows.encode()
    found[run.key] = hashlib.sha256(content).hexdigest()
print(json.dumps(found))
"""


@pytest.mark.dear
@pytest.mark.stress
def test_three_fresh_processes_end_in_the_same_bytes(tmp_path):
    """On one thread and on two, with other hashes of text and in other folders."""
    programs = []
    for index, threads in enumerate(("1", "2", "2")):
        folder = tmp_path / str(index)
        folder.mkdir()
        # a Dask cluster of an earlier test leaves its own numbers of threads behind
        count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        own = count | {"PYTHONHASHSEED": str(index)}
        command = [sys.executable, "-c", PROGRAM, str(folder / "runs")]
        programs.append(
            subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=subprocess.PIPE)
        )
    found = [json.loads(program.communicate(timeout=120)[0]) for program in programs]
    assert [one.pop("threads") for one in found] == [1, 2, 2]
    assert len(found[0]) == 3
    assert found[0] == found[1] == found[2]


SOAK = """
import gc, os, sys
from lnlab.training.runs import read
from lnlab.papers import PermutationInvariantMNIST
from lnlab.training import train

def open_files():
    return len(os.listdir("/proc/self/fd"))

def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

root, times = sys.argv[1], int(sys.argv[2])
for index in range(times):
    norm = ("none", "layer", "batch")[index % 3]
    task = PermutationInvariantMNIST.budget("smoke", norm=norm, seeds=(index,), epochs=1)
    for _ in train(task, root=root):
        pass
    if index == times // 6:
        before = memory(), open_files()
after = memory(), open_files()
print(before[0], after[0], before[1], after[1], sum(run.done for run in read(root)))
"""


@pytest.mark.dear
@pytest.mark.stress
def test_many_runs_in_one_process_do_not_fill_it(full, tmp_path):
    """``--full``: 300. Memory grows by less than 5 %, no file stays open, and who reads the
    growing folder all the while sees no error."""
    times = 300 if full else 30
    command = [sys.executable, "-c", SOAK, str(tmp_path), str(times)]
    seen = [0]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        while program.poll() is None:
            seen.append(len(table(read(tmp_path))))
            time.sleep(0.01)
        assert program.returncode == 0
        assert program.stdout is not None
        before, after, files_before, files_after, done = map(int, program.stdout.read().split())
    assert done == times
    assert files_after == files_before
    assert after < 1.05 * before
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
