"""Listener and speller together, and the batches that they are given."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.data.utterance import Utterance
from lnlab.training.machine import generator

from .listener import Listener
from .speller import Heard, Speller

POOL = 16
"""Batches out of which those of like length are made: shorter padding, still another order."""


class Heeded(NamedTuple):
    """A batch of utterances as the net is given it.

    Attributes:
        features: (B, T, D), zeros behind the end.
        lengths: frames of each (B,).
        units: what is said, with the end symbol, which is also the padding (B, U).
    """

    features: Tensor
    lengths: Tensor
    units: Tensor


class ListenAttendSpell(nn.Module):
    """A batch :class:`Heeded` to logits (B, U, V), each unit after the right ones before.

    Args:
        mixed: whether products of matrices are made in bfloat16 while training (autocast).
    """

    opaque = True  # how long utterances are decides what is computed

    def __init__(self, listener: Listener, speller: Speller, *, mixed: bool = False) -> None:
        super().__init__()
        self.listener, self.speller, self.mixed = listener, speller, mixed

    def forward(self, batch: Heeded) -> Tensor:
        device = batch.features.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed and self.training):
            logits, _ = self.spell(batch)
        return logits.to(batch.features.dtype)

    def spell(self, batch: Heeded) -> tuple[Tensor, Tensor]:
        """Logits (B, U, V) and alpha (B, U, T')."""
        return self.speller(self.hear(batch), batch.units)

    def hear(self, batch: Heeded) -> Heard:
        """What is attended to."""
        return self.speller.attention.hear(*self.listener(batch.features, batch.lengths))


def gathered(
    utterances: Sequence[Utterance],
    numbers: dict[str, int],
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> tuple[Heeded, Tensor]:
    """A batch, and how many units each has with its end symbol (B,).

    Args:
        numbers: of the units; the end symbol has the number behind the last.
    """
    end = len(numbers)
    lengths = torch.tensor([len(u.features) for u in utterances])
    counts = torch.tensor([len(u.units) + 1 for u in utterances])
    features = torch.zeros(
        len(utterances), int(lengths.max()), utterances[0].features.shape[1], dtype=dtype
    )
    units = torch.full((len(utterances), int(counts.max())), end)
    for row, utterance in enumerate(utterances):
        features[row, : lengths[row]] = utterance.features
        said = [numbers[unit] for unit in utterance.units]
        units[row, : len(said)] = torch.tensor(said)
    heeded = (v.to(device) for v in (features, lengths, units))
    return Heeded(*heeded), counts.to(device)


class Bucketed:
    """Utterances in batches of like length, another order in each epoch and for each seed.

    The order depends on (seed, epoch) alone, so that all arms of a comparison have the same.

    Args:
        utterances: to train on.
        numbers: of the units; the end symbol has the number behind the last.
        size: B; the last batch of an epoch may be smaller.
        seeds: one for each model.
        device, dtype: where the batches go.
    """

    def __init__(
        self,
        utterances: Sequence[Utterance],
        numbers: dict[str, int],
        size: int,
        seeds: Sequence[int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if not utterances:
            raise ValueError("there are no utterances to train on.")
        self.utterances, self.numbers, self.size = utterances, numbers, size
        self.seeds, self.device, self.dtype = tuple(seeds), device, dtype

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return -(-len(self.utterances) // self.size)

    def epoch(
        self, epoch: int, start: int = 0
    ) -> Iterator[tuple[Heeded, tuple[Tensor, Tensor]]]:
        """The batches of an epoch from ``start`` on: what is heard (S, B, ...), and what is
        right: units and their counts."""
        orders = [self._order(seed, epoch) for seed in self.seeds]
        for chosen in list(zip(*orders, strict=True))[start:]:
            batches = [self._batch(places) for places in chosen]
            parts = zip(*(heeded for heeded, _ in batches), strict=True)
            heeded = Heeded(
                *(padded(part, len(self.numbers)).to(self.device) for part in parts)
            )
            counts = torch.stack([count for _, count in batches])
            yield heeded, (heeded.units, counts.to(self.device))

    def _batch(self, places: list[int]) -> tuple[Heeded, Tensor]:
        chosen = [self.utterances[place] for place in places]
        return gathered(chosen, self.numbers, self.dtype)

    def _order(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator(f"order of seed {seed} in epoch {epoch}")
        order = torch.randperm(len(self.utterances), generator=random).tolist()
        pools = [
            order[k : k + POOL * self.size] for k in range(0, len(order), POOL * self.size)
        ]
        batches = []
        for pool in pools:
            pool.sort(key=lambda place: len(self.utterances[place].features))
            batches += [pool[k : k + self.size] for k in range(0, len(pool), self.size)]
        last = batches.pop() if len(batches[-1]) < self.size else None
        shuffled = torch.randperm(len(batches), generator=random).tolist()
        return [batches[place] for place in shuffled] + ([last] if last else [])


def padded(parts: Sequence[Tensor], end: int) -> Tensor:
    """Tensors (B, n, ...) of several seeds as one (S, B, N, ...): zeros or ``end`` behind."""
    if parts[0].dim() == 1:
        return torch.stack(list(parts))
    longest = max(part.shape[1] for part in parts)
    whole = parts[0].new_full(
        (len(parts), len(parts[0]), longest, *parts[0].shape[2:]),
        0 if parts[0].is_floating_point() else end,
    )
    for row, part in zip(whole, parts, strict=True):
        row[:, : part.shape[1]] = part
    return whole
