"""The state of the thoughts panel: a sentence, a book, a moment of the training."""

from dataclasses import dataclass, replace

LAST = -1


@dataclass(frozen=True)
class ThoughtsState:
    """One sentence at one moment of the training.

    Attributes:
        sentence: in words; empty: the first of the book.
        book: whose sentences are joined in their order, from 0.
        update: of the training; the nearest one whose weights were kept. -1 is the last.
    """

    sentence: str = ""
    book: int = 0
    update: int = LAST

    def saying(self, sentence: str) -> "ThoughtsState":
        """Another sentence."""
        return replace(self, sentence=sentence)

    def of(self, book: int) -> "ThoughtsState":
        """The same with another book joined."""
        return replace(self, book=book)

    def at(self, update: int) -> "ThoughtsState":
        """The same at another moment."""
        return replace(self, update=update)
