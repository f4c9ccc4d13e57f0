"""Questions about a passage: a word is missing, and one of the candidates is it."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

BLANK = "@placeholder"
"""The word that stands where the answer is missing."""
ENTITY = re.compile(r"@entity(\d+)")


@dataclass(frozen=True)
class Question:
    """A passage and a sentence with a word missing; words stand between spaces.

    Attributes:
        name: where it is from.
        sentences: of the passage, in its order.
        query: the sentence with :data:`BLANK` in it.
        candidates: "@entity3" and so on, each once.
        answer: one of them.
        called: the words that candidates stand for, where that is known.

    Raises:
        ValueError: if it cannot be asked: nothing to read, no blank, an answer that is no
            candidate, an entity that is none.
    """

    name: str
    sentences: tuple[str, ...]
    query: str
    candidates: tuple[str, ...]
    answer: str
    called: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(sentence.split() for sentence in self.sentences):
            raise ValueError(f"{self.name}: the passage has no words: leave it out.")
        if BLANK not in self.query.split():
            raise ValueError(f"{self.name}: the question has no {BLANK}: mend it.")
        if self.answer not in self.candidates:
            raise ValueError(
                f"{self.name}: the answer {self.answer!r} is no candidate: they are "
                f"{', '.join(self.candidates)}."
            )
        strange = sorted({*entities([*self.sentences, self.query])} - {*self.candidates})
        if strange:
            raise ValueError(
                f"{self.name}: {strange[0]} is no candidate: name every entity of the text."
            )

    @property
    def passage(self) -> str:
        """All of its sentences."""
        return " ".join(self.sentences)

    @property
    def answerable(self) -> bool:
        """True if the answer stands in the passage."""
        return self.answer in self.passage.split()


def entities(texts: Iterable[str]) -> list[str]:
    """The entities among the words of texts, as often as they stand there."""
    words = (word for text in texts for word in text.split())
    return [word for word in words if word[0] == "@" and ENTITY.fullmatch(word)]


def nearest(question: Question, sentences: int) -> Question:
    """The question with the sentences that share most words with it, in their order.

    Of two that share as many the first; a word counts once, and must have a letter. What is
    cut off may hold the answer: of CNN's articles four sentences hold 57 % of them.
    """
    asked = {word for word in question.query.split() if word[-1:].isalnum()} - {BLANK}
    shared = [len(asked & {*sentence.split()}) for sentence in question.sentences]
    best = sorted(range(len(shared)), key=lambda place: (-shared[place], place))[:sentences]
    return replace(question, sentences=tuple(question.sentences[at] for at in sorted(best)))


def mixed(words: Iterable[str], *where: object) -> list[str]:
    """Words in an order that depends on nothing but the words and where they stand."""
    return sorted(words, key=lambda word: drawn(*where, word))


def drawn(*parts: object) -> bytes:
    """A number that looks drawn, and is the same on every machine: a hash."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def digest(parts: Mapping[str, Sequence[Question]]) -> bytes:
    """The SHA-256 of questions, split by split."""
    total = hashlib.sha256()
    for split, part in parts.items():
        total.update(f"{split} {len(part)}\n".encode())
        for q in part:
            lines = (q.name, *q.sentences, q.query, *q.candidates, q.answer)
            total.update("\n".join(lines).encode() + b"\0")
    return total.digest()
