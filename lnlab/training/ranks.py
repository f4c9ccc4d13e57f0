"""One run on several devices: each rank is a process that takes a share of every batch.

torch's own DistributedDataParallel adds the gradients up, torchrun starts the processes and
starts them again when one has died. A process that is alone needs none of it.
"""

import copy
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map

PATIENCE = timedelta(minutes=3)
"""The time that ranks wait for each other; then they fail, and torchrun starts them again. They
measure all alike, so that none waits for that."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    # else ranks that are started again may read the addresses of those that have died
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    # DDP warns that find_unused_parameters found none
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
"""The environment of torchrun, unless the user's own says otherwise."""

DEPENDS = 1e-3
"""A change of an output by more than this, as a fraction of the largest, is no rounding."""


def world() -> int:
    """The number of ranks, as torchrun says in the environment; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1))


def first() -> bool:
    """True if this process is the one that writes and speaks."""
    return int(os.environ.get("RANK", 0)) == 0


@dataclass(frozen=True)
class Ranks:
    """The ranks that train one run together, as one of them sees it."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """True for the rank that writes and speaks."""
        return self.rank == 0

    def share(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model with gradients that are means over the ranks."""
        if self.count == 1:
            return model
        own = [device] if device.type == "cuda" else None
        # DDP would else regroup the gradients after its first update, and again after a
        # resume; with more than two ranks that changes the order of the sums
        return DistributedDataParallel(model, device_ids=own, find_unused_parameters=True)

    def mean(self, losses: Tensor) -> Tensor:
        """The mean (S,) over the ranks, known to each."""
        if self.count == 1:
            return losses
        losses = losses.clone()
        distributed.all_reduce(losses)
        return losses / self.count

    def told(self, value: bool) -> bool:
        """The value that the first rank has."""
        if self.count == 1:
            return value
        said = torch.tensor([value], dtype=torch.uint8)
        distributed.broadcast(said, 0)
        return bool(said)

    def spread(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        """The state of the first rank, for all of them."""
        if self.count == 1:
            return state
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
        size = torch.tensor([len(content)])
        distributed.broadcast(size, 0)
        content = content if self.first else torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(content, 0)
        return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)

    def gathered(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """The tensors of every rank, which are of one shape in all of them."""
        if self.count == 1:
            return [list(tensors)]
        columns = []
        for tensor in tensors:
            column = [torch.empty_like(tensor) for _ in range(self.count)]
            distributed.all_gather(column, tensor)
            columns.append(column)
        return [list(row) for row in zip(*columns, strict=True)]

    def wait(self) -> None:
        """Return when all ranks have come here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """The ranks that torchrun has started, connected: gloo, and NCCL between GPUs."""
    if world() == 1:
        yield Ranks()
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def own(device: torch.device) -> torch.device:
    """The GPU of this rank, where there are several ranks and no GPU was named."""
    if device == torch.device("cuda") and world() > 1:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


def refuse_mixing(model: nn.Module, x: Any, ranks: int) -> None:
    """Raise unless the model treats each case by itself while it trains.

    Ranks see shares of a batch: what is computed over its cases (batch normalization) would
    be computed over each share, and the run be another one than on a single device.

    Args:
        model: called with stacked inputs (S, B, ...).
        x: a few cases, a tree of tensors (B, ...).
        ranks: how many there are.

    Raises:
        ValueError: if an output depends on other cases; names parts that may be why.
    """
    parts = [(name, type(part).__name__) for name, part in model.named_modules()]
    if any(kind == "SyncBatchNorm" for _, kind in parts) or len(tree_leaves(x)[0]) < 2:
        return
    if _mixes(copy.deepcopy(model).train(), x):
        blamed = ", ".join(f"{name} ({kind})" for name, kind in parts if "Batch" in kind)
        raise ValueError(
            "the output for a case depends on the other cases of its batch (parts: "
            f"{blamed or 'not known'}): {ranks} ranks would each take statistics of their own "
            "share, which is another experiment than on one device. Train it in one process, "
            "or use layer norm, or torch.nn.SyncBatchNorm on GPUs."
        )


def _mixes(model: nn.Module, x: Any) -> bool:
    """True if the first case comes out otherwise when all others are 0."""
    alone = tree_map(lambda v: torch.cat([v[:1], torch.zeros_like(v[1:])]), x)
    outputs, count = [], getattr(model, "count", 1)
    for cases in (x, alone):
        # the same noise for both
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            output = model(tree_map(lambda v: v.expand(count, *v.shape), cases))
        outputs.append([leaf[:, 0] for leaf in tree_leaves(output)])
    return any(
        bool((a - b).abs().max() > DEPENDS * a.abs().max())
        for a, b in zip(*outputs, strict=True)
    )


def launch(ranks: int, arguments: Sequence[str], *, restarts: int = 3) -> int:
    """Run ``lnlab`` with these arguments in several ranks of this machine; its exit status.

    ``launch(2, ["train", "mnist", "--budget", "smoke"])`` is ``lnlab train mnist --budget
    smoke --nproc 2``, from a notebook too. When a rank dies, all go on from the checkpoint.

    Args:
        ranks: how many, a GPU or a core each.
        arguments: those of the command line.
        restarts: how often a death is put up with.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]
    # after "--" it looks for options of its own no more
    torchrun += [f"--max-restarts={restarts}", "--module", "--", "lnlab.cli"]
    return subprocess.call([*torchrun, *arguments], env=ENVIRONMENT | os.environ)
