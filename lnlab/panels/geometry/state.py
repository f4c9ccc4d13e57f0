"""The state of the geometry panel: a layer of linear models under a normalizer."""

from dataclasses import dataclass, replace

import numpy as np

from lnlab.analysis.fisher import FAMILIES
from lnlab.nn import NORMS, Norm
from lnlab.panels.choices import one_of

INPUTS, CASES = 6, 24
MOST = 4
NORMALIZERS: dict[str, Norm] = {
    name: NORMS[name] for name in ("none", "layer", "batch", "weight")
}
UNITS = (4, 8, 16, 32, 64)
SMALLEST, LARGEST = 0.1, 10.0
SIZES = np.logspace(-1, 1, 21)


@dataclass(frozen=True)
class GeometryState:
    """H linear models of the same inputs, at a random W.

    Attributes:
        normalizers: at most four.
        family: the distribution of the outputs.
        length: W is this many times N(0, 1); 0.1 to 10.
        inputs: the inputs are this many times N(0, 1/D); 0.1 to 10.
        units: H.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = ("none", "layer", "batch", "weight")
    family: str = "Gaussian"
    length: float = 1.0
    inputs: float = 1.0
    units: int = 16

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        for name in self.normalizers:
            one_of("a normalizer", name, NORMALIZERS)
        one_of("family", self.family, FAMILIES)
        one_of("units", self.units, UNITS)
        for name in ("length", "inputs"):
            size = getattr(self, name)
            if not SMALLEST <= size <= LARGEST:
                raise ValueError(f"{name} is {size}: give {SMALLEST:g} to {LARGEST:g}.")

    def longer(self, length: float) -> "GeometryState":
        """The same with weights of another length."""
        return replace(self, length=length)
