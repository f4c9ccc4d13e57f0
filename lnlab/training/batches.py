"""Batches whose order is a function of the seed and the epoch, and of nothing else."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lnlab.training.machine import generator

AHEAD = 2**24
"""Bytes of cases that are gathered at once: 16 MiB."""


class Batches:
    """Cases in random order, one order for each seed, ready for models side by side.

    The order of an epoch depends on (seed, epoch) alone: it can be had again without those
    before it, it is the same for every model that is compared, and no other use of random
    numbers disturbs it. A last batch that would be smaller than ``size`` is dropped; the
    cases in it differ from epoch to epoch.

    Args:
        x: the cases (N, ...).
        y: their targets (N, ...).
        size: B, the number of cases in a batch.
        seeds: one for each model.
        part: (i, n) for the i-th of n equal parts of every batch, which is a rank's share.

    Raises:
        ValueError: if x and y are not of one length, there is not one whole batch, or it
            has no n equal parts.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        size: int,
        seeds: Sequence[int],
        part: tuple[int, int] = (0, 1),
    ) -> None:
        if len(x) != len(y):
            raise ValueError(f"x holds {len(x)} cases and y {len(y)}: they must be the same.")
        if not 1 <= size <= len(x):
            raise ValueError(f"a batch of {size} cases cannot be taken from {len(x)}.")
        if not seeds:
            raise ValueError("there are no seeds: give one for each model.")
        i, n = part
        if size % n:
            raise ValueError(f"a batch of {size} cases cannot be shared evenly by {n} ranks.")
        self.x, self.y, self.size, self.seeds = x, y, size, tuple(seeds)
        self._part = slice(i * size // n, (i + 1) * size // n)

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return len(self.x) // self.size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of an epoch, x (S, B, ...) and y (S, B, ...), from batch ``start`` on."""
        order = torch.stack([self._order(seed, epoch) for seed in self.seeds])
        # (S, N) to (updates, S, B): a few batches are gathered at once, which is cheaper.
        used = order[:, : len(self) * self.size]
        chosen = used.unflatten(1, (len(self), self.size)).transpose(0, 1)[..., self._part]
        chosen = chosen.to(self.x.device)
        for indices in chosen[start:].split(self._ahead()):
            yield from zip(self.x[indices], self.y[indices], strict=True)

    def _order(self, seed: int, epoch: int) -> Tensor:
        order = generator(f"order of seed {seed} in epoch {epoch}")
        return torch.randperm(len(self.x), generator=order)

    def _ahead(self) -> int:
        batch = len(self.seeds) * self.size * self.x[0].nbytes
        return max(1, AHEAD // max(1, batch))
