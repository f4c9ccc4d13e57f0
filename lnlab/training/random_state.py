"""The device of a run, and the random numbers that it draws."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

PINNED = ("cuda",)
"""The types of devices that fetch from pinned memory while they compute."""


def read_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; of "auto" CUDA where there is one, else the CPU.

    Raises:
        ValueError: if this machine has no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:100]
        raise ValueError(
            f"device {str(device)!r} cannot be used here; choose auto, cpu, cuda or cuda:N "
            f"(docs/install.md has how to install torch for CUDA): {reason}"
        ) from error


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set the dtype of new parameters and random numbers that are given none."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def seed_torch_temporarily(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from a seed; outside they go on as before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def move_to_device(tree: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """Move a tree of tensors to a device, the floating-point ones to a dtype.

    Whole numbers, which are classes, words or lengths, remain whole. A named tuple keeps the
    fields that its ``on_cpu`` names on the CPU: a loop over time reads lengths, and would wait
    for a device. A GPU copies from pinned memory when it gets to it, so that the next batch is
    prepared meanwhile.
    """

    def move(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            target = dtype if dtype and leaf.is_floating_point() else leaf.dtype
            if device.type in PINNED and leaf.device.type == "cpu":
                return leaf.to(target).pin_memory().to(device, non_blocking=True)
            return leaf.to(device, target)
        names = set(leaf._fields) - {*leaf.on_cpu}
        moved = {name: move_to_device(getattr(leaf, name), device, dtype) for name in names}
        return leaf._replace(**moved)

    return tree_map(move, tree, is_leaf=lambda leaf: hasattr(leaf, "on_cpu"))


def generator_seeded_by_hash(
    purpose: str, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator for a purpose, "order of seed 0 in epoch 3", unlike all others."""
    digest = hashlib.sha256(purpose.encode()).digest()
    # 63 bits: the largest seed that every device takes
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


class IsolatedTorchRandomState:
    """Torch's random numbers (dropout, sampling), lent to a run.

    Inside ``with noise:`` torch's generators go on from where the last such block left them;
    outside they are the caller's, who may draw without disturbing the run. They are of the
    whole process: a thread that draws meanwhile takes numbers from the run.

    Attributes:
        state: the states of the generators, of the CPU and of a GPU: tensors (n,).
    """

    def __init__(self, purpose: str, device: torch.device) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])
        self.state = [
            generator_seeded_by_hash(purpose, lent.device).get_state()
            for lent in self._generators
        ]

    def __enter__(self) -> None:
        self._outside = self._swap_generator_states(self.state)

    def __exit__(self, *error: object) -> None:
        self.state = self._swap_generator_states(self._outside)

    def _swap_generator_states(self, states: list[Tensor]) -> list[Tensor]:
        """Give the generators other states, and return those that they had."""
        before = [lent.get_state() for lent in self._generators]
        for lent, state in zip(self._generators, states, strict=True):
            lent.set_state(state)
        return before
