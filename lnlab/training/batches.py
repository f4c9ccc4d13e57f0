"""Batches whose order is a function of the seed and the epoch, and of nothing else."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

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
        x: the cases, a tensor (N, ...) or a tree of several.
        y: their targets, likewise.
        size: B, the number of cases in a batch.
        seeds: one for each model.

    Raises:
        ValueError: if x and y are not of one length, or there is not one whole batch.
    """

    def __init__(self, x: Any, y: Any, size: int, seeds: Sequence[int]) -> None:
        self._leaves, self._tree = tree_flatten((x, y))
        counts = [len(leaf) for leaf in self._leaves]
        self.count = counts[0]
        if min(counts) < max(counts):
            raise ValueError(
                f"x and y hold {', '.join(map(str, counts))} cases: they must be as many."
            )
        if not 1 <= size <= self.count:
            raise ValueError(f"a batch of {size} cases cannot be taken from {self.count}.")
        if not seeds:
            raise ValueError("there are no seeds: give one for each model.")
        self.x, self.y, self.size, self.seeds = x, y, size, tuple(seeds)

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return self.count // self.size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
        """The batches of an epoch, x (S, B, ...) and y (S, B, ...), from batch ``start`` on."""
        order = torch.stack([self._order(seed, epoch) for seed in self.seeds])
        # (S, N) to (updates, S, B): a few batches are gathered at once, which is cheaper.
        used = order[:, : len(self) * self.size]
        chosen = used.unflatten(1, (len(self), self.size)).transpose(0, 1)
        chosen = chosen.to(self._leaves[0].device)
        for indices in chosen[start:].split(self._ahead()):
            for batch in zip(*(leaf[indices] for leaf in self._leaves), strict=True):
                yield tree_unflatten(batch, self._tree)

    def _order(self, seed: int, epoch: int) -> Tensor:
        order = generator(f"order of seed {seed} in epoch {epoch}")
        return torch.randperm(self.count, generator=order)

    def _ahead(self) -> int:
        case = sum(leaf[0].nbytes for leaf in self._leaves)
        batch = len(self.seeds) * self.size * case
        return max(1, AHEAD // max(1, batch))
