"""Words by number: what ends a sentence and fills it up, and what stands for unknown words."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lnlab.data.cache import code, kept

if TYPE_CHECKING:
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


# Text cut into sentences and words by NLTK, with the tools of Kiros et al. (2015).
#
# Sentences end where Punkt (Kiss and Strunk, 2006) ends them, which learns from a text how its
# sentences begin; its abbreviations are :data:`SHORT`, for those that it learns are often words
# of dialogue. Words are those of NLTK's tokenizer, as in the Penn Treebank, in small letters.
#
# nltk is imported when a text is cut: to list what data there are does not take it.


SHORT = frozenset(
    "mr mrs dr st esq messrs mme mlle m prof rev hon capt col gen lieut no".split()  # noqa: SIM905
)
"""Words behind which a full stop ends no sentence."""
PARAGRAPH = re.compile(r"\n\s*\n")

Sentences = list[list[str]]


def cut(lines: Iterable[str]) -> Sentences:
    """The words of sentences; cut once on this machine."""
    text = "\n".join(lines)
    return _once("words", text, lambda: [words(line) for line in text.split("\n")])


def told(text: str) -> Sentences:
    """The sentences of a text; cut once on this machine."""
    return _once("sentences", text, lambda: sentences(text))


def joined(lines: Sentences) -> str:
    """Sentences as a text, a line each, words between spaces."""
    return "\n".join(" ".join(words) for words in lines)


def sentences(text: str) -> Sentences:
    """The sentences of a text, their words in small letters; empty lines part paragraphs."""
    ends = _punkt(text)
    lines = (
        line
        for paragraph in PARAGRAPH.split(text)
        for line in ends.tokenize(" ".join(paragraph.split()))
    )
    return [words(line) for line in lines if line.split()]


def words(sentence: str) -> list[str]:
    """The words and signs of a sentence, in small letters."""
    return [word for one in _treebank().tokenize(sentence.lower()) for word in one.split()]


def _once(name: str, text: str, make: Callable[[], Sentences]) -> Sentences:
    import nltk

    found = kept(
        name,
        f"{text} {code(__file__)} {nltk.__version__}",
        lambda: {"text": np.frombuffer(joined(make()).encode(), np.uint8)},
    )
    return [line.split() for line in found["text"].tobytes().decode().split("\n")]


def _punkt(text: str) -> Any:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    learned = PunktTrainer(text).get_params()
    learned.abbrev_types = set(SHORT)
    return PunktSentenceTokenizer(learned)


@cache
def _treebank() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()
