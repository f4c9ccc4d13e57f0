"""Sentences with a target, on which frozen vectors are judged."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lnlab.data.vocabulary import Sentences, joined

FOLDS = 10
"""As the authors of skip-thoughts have it."""
TRAIN, TRIAL, TEST = range(3)
"""The parts of pairs."""


@dataclass(frozen=True, eq=False)
class SentenceJudge:
    """Cases that a linear model on top of frozen vectors is to get right.

    Attributes:
        name: of the judge.
        sentences: of words (N).
        others: the second sentence of each pair (N); empty where cases are single sentences.
        targets: float64 (N,): how much the sentences of a pair have to do with each other, from
            1 to 5; else the class, 0 or 1.
        parts: int64 (N,): of pairs :data:`TRAIN`, :data:`TRIAL` or :data:`TEST`, else the fold.
        blank: the number of lines without words, which were left out.

    Raises:
        ValueError: for fewer cases than folds, a part without cases, or one class alone, in all
            or in what a fold or one within it trains on.
    """

    name: str
    sentences: Sentences
    others: Sentences
    targets: np.ndarray
    parts: np.ndarray
    blank: int = 0

    def __post_init__(self) -> None:
        parts = 1 + TEST if self.others else FOLDS
        if len(self.targets) < parts:
            raise ValueError(
                f"{self.name} has {len(self.targets)} cases and {parts} folds: give a case to "
                "each fold or more."
            )
        missing = sorted({*range(parts)} - {*self.parts.tolist()})
        if missing:
            raise ValueError(f"{self.name} has no case in part {missing[0]} of {parts}.")
        if len(np.unique(self.targets)) < 2:
            raise ValueError(f"{self.name} has cases of one class only: give both.")
        if not self.pairs:
            among, _ = splits(self)
            ones = self.targets @ among
            if not ((ones > 0) & (ones < among.sum(0))).all():
                few = min((0, 1), key=lambda of: (self.targets == of).sum())
                raise ValueError(
                    f"{self.name} has {(self.targets == few).sum()} cases of class {few}, none "
                    "of which is in what some fold trains on: give more of them."
                )

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def pairs(self) -> bool:
        """True if a case is two sentences."""
        return bool(self.others)

    @property
    def said(self) -> Sentences:
        """All sentences, those of the second place behind those of the first."""
        return [*self.sentences, *self.others]

    @property
    def checksum(self) -> str:
        """SHA-256 of all that is asked."""
        total = hashlib.sha256(f"{self.name}\n{joined(self.said)}\0".encode())
        total.update(self.targets.astype("<f8").tobytes() + self.parts.astype("<i8").tobytes())
        return total.hexdigest()


def folds(name: str, count: int) -> np.ndarray:
    """The fold of each of so many cases (N,), as even as can be, drawn by a hash."""
    drawn = [hashlib.sha256(f"{name} {case}".encode()).digest() for case in range(count)]
    order = np.array(sorted(range(count), key=drawn.__getitem__), np.int64)
    found = np.empty(count, np.int64)
    found[order] = np.arange(count) * FOLDS // max(1, count)
    return found


@lru_cache(maxsize=16)
def splits(judge: SentenceJudge) -> tuple[np.ndarray, np.ndarray]:
    """The cases that train a model and those that it is tested on (N, K): those of the folds,
    then, fold by fold, those of the ten folds within what trains."""
    parts = [judge.parts]
    for fold in range(FOLDS):
        inside = np.flatnonzero(judge.parts != fold)
        within = np.full(len(judge), -1)
        within[inside] = folds(f"{judge.name} within {fold}", len(inside))
        parts.append(within)
    tested = [part == fold for part in parts for fold in range(FOLDS)]
    there = np.repeat([part >= 0 for part in parts], FOLDS, axis=0)
    return (there & ~np.array(tested)).T.copy(), np.array(tested).T.copy()
