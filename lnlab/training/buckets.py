"""Batches of cases of like length."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from lnlab.nn.padding import padded
from lnlab.training.machine import generator, placed

POOL = 16
"""Batches out of which those of like length are made: shorter padding, still another order."""


class Bucketed:
    """Cases in batches of like length, another order in each epoch and for each seed.

    The order depends on (seed, epoch) alone, so that all arms of a comparison have the same.
    Cases are gathered when their batch comes, and not before.

    Args:
        lengths: how many steps each case has (N,).
        gathered: from the places of some cases to their batch: x and y, trees of tensors
            (B, n, ...) and (B,). A named tuple of them may leave lengths ``on_cpu``.
        size: B; the last batch of an epoch may be smaller.
        seeds: one for each model.
        device: where the batches go.
        fill: what stands behind the end of whole numbers, where a seed has shorter cases than
            another; behind that of floating-point numbers it is 0.

    Raises:
        ValueError: if there are no cases.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        gathered: Callable[[list[int]], tuple[Any, Any]],
        size: int,
        seeds: Sequence[int],
        device: torch.device,
        *,
        fill: int = 0,
    ) -> None:
        if not lengths:
            raise ValueError("there are no cases to train on.")
        self.lengths, self.gathered, self.size = lengths, gathered, size
        self.seeds, self.device, self.fill = tuple(seeds), device, fill

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return -(-len(self.lengths) // self.size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
        """The batches of an epoch from ``start`` on: x and y, trees of tensors (S, B, ...)."""
        orders = [self._order(seed, epoch) for seed in self.seeds]
        for chosen in list(zip(*orders, strict=True))[start:]:
            batches = (self.gathered(places) for places in chosen)
            batch = tree_map(lambda *same: padded(same, self.fill), *batches)
            yield placed(batch, self.device)

    def _order(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator(f"order of seed {seed} in epoch {epoch}")
        order = torch.randperm(len(self.lengths), generator=random).tolist()
        pools = [
            order[k : k + POOL * self.size] for k in range(0, len(order), POOL * self.size)
        ]
        batches = []
        for pool in pools:
            pool.sort(key=lambda place: self.lengths[place])
            batches += [pool[k : k + self.size] for k in range(0, len(pool), self.size)]
        last = batches.pop() if len(batches[-1]) < self.size else None
        shuffled = torch.randperm(len(batches), generator=random).tolist()
        return [batches[place] for place in shuffled] + ([last] if last else [])
