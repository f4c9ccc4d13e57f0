"""The state of the positions panel: one layer of one net at one time."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PositionsState:
    """One of the maps; "" is the first there is.

    Attributes:
        norm: the arm.
        padding: what stands around the maps.
        time: before or after the training.
        layer: which convolution.
    """

    norm: str = ""
    padding: str = ""
    time: str = ""
    layer: str = ""

    def of(self, norm: str) -> "PositionsState":
        """The same of another arm."""
        return replace(self, norm=norm)

    def within(self, padding: str) -> "PositionsState":
        """The same with another padding."""
        return replace(self, padding=padding)

    def at(self, time: str) -> "PositionsState":
        """The same at another time."""
        return replace(self, time=time)

    def through(self, layer: str) -> "PositionsState":
        """The same of another layer."""
        return replace(self, layer=layer)
