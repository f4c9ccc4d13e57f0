"""The state of the drawing panel: a picture after a glimpse, at one moment of the training."""

from dataclasses import dataclass, replace

LAST = -1


@dataclass(frozen=True)
class DrawingState:
    """One picture after one of its glimpses, at one moment of the training.

    Attributes:
        picture: which one, from 0.
        glimpse: how many there were; -1 is all.
        update: of the training; the nearest at which drawings were kept. -1 is the last.
    """

    picture: int = 0
    glimpse: int = LAST
    update: int = LAST

    def at(self, update: int) -> "DrawingState":
        """The same at another moment."""
        return replace(self, update=update)

    def after(self, glimpse: int) -> "DrawingState":
        """The same after another glimpse."""
        return replace(self, glimpse=glimpse)

    def of(self, picture: int) -> "DrawingState":
        """Another picture at the same moment."""
        return replace(self, picture=picture)
