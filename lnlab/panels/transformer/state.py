"""The state of the transformer panel: how deep it is, and where which normalizer stands."""

from dataclasses import dataclass, replace

from lnlab.panels.controls import one_of
from lnlab.tasks.transformer.net import PLACES

KINDS = ("layer", "rms", "dyt", "none")
DEPTHS = (1, 2, 4, 6, 8, 12)


@dataclass(frozen=True)
class TransformerState:
    """A transformer before its first update.

    Attributes:
        places: of the normalizers: any of pre, post and sandwich.
        kind: of the normalizer, one of :data:`KINDS`; with "none" every branch is damped
            instead, and the places are the same.
        depth: L, one of :data:`DEPTHS`.

    Raises:
        ValueError: for a value that is none of these.
    """

    places: tuple[str, ...] = ("pre", "post")
    kind: str = "layer"
    depth: int = 4

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "places", tuple(self.places))
        for place in self.places:
            one_of("a place", place, PLACES)
        one_of("kind", self.kind, KINDS)
        one_of("depth", self.depth, DEPTHS)

    def at(self, depth: int) -> "TransformerState":
        """The same with so many layers."""
        return replace(self, depth=depth)
