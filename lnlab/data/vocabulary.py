"""Words by number: what ends a sentence and fills it up, and what stands for unknown words."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # listing what data there are costs no torch
    from torch import Tensor

END = 0
"""The number that ends every sentence, and the padding behind it: lengths tell them apart."""
UNKNOWN = 1
"""The number of every word that a vocabulary does not have."""
NAMES = ("<end>", "<unknown>")
"""The words that stand for :data:`END` and :data:`UNKNOWN`; no sentence may have such words."""


class Vocabulary:
    """The words that are known, each with its number, from 2 on.

    Args:
        words: without repetition; the first is number 2.

    Raises:
        ValueError: for a word that is there twice, empty, has a space, or is one of
            :data:`NAMES`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*NAMES, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            twice = next(word for word, n in Counter(self.words).items() if n > 1)
            raise ValueError(f"the word {twice!r} is there twice: give each once.")
        for word in words:
            if len(word.split()) != 1:
                raise ValueError(f"{word!r} is no word: give words without spaces.")

    @classmethod
    def of(cls, sentences: Iterable[str], *, least: int = 1) -> "Vocabulary":
        """The words that occur ``least`` times or more, the most frequent first."""
        counts = Counter(word for sentence in sentences for word in sentence.split())
        known = [word for word, count in counts.items() if count >= least]
        return cls(sorted(known, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        """V, with the end and the unknown word."""
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    @property
    def digest(self) -> str:
        """A hash of the words in their order: where it differs, numbers mean other words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def numbers(self, sentence: str) -> list[int]:
        """The numbers of the words of a sentence, separated by spaces, and :data:`END`.

        Raises:
            ValueError: if it has no words.
        """
        words = sentence.split()
        if not words:
            raise ValueError("a sentence without words has nothing to read: leave it out.")
        return [*(self._numbers.get(word, UNKNOWN) for word in words), END]

    def encoded(self, sentences: Sequence[str]) -> "tuple[Tensor, Tensor]":
        """The numbers of sentences (N, T), :data:`END` behind their ends, and lengths (N,).

        Nothing is cut off; the length of a sentence counts the number that ends it.
        """
        import torch

        rows = [self.numbers(sentence) for sentence in sentences]
        lengths = torch.tensor([len(row) for row in rows])
        whole = torch.full((len(rows), int(lengths.max())), END)
        for place, row in zip(whole, rows, strict=True):
            place[: len(row)] = torch.tensor(row)
        return whole, lengths

    def unknown(self, sentences: Iterable[str]) -> float:
        """The part of the words of sentences that are not known."""
        words = [word for sentence in sentences for word in sentence.split()]
        return sum(word not in self._numbers for word in words) / max(1, len(words))
