"""The state of the attention panel: an utterance at one moment of the training."""

from dataclasses import dataclass, replace

LAST = -1


@dataclass(frozen=True)
class AttentionState:
    """One example at one moment of the training.

    Attributes:
        example: which utterance, from 0.
        epoch: of the training; the nearest at which it was looked at. -1 is the last.
    """

    example: int = 0
    epoch: float = LAST

    def at(self, epoch: float) -> "AttentionState":
        """The same at another moment."""
        return replace(self, epoch=epoch)

    def of(self, example: int) -> "AttentionState":
        """Another utterance at the same moment."""
        return replace(self, example=example)
