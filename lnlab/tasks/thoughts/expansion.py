"""Words that an encoder was not trained with, from vectors that were counted elsewhere.

A linear regression takes the vectors of words that both have to the encoder's own numbers of
these words; it then gives numbers to words that only the vectors have (Kiros et al., 2015,
section 2.2).
"""

import hashlib
from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LinearRegression
from torch import nn

from lnlab.data import Vocabulary
from lnlab.data.judge import SentenceJudge
from lnlab.data.vocabulary import NAMES
from lnlab.data.wordvectors import WordVectors, counted, read
from lnlab.tasks.vocabularies import alphabet

from .net import SkipThoughts

COUNTED = "counted"
"""Vectors that are counted in the very sentences that are told."""


def given(
    where: str, sentences: Sequence[Sequence[str]], wanted: Iterable[str], width: int
) -> WordVectors:
    """Vectors of words.

    Args:
        where: :data:`COUNTED`, or ``file=PATH``, in one of word2vec's layouts.
        sentences: in which they are counted; those without words part the others.
        wanted: the words that are kept of a file.
        width: numbers of a vector that is counted.

    Raises:
        ValueError: as :func:`named`, :func:`.wordvectors.read` and :func:`.counted`.
        FileNotFoundError: as :func:`named`.
    """
    file = named(where)
    return read(file, {*wanted}) if file else counted(sentences, width)


def named(where: str) -> Path | None:
    """The file of vectors that is named; None where they are :data:`COUNTED`.

    Raises:
        ValueError: if it is neither.
        FileNotFoundError: where there is no file.
    """
    name, _, path = where.partition("=")
    if name == COUNTED and not path:
        return None
    if name != "file" or not path:
        raise ValueError(f"vectors is {where!r}: give {COUNTED} or file=PATH.")
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(
            f"vectors: {file} is no file. `lnlab data vectors {path} --books novels=PATH` "
            "counts some and writes them there; any file in word2vec's layout will do."
        )
    return file


def checksum(where: str, vectors: WordVectors) -> str:
    """SHA-256 of words and their vectors; empty where they follow from the sentences."""
    if where == COUNTED:
        return ""
    words = "\n".join(vectors.words).encode()
    return hashlib.sha256(words + vectors.vectors.astype("<f4").tobytes()).hexdigest()


def words_of(judges: Iterable[SentenceJudge]) -> list[str]:
    """The words of judges' sentences, each once."""
    said = chain.from_iterable(judge.said for judge in judges)
    return [*dict.fromkeys(chain.from_iterable(said))]


def shared_words(known: Vocabulary, vectors: WordVectors) -> list[str]:
    """The known words that have vectors.

    Raises:
        ValueError: if they are no more than the vectors have numbers: then any numbers fit.
    """
    there, width = {*vectors.words}, vectors.vectors.shape[1]
    shared = [word for word in known.words[len(NAMES) :] if word in there]
    if len(shared) <= width:
        raise ValueError(
            f"{len(shared)} known words have vectors of {width} numbers: a regression needs "
            "more words than numbers. Give vectors of more words, or shorter ones."
        )
    return shared


def expanded(
    net: SkipThoughts, known: Vocabulary, vectors: WordVectors, wanted: Iterable[str]
) -> tuple[SkipThoughts, Vocabulary]:
    """A copy of a net that reads more words, and its vocabulary, which begins with ``known``.

    Its decoders tell the same words as before.

    Args:
        known: the vocabulary of the net.
        vectors: of words, some of them known.
        wanted: the words to learn; those that the vectors do not have stay unknown.

    Raises:
        ValueError: as :func:`shared_words`.
    """
    shared = shared_words(known, vectors)
    rows = {word: place for place, word in enumerate(vectors.words)}
    new = [word for word in dict.fromkeys(wanted) if word in rows and word not in known]
    vocabulary = Vocabulary([*known.words[len(NAMES) :], *new])
    larger = deepcopy(net)
    if new:
        number = {word: place for place, word in enumerate(known.words)}
        table = net.word.detach()
        targets = table[[number[word] for word in shared]].double().cpu().numpy()
        fit = LinearRegression().fit(_of(vectors, rows, shared), targets)
        added = torch.from_numpy(fit.predict(_of(vectors, rows, new))).to(table)
        larger.word = nn.Parameter(torch.cat([table, added]))
        larger.alphabet = alphabet(vocabulary)
    return larger, vocabulary


def _of(vectors: WordVectors, rows: dict[str, int], words: list[str]) -> np.ndarray:
    return vectors.vectors[[rows[word] for word in words]].astype(np.float64)
