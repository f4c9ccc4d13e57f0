"""Batches of different pictures, each with one of its captions at random."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lnlab.data import Vocabulary
from lnlab.data.captioned import Pictures
from lnlab.tasks.order.net import Pairs
from lnlab.training.random_state import generator, placed


class OnePerPicture:
    """Every picture once an epoch, in another order and with another caption for each seed.

    Both depend on (seed, epoch) alone, so that all arms of a comparison have the same. Vectors
    are read when their batch comes: a large file of them stays where it is. A last batch that
    would be smaller is dropped.

    Args:
        pictures: with their captions.
        vocabulary: gives the words their numbers.
        size: B.
        seeds: one for each model.
        device, dtype: where batches go, and what vectors become.

    Raises:
        ValueError: if there is not one whole batch.
    """

    def __init__(
        self,
        pictures: Pictures,
        vocabulary: Vocabulary,
        size: int,
        seeds: Sequence[int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if not 1 <= size <= len(pictures):
            raise ValueError(
                f"a batch of {size} cannot be taken from {len(pictures)} pictures."
            )
        self.pictures, self.size, self.seeds = pictures, size, tuple(seeds)
        self.device, self.dtype = device, dtype
        self.words, self.lengths = vocabulary.encoded(pictures.captions)
        self.each = len(pictures.captions) // len(pictures)

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return len(self.pictures) // self.size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Pairs, Tensor]]:
        """The batches of an epoch from ``start`` on: pairs, and which pictures (S, B)."""
        drawn = [self._drawn(seed, epoch) for seed in self.seeds]
        places, captions = (torch.stack(each) for each in zip(*drawn, strict=True))
        for at in range(start * self.size, len(self) * self.size, self.size):
            yield self._batch(places[:, at : at + self.size], captions[:, at : at + self.size])

    def _drawn(self, seed: int, epoch: int) -> tuple[Tensor, Tensor]:
        """The pictures in order, and the number of each one's caption among all (N,)."""
        random = generator(f"order of seed {seed} in epoch {epoch}")
        order = torch.randperm(len(self.pictures), generator=random)
        which = torch.randint(self.each, (len(order),), generator=random)
        return order, order * self.each + which

    def _batch(self, places: Tensor, captions: Tensor) -> tuple[Pairs, Tensor]:
        lengths = self.lengths[captions]
        words = self.words[captions][..., : int(lengths.max())]
        vectors = torch.from_numpy(np.asarray(self.pictures.vectors[places.numpy()]))
        return placed((Pairs(vectors, words, lengths), places), self.device, self.dtype)
