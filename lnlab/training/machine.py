"""Where a run computes, on how many threads, and whose random numbers it draws."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def available(device: str | torch.device) -> torch.device:
    """The device of that name.

    Raises:
        ValueError: if there is no such device here.
    """
    try:
        device = torch.device(device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {str(device)!r} cannot be used here: {reason}") from error
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch: how sums are cut among threads shows in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds_until_idle(device: torch.device) -> float:
    """Wait until an accelerator has done what it was given; how long that took."""
    if device.type == "cpu":
        return 0.0
    began = time.perf_counter()
    torch.accelerator.synchronize(device)
    return time.perf_counter() - began


def generator(purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers for a purpose, "order of seed 0 in epoch 3", unlike those of others."""
    digest = hashlib.sha256(purpose.encode()).digest()
    # 63 bits: the largest seed that every device takes
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


class Noise:
    """Torch's own random numbers (dropout, sampling), lent to a run while it computes.

    Inside ``with noise:`` they go on from where the last such block left them; outside they
    are the caller's, who may draw as he likes without disturbing the run.
    """

    def __init__(self, purpose: str, device: torch.device) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])
        self.state: list[Tensor] = [
            generator(purpose, lent.device).get_state() for lent in self._generators
        ]

    def __enter__(self) -> None:
        self._outside = [lent.get_state() for lent in self._generators]
        self._set(self.state)

    def __exit__(self, *error: object) -> None:
        self.state = [lent.get_state() for lent in self._generators]
        self._set(self._outside)

    def _set(self, states: list[Tensor]) -> None:
        for lent, state in zip(self._generators, states, strict=True):
            lent.set_state(state)
