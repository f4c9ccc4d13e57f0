"""The state of the reading panel: a question at one moment of the training."""

from dataclasses import dataclass, replace

LAST = -1


@dataclass(frozen=True)
class ReadingState:
    """One question at one moment of the training.

    Attributes:
        question: which one, from 0.
        update: of the training; the nearest at which it was looked at. -1 is the last.
    """

    question: int = 0
    update: int = LAST

    def at(self, update: int) -> "ReadingState":
        """The same at another moment."""
        return replace(self, update=update)

    def of(self, question: int) -> "ReadingState":
        """Another question at the same moment."""
        return replace(self, question=question)
