"""Batches of sentences of one length, each with the one before it and the one after."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lnlab.tasks.thoughts.net import Told
from lnlab.tasks.thoughts.numbered import NumberedBooks
from lnlab.training import Bucketed
from lnlab.training.random_state import generator


class OfOneLength(Bucketed):
    """Told sentences in batches of one length, whose neighbours have any.

    The lengths come in an order that depends on the epoch alone, so that seeds can be trained
    side by side; which sentences come depends on (seed, epoch). The last batch of a length may
    be smaller, as in the authors' code.

    Args:
        numbered: where the sentences are.
        places: which of them.
        size, seeds, device: as of :class:`lnlab.training.Bucketed`.
    """

    def __init__(
        self,
        numbered: NumberedBooks,
        places: Tensor,
        size: int,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        self.numbered, self.places = numbered, places
        lengths = numbered.lengths[places]
        super().__init__(lengths.tolist(), self._told, size, seeds, device)
        self._of: dict[int, Tensor] = {
            int(length): (lengths == length).nonzero().squeeze(1) for length in lengths.unique()
        }

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return sum(-(-len(cases) // self.size) for cases in self._of.values())

    def _told(self, chosen: list[int]) -> tuple[Told, Tensor]:
        """Some of the sentences, and how many words their neighbours have (B,)."""
        told = self.numbered.told(self.places[chosen])
        return told, told.counts.sum(1)

    def _order(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator(f"order of seed {seed} in epoch {epoch}")
        batches = {
            length: iter(cases[torch.randperm(len(cases), generator=random)].split(self.size))
            for length, cases in self._of.items()
        }
        return [next(batches[length]).tolist() for length in self._lengths(epoch)]

    def _lengths(self, epoch: int) -> list[int]:
        """The length of each batch of an epoch."""
        every = [
            length
            for length, cases in self._of.items()
            for _ in range(0, len(cases), self.size)
        ]
        shuffled = torch.randperm(len(every), generator=generator(f"lengths of epoch {epoch}"))
        return [every[k] for k in shuffled.tolist()]
