"""The state of the landscape panel: a trained net, and a way to look at its loss."""

from dataclasses import dataclass, replace

from lnlab.panels.choices import MODES, one_of

NORMALIZERS = ("none", "layer", "batch", "weight", "rms")
EXTENTS = (0.25, 0.5, 1.0, 2.0)
SEEDS = tuple(range(5))
SMALLEST, LARGEST = 0.1, 10.0
FOLLOW = {
    "follow": "as long as the rows of W",
    "stay": "as long as the rows of W were before",
}
"""Rules for the lengths of the directions when W is re-scaled."""


@dataclass(frozen=True)
class LandscapeState:
    """A trained net, and in which way one looks at the loss around it.

    Attributes:
        normalizer: of the hidden layers, one of :data:`NORMALIZERS`.
        statistics: where BatchNorm's come from: "batch", "frozen" or "recomputed".
        size: the weights of the hidden layers are multiplied by it; 0.1 to 10.
        lengths: of the directions: "follow" W, by Li et al.'s filter normalization, or
            "stay" as they were at size 1.
        extent: how far the plane goes, in lengths of the directions.
        seed: of the directions.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizer: str = "batch"
    statistics: str = "batch"
    size: float = 1.0
    lengths: str = "follow"
    extent: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("normalizer", self.normalizer, NORMALIZERS)
        one_of("statistics", self.statistics, MODES)
        one_of("lengths", self.lengths, FOLLOW)
        one_of("extent", self.extent, EXTENTS)
        one_of("seed", self.seed, SEEDS)
        if not SMALLEST <= self.size <= LARGEST:
            raise ValueError(f"size is {self.size}: give {SMALLEST:g} to {LARGEST:g}.")

    def by(self, statistics: str) -> "LandscapeState":
        """The same with statistics from somewhere else."""
        return replace(self, statistics=statistics)
