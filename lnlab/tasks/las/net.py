"""Listener and speller together, and the batches that they are given."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.data.utterance import Utterance
from lnlab.nn import Annotations
from lnlab.tasks.las.listener import Listener
from lnlab.tasks.las.speller import Speller


class Heeded(NamedTuple):
    """A batch of utterances as the net is given it.

    Attributes:
        features: (B, T, D), zeros behind the end.
        lengths: frames of each (B,), on the CPU.
        units: what is said, with the end symbol, which is also the padding (B, U).
    """

    features: Tensor
    lengths: Tensor
    units: Tensor
    on_cpu = ("lengths",)


class ListenAttendSpell(nn.Module):
    """A batch :class:`Heeded` to logits (B, U, V), each unit after the right ones before."""

    opaque = True  # how long utterances are decides what is computed

    def __init__(self, listener: Listener, speller: Speller) -> None:
        super().__init__()
        self.listener, self.speller = listener, speller

    def forward(self, batch: Heeded) -> Tensor:
        logits, _ = self.spell(batch)
        return logits

    def spell(self, batch: Heeded) -> tuple[Tensor, Tensor]:
        """Logits (B, U, V) and alpha (B, U, T')."""
        return self.speller(self.hear(batch), batch.units)

    def hear(self, batch: Heeded) -> Annotations:
        """The annotations of what was heard, to be attended to."""
        return self.speller.attention.annotate(*self.listener(batch.features, batch.lengths))


def gathered(
    utterances: Sequence[Utterance],
    numbers: dict[str, int],
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> tuple[Heeded, Tensor]:
    """A batch, and how many units each has with its end symbol (B,).

    Args:
        numbers: the number of each unit; the end symbol has the one behind the last.
    """
    end = len(numbers)
    heard = [u.features for u in utterances]
    lengths = torch.tensor([len(found) for found in heard])
    counts = torch.tensor([len(u.units) + 1 for u in utterances])
    features = torch.zeros(len(heard), int(lengths.max()), heard[0].shape[1], dtype=dtype)
    units = torch.full((len(utterances), int(counts.max())), end)
    for row, utterance in enumerate(utterances):
        features[row, : lengths[row]] = heard[row]
        said = [numbers[unit] for unit in utterance.units]
        units[row, : len(said)] = torch.tensor(said)
    return Heeded(features.to(device), lengths, units.to(device)), counts.to(device)
