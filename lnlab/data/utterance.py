"""Something that was said, ready for a recognizer, its sound read when it is asked for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Unit = Literal["phones", "letters", "words"]

MOST = 2**29
"""Bytes of features of one corpus that stay in memory: about 3 hours of speech."""


class Heard(Protocol):
    """The sound of an utterance, of a kind that is in :mod:`lnlab.data.recordings`."""

    @property
    def frames(self) -> int:
        """The number T of frames of its features, known without computing them."""
        ...

    @property
    def digest(self) -> bytes:
        """A hash of what is read or was synthesised."""
        ...

    def sound(self) -> np.ndarray:
        """The samples (N,)."""
        ...

    def features(self) -> "Tensor":
        """Its features (T, D), a frame every 10 ms."""
        ...


class Memory:
    """The features that were computed first, up to so many bytes; the rest are made each time.

    An epoch in any order finds the same part of its utterances here, whatever their number; of
    those used last an epoch longer than the memory would find none.
    """

    def __init__(self, most: int | None = None) -> None:
        self._left = MOST if most is None else most
        self._kept: dict[int, Tensor] = {}

    def features(self, utterance: "Utterance") -> "Tensor":
        """The features (T, D) of an utterance, which must live as long as this memory."""
        found = self._kept.get(id(utterance))
        if found is None:
            found = utterance.heard.features()
            if found.nbytes <= self._left:
                self._left -= found.nbytes
                self._kept[id(utterance)] = found
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Utterance:
    """Something that was said.

    Attributes:
        name: of the utterance.
        speaker: who said it.
        units: what was said; a text is a sequence of letters.
        heard: where its sound is.
        begins, ends: seconds at which each unit begins and ends (len(units),); None where
            nobody knows.
        memory: what keeps the features.
    """

    name: str
    speaker: str
    units: Sequence[str]
    heard: Heard = field(repr=False)
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    memory: Memory = field(default_factory=lambda: Memory(0), repr=False)

    @property
    def frames(self) -> int:
        """The length T of the features, known without computing them."""
        return self.heard.frames

    @property
    def features(self) -> "Tensor":
        """The features (T, D), a frame every 10 ms; computed when asked for."""
        return self.memory.features(self)

    @property
    def sound(self) -> np.ndarray:
        """The samples, to be listened to, read when asked for."""
        return self.heard.sound()


Said = TypeVar("Said")


def first(parts: Mapping[str, list[Said]], most: int | None) -> dict[str, list[Said]]:
    """The first utterances of each part, at most ``most`` to train on."""
    part = 1 if most is None else min(1, most / max(1, len(parts["train"])))
    return {split: said[: math.ceil(part * len(said))] for split, said in parts.items()}
