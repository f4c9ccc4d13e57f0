"""Nets that read words by number, and so are of one vocabulary."""

from typing import Any

import torch
from torch import Tensor, nn

from lnlab.data.vocabulary import Vocabulary


class OfVocabulary(nn.Module):
    """A net whose weights are of one vocabulary: those of another are refused.

    Args:
        vocabulary: that its words are of.
    """

    alphabet: Tensor

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.register_buffer("alphabet", alphabet(vocabulary))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        theirs = state_dict.get(f"{prefix}alphabet")
        if theirs is not None and not torch.equal(theirs.cpu(), self.alphabet.cpu()):
            raise ValueError(
                "these weights were trained with another vocabulary: their words have other "
                "numbers. Take the data of their run."
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


def alphabet(vocabulary: Vocabulary) -> Tensor:
    """A vocabulary's digest in whole numbers (8,), to know it again."""
    digest = vocabulary.digest
    return torch.tensor([int(digest[at : at + 8], 16) for at in range(0, 64, 8)])
