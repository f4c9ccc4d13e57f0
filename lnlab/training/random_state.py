"""The device of a run, and the random numbers that it draws."""

import hashlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

RANDOM: Any = np.random
"""numpy's global generator; its annotations lack what its documentation has."""

PINNED = ("cuda",)
"""The types of devices that fetch from pinned memory while they compute."""

VERSION = random.getstate()[0]
"""The version of the form in which Python gives the state of its generator."""


def read_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; of "auto" CUDA where there is one, else the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def check_device(device: str | torch.device) -> torch.device:
    """Return the device of a name, as :func:`read_device`, after a try."""
    try:
        device = read_device(device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {str(device)!r} cannot be used here: {reason}") from error
    return device


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
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from a seed; outside they go on as before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def seed_all(seed: int) -> None:
    """Seed the global generators of torch, numpy and Python."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


def seconds_until_idle(device: torch.device) -> float:
    """Wait until an accelerator has done what it was given; how long that took."""
    if device.type == "cpu":
        return 0.0
    began = time.perf_counter()
    torch.accelerator.synchronize(device)
    return time.perf_counter() - began


def to_device(tree: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
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
        moved = {name: to_device(getattr(leaf, name), device, dtype) for name in names}
        return leaf._replace(**moved)

    return tree_map(move, tree, is_leaf=lambda leaf: hasattr(leaf, "on_cpu"))


def generator(purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator for a purpose, "order of seed 0 in epoch 3", unlike all others."""
    digest = hashlib.sha256(purpose.encode()).digest()
    # 63 bits: the largest seed that every device takes
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


class Noise:
    """Random numbers of torch (dropout, sampling), numpy and Python, lent to a run.

    Inside ``with noise:`` the global generators go on from where the last such block left
    them; outside they are the caller's, who may draw as he likes without disturbing the run.
    What numpy keeps in reserve (every other number of the old ``normal``) outlives no block.
    They are of the whole process: a thread that draws meanwhile takes numbers from the run.
    """

    def __init__(self, purpose: str, device: torch.device) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])
        self._torch = [generator(purpose, lent.device).get_state() for lent in self._generators]
        self._numpy = np.random.MT19937(generator(purpose).initial_seed())
        self._python = random.Random(purpose).getstate()

    @property
    def state(self) -> list[Tensor]:
        """The states of torch's generators, of numpy's and of Python's: tensors (n,).

        However much is drawn, each n stays: a checkpoint has one size.
        """
        numpy = self._numpy.state["state"]
        _, words, reserve = self._python
        # 32 bits fit in float64, as which the reserve came
        python = [*words, math.nan if reserve is None else reserve]
        of_numpy = torch.tensor([*numpy["key"].tolist(), numpy["pos"]])
        return [*self._torch, of_numpy, torch.tensor(python, dtype=torch.float64)]

    @state.setter
    def state(self, state: Sequence[Tensor]) -> None:
        *self._torch, numpy, python = state
        *key, pos = numpy.tolist()
        numpy_state: Any = {"key": np.array(key, np.uint32), "pos": pos}
        self._numpy.state = {"bit_generator": "MT19937", "state": numpy_state}
        *words, reserve = python.tolist()
        second = None if math.isnan(reserve) else reserve
        self._python = (VERSION, tuple(map(int, words)), second)

    def __enter__(self) -> None:
        self._outside = (
            [lent.get_state() for lent in self._generators],
            RANDOM.get_bit_generator(),
            random.getstate(),
        )
        self._set(self._torch, self._numpy, self._python)

    def __exit__(self, *error: object) -> None:
        self._torch = [lent.get_state() for lent in self._generators]
        self._python = random.getstate()
        self._set(*self._outside)

    def _set(self, torchs: list[Tensor], numpy: Any, python: tuple[Any, ...]) -> None:
        for lent, state in zip(self._generators, torchs, strict=True):
            lent.set_state(state)
        RANDOM.set_bit_generator(numpy)
        random.setstate(python)
