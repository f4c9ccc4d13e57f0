"""Text cut into sentences and words by NLTK, with the tools of Kiros et al. (2015).

Sentences end where Punkt (Kiss and Strunk, 2006) ends them, which learns from a text how its
sentences begin; its abbreviations are :data:`SHORT`, for those that it learns are often words
of dialogue. Words are those of NLTK's tokenizer, as in the Penn Treebank, in small letters.

nltk is imported when a text is cut: to list what data there are does not take it.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from lnlab.data.kept import code, kept

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
