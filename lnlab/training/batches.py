"""Batches whose order is a function of the seed and the epoch, and of nothing else."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from lnlab.nn.padding import pad_and_stack
from lnlab.training.random_state import generator_seeded_by_hash, move_to_device

GATHER_BYTES = 2**24
"""Bytes of examples that are gathered at once: 16 MiB."""


class Batches:
    """Batches of examples in random order, one order per seed, for models that train at once.

    The order in an epoch depends only on (seed, epoch). It is therefore the same for all models
    that are compared, can be made again without the epochs before, and does not change if
    anything else uses random numbers. If the last batch would be smaller than ``size``, it is
    dropped; other examples are dropped in each epoch. x and y are tensors (N, ...) or trees of
    tensors.

    Examples:
        >>> batches = lnlab.training.Batches(x, y, 8, seeds=[0, 1])
        >>> for some_x, some_y in batches.batches_of_epoch(0):
        ...     print(some_x.shape)  # 2 seeds, 8 examples of each
    """

    def __init__(self, x: Any, y: Any, size: int, seeds: Sequence[int]) -> None:
        self._leaves, self._tree = tree_flatten((x, y))
        counts = [len(leaf) for leaf in self._leaves]
        self.count = counts[0]
        if min(counts) < max(counts):
            raise ValueError(
                f"x and y hold {', '.join(map(str, counts))} examples: they must be as many."
            )
        if not 1 <= size <= self.count:
            raise ValueError(f"a batch of {size} examples cannot be taken from {self.count}.")
        if not seeds:
            raise ValueError("there are no seeds: give one for each model.")
        self.x, self.y, self.size, self.seeds = x, y, size, tuple(seeds)

    def __len__(self) -> int:
        """Return the number of updates in an epoch."""
        return self.count // self.size

    def batches_of_epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
        """Yield the batches of an epoch from ``start`` on: x (S, B, ...) and y (S, B, ...)."""
        order = torch.stack([self._shuffle_examples(seed, epoch) for seed in self.seeds])
        # (S, N) to (updates, S, B): a few batches are gathered at once, which is cheaper.
        used = order[:, : len(self) * self.size]
        chosen = used.unflatten(1, (len(self), self.size)).transpose(0, 1)
        chosen = chosen.to(self._leaves[0].device)
        for indices in chosen[start:].split(self._batches_per_gather()):
            for batch in zip(*(leaf[indices] for leaf in self._leaves), strict=True):
                yield tree_unflatten(batch, self._tree)

    def _shuffle_examples(self, seed: int, epoch: int) -> Tensor:
        order = generator_seeded_by_hash(f"order of seed {seed} in epoch {epoch}")
        return torch.randperm(self.count, generator=order)

    def _batches_per_gather(self) -> int:
        example = sum(leaf[0].nbytes for leaf in self._leaves)
        batch = len(self.seeds) * self.size * example
        return max(1, GATHER_BYTES // max(1, batch))


# Batches of examples of like length.


POOL = 16
"""Batches out of which those of like length are made: shorter padding, still another order."""


class BucketedBatches:
    """Examples in batches of similar length, another order in each epoch and for each seed.

    The order depends on (seed, epoch) alone, so that all arms of a comparison have the same.
    Examples are collated when their batch comes, and not before.

    Args:
        lengths: how many steps each example has (N,).
        collate: from the indices of some examples to their batch: x and y, trees of tensors
            (B, n, ...) and (B,). A named tuple of them may leave lengths ``on_cpu``.
        size: B; the last batch of an epoch may be smaller.
        seeds: one for each model.
        device: where the batches go.
        fill: what pads whole numbers where a seed has shorter examples than another.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        collate: Callable[[list[int]], tuple[Any, Any]],
        size: int,
        seeds: Sequence[int],
        device: torch.device,
        *,
        fill: int = 0,
    ) -> None:
        if not lengths:
            raise ValueError("there are no examples to train on.")
        self.lengths, self.collate, self.size = lengths, collate, size
        self.seeds, self.device, self.fill = tuple(seeds), device, fill

    def __len__(self) -> int:
        """Return the number of updates in an epoch."""
        return -(-len(self.lengths) // self.size)

    def batches_of_epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
        """Yield the batches of an epoch from ``start`` on: trees of tensors (S, B, ...)."""
        orders = [self._draw_batch_indices(seed, epoch) for seed in self.seeds]
        for chosen in list(zip(*orders, strict=True))[start:]:
            batches = (self.collate(indices) for indices in chosen)
            batch = tree_map(lambda *same: pad_and_stack(same, self.fill), *batches)
            yield move_to_device(batch, self.device)

    def _draw_batch_indices(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator_seeded_by_hash(f"order of seed {seed} in epoch {epoch}")
        order = torch.randperm(len(self.lengths), generator=random).tolist()
        pools = [
            order[k : k + POOL * self.size] for k in range(0, len(order), POOL * self.size)
        ]
        batches = []
        for pool in pools:
            pool.sort(key=lambda index: self.lengths[index])
            batches += [pool[k : k + self.size] for k in range(0, len(pool), self.size)]
        last = batches.pop() if len(batches[-1]) < self.size else None
        shuffled = torch.randperm(len(batches), generator=random).tolist()
        return [batches[index] for index in shuffled] + ([last] if last else [])
