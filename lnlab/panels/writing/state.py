"""The state of the writing panel: a text, how it is written, and how far the pen has come."""

from dataclasses import dataclass, replace

LAST = -1
NOBODY = -1


@dataclass(frozen=True)
class WritingState:
    """A text and how it is written.

    Attributes:
        text: what is written.
        bias: 0 draws from what a net holds likely; above, what is likely becomes likelier.
        update: of the training; the nearest at which there are nets. -1 is the last.
        like: the number of a line in whose hand it is written; -1: nobody's.
        pen: per cent of the points that are written.
    """

    text: str = "the lazy fox"
    bias: float = 1.0
    update: int = LAST
    like: int = NOBODY
    pen: int = 100

    def at(self, update: int) -> "WritingState":
        """The same at another stage of the training."""
        return replace(self, update=update)

    def biased(self, bias: float) -> "WritingState":
        """The same with another bias."""
        return replace(self, bias=bias)
