"""Several ranks train what one device trains, and a rank may die."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lnlab.norms import BatchNorm
from lnlab.runs import Run, read
from lnlab.tasks import PermutationInvariantMNIST, SequentialDigits, Spelling
from lnlab.training import launch, shareable, stack, train
from lnlab.training.ranks import refuse_mixing

SETTINGS = {"norm": "layer", "batch_size": 32, "epochs": 1}


TWO = f"""
import os, socket, sys
from pathlib import Path
import torch
import torch._dynamo  # with which DDP begins; before there are two
from lnlab.tasks import PermutationInvariantMNIST
from lnlab.training import train

torch.set_num_threads(1)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
child = os.fork()
rank = str(int(child == 0))
os.environ |= dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", MASTER_PORT=str(port),
                   MASTER_ADDR="127.0.0.1", TORCH_CPP_LOG_LEVEL="ERROR")
task = PermutationInvariantMNIST.budget("smoke", **{SETTINGS})
for _ in train(task, root=Path(sys.argv[1]), precision="float64"):
    pass
sys.exit(os.waitpid(child, 0)[1] if child else 0)
"""
"""Two ranks of one process, which imports for both."""


def started(pool: ThreadPoolExecutor, root: Path) -> "Future[int]":
    """Two ranks, as ``lnlab train --nproc 2`` starts them."""
    arguments = ["train", "mnist", "--budget=smoke", "--precision=float64", "--save-every=0"]
    arguments += [f"--set={name}={value}" for name, value in SETTINGS.items()]
    return pool.submit(launch, 2, [*arguments, f"--out={root}"])


def end(status: "Future[int]", root: Path) -> Run:
    assert status.result(timeout=120) == 0
    (run,) = read(root)
    assert run.done
    return run


def left(run: Run) -> tuple[bytes, str]:
    rows = run.metrics().drop(columns=["seconds", "cpu_seconds"]).to_csv()
    return run.content("weights.safetensors"), rows


def ranks_of(root: Path) -> dict[str, int]:
    """The processes that train into a folder, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode()
            environment = (process / "environ").read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        if f"--out={root}" in command and "torch.distributed.run" not in command:
            ((rank,),) = [re.findall(r"\0RANK=(\d+)\0", environment)]
            found[rank] = int(process.name)
    return found


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """A run of two ranks without torchrun."""
    root = tmp_path_factory.mktemp("forked")
    subprocess.run([sys.executable, "-c", TWO, str(root)], check=True, timeout=120)
    (run,) = read(root)
    assert run.done
    return run


@pytest.fixture(scope="module")
def clean(pool, tmp_path_factory):
    """A run of two ranks that nothing happened to."""
    root = tmp_path_factory.mktemp("two")
    return end(started(pool, root), root)


@pytest.mark.slow
def test_two_ranks_equal_one_device(forked, tmp_path):
    """Layer norm, float64, to 1e-12."""
    task = PermutationInvariantMNIST.budget("smoke", **SETTINGS)
    for _ in train(task, root=tmp_path, precision="float64"):
        pass
    (one,) = read(tmp_path)
    assert forked.config["ranks"] == 2
    assert forked.key != one.key
    serial, shared = one.weights(), forked.weights()
    assert set(serial) == set(shared)
    for name, tensor in serial.items():
        # sums of 32 cases in two halves, carried through 37 updates of Adam
        torch.testing.assert_close(shared[name], tensor, rtol=0, atol=1e-12)
    losses = [run.metrics()["loss"].dropna().tolist() for run in (forked, one)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)  # likewise


@pytest.mark.dear
def test_ranks_that_torchrun_starts_train_the_same(clean, forked):
    assert clean.key == forked.key
    assert left(clean) == left(forked)


def test_a_launch_is_lnlab_under_torchrun(monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "call", lambda command, **_: asked.append(command) or 3)
    assert launch(2, ["train", "mnist"], restarts=1) == 3
    ((python, _, module, *options),) = asked
    assert (python, module) == (sys.executable, "torch.distributed.run")
    assert {"--nproc-per-node=2", "--max-restarts=1"} <= {*options}
    assert options[-4:] == ["--", "lnlab.cli", "train", "mnist"]


@pytest.mark.dear
@pytest.mark.stress
def test_a_killed_rank_is_taken_up_again(clean, pool, full, tmp_path):
    """The bytes are those of a clean run of two."""
    for victim in ("1", "0") if full else ("1",):
        root = tmp_path / f"killed {victim}"
        status = started(pool, root)
        while not list(root.glob("*/*/state.pt")):
            assert not status.done()
            time.sleep(0.005)
        os.kill(ranks_of(root)[victim], signal.SIGKILL)
        assert left(end(status, root)) == left(clean)


@pytest.mark.parametrize("norm", ["batch", "batch hidden"])
def test_batch_norm_is_refused_with_the_reason(norm):
    task = PermutationInvariantMNIST.budget("smoke", norm=norm)
    with pytest.raises(
        ValueError, match=r"other cases of its batch.*Batch.*layer norm, or torch"
    ):
        shareable(task, 2)


@pytest.mark.parametrize("norm", ["batch", "batch pooled"])
def test_recurrent_batch_norm_is_refused(norm):
    with pytest.raises(ValueError, match="other cases of its batch"):
        shareable(SequentialDigits.budget("smoke", norm=norm), 2)


@pytest.mark.parametrize(
    "task",
    [
        PermutationInvariantMNIST.budget("smoke", norm="layer"),
        PermutationInvariantMNIST.budget("smoke", norm="weight"),
        SequentialDigits.budget("smoke", norm="layer"),
        SequentialDigits.budget("smoke", norm="none", cell="gru"),
    ],
    ids=lambda task: f"{task.name} {task.norm}",
)
def test_what_treats_each_case_by_itself_may_be_shared(task):
    shareable(task, 2)


def test_uneven_share_is_refused():
    task = PermutationInvariantMNIST.budget("smoke", batch_size=5)
    with pytest.raises(ValueError, match="batch of 5 cases cannot be shared evenly by 2 ranks"):
        shareable(task, 2)


def test_batches_of_a_tasks_own_are_refused():
    las: Any = Spelling.budget("smoke")
    with pytest.raises(ValueError, match="las has batches of its own"):
        shareable(las, 2)


def test_whatever_mixes_cases_is_found_and_the_model_left_as_it_was():
    class Contrast(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    x = torch.randn(6, 4)
    refuse_mixing(stack([nn.Sequential(nn.Linear(4, 3), nn.Dropout())]), x, 2)
    with pytest.raises(ValueError, match="parts: not known"):
        refuse_mixing(stack([Contrast()]), x, 2)
    model = stack([nn.Sequential(nn.Linear(4, 3), BatchNorm(3))]).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"module\.1 \(BatchNorm\)"):
        refuse_mixing(model, x, 2)
    assert not model.training
    assert all(torch.equal(before[n], tensor) for n, tensor in model.state_dict().items())
