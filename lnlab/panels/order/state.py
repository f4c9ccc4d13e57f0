"""The state of the order panel: a caption, and the net that reads it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class OrderState:
    """A caption as one net reads it.

    Attributes:
        caption: in words; empty: the first of the panel's own.
        net: by name; empty: the first.
    """

    caption: str = ""
    net: str = ""

    def saying(self, caption: str) -> "OrderState":
        """Another caption, read by the same net."""
        return replace(self, caption=caption)

    def read_by(self, net: str) -> "OrderState":
        """The same caption, read by another net."""
        return replace(self, net=net)
