"""Words as numbers: one ends a sentence and pads it, another stands for unknown words."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    PaddedAndLengths = tuple[Tensor, Tensor]  # numbers (N, T), and how many of a row count (N,)


END = 0
"""The number that ends every sentence, and the padding behind it: lengths tell them apart."""
UNKNOWN = 1
"""The number of every word that a vocabulary does not have."""
SPECIAL = ("<end>", "<unknown>")
"""The words that stand for :data:`END` and :data:`UNKNOWN`; no sentence may have such words."""


class Vocabulary:
    """Words, each with its number, from 2 on.

    Args:
        words: without repetition; the first is number 2.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*SPECIAL, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        for word, count in Counter(self.words).items():
            if count > 1 or len(word.split()) != 1:
                raise ValueError(f"{word!r}: give each word once, and none with spaces.")

    def __len__(self) -> int:
        """V, with the end and the unknown word."""
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    @property
    def digest(self) -> str:
        """A hash of the words in their order: where it differs, numbers mean other words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode_with_end(self, sentence: str) -> list[int]:
        """Return the numbers of a sentence's words, separated by spaces, and :data:`END`."""
        words = sentence.split()
        if not words:
            raise ValueError("a sentence without words has nothing to read: leave it out.")
        return [*(self._numbers.get(word, UNKNOWN) for word in words), END]

    def encode_batch(self, sentences: Sequence[str]) -> "PaddedAndLengths":
        """Return the numbers of sentences (N, T), padded with :data:`END`, and lengths (N,).

        Nothing is cut off; the length of a sentence counts the number that ends it.
        """
        return pad_rows([self.encode_with_end(sentence) for sentence in sentences])


def frequent_words(counts: Mapping[str, int], min_count: int = 1) -> list[str]:
    """Return the words that occur often enough, the most frequent first, then by letters."""
    words = [word for word, count in counts.items() if count >= min_count]
    return sorted(words, key=lambda word: (-counts[word], word))


def pad_rows(rows: Sequence[Sequence[int]]) -> "PaddedAndLengths":
    """Return rows of numbers as a tensor (N, T), padded with :data:`END`, and lengths (N,)."""
    import torch  # to list data sets does not take it

    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    return torch.tensor([[*row, *[END] * (longest - len(row))] for row in rows]), lengths
