"""A transformation, and the layers that it is tried on: the state of the panel."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch

from lnlab.analysis.invariance import EXACT
from lnlab.nn import Norm, Normalizer, OverCases
from lnlab.nn.table1 import ROWS, TRANSFORMATIONS, Place, Row, Statistics
from lnlab.panels.choices import MODES, one_of

UNITS, INPUTS, CASES = 64, 16, 128
MOST = 4

# One case at a time (batch = 1) takes 128 times as long as all at once.
DENSE = tuple(
    name for name, row in ROWS.items() if row.place is Place.DENSE and row.batch is None
)
# Frozen and recomputed statistics are a control of their own.
NORMALIZERS = tuple(name for name in DENSE if ROWS[name].statistics is Statistics.BATCH)
PAPER = ("batch", "weight", "layer")
TABLE = (*PAPER, *(name for name in DENSE if name not in PAPER))

SIZES = np.logspace(-4, 4, 34)
STOPS = (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 1e3, 1e4)
"""Sizes of a change that can be chosen where no kernel runs."""

FAMILIES = (
    PAPER,
    ("layer", "rms", "group", "scale"),
    ("batch", "ghost batch", "recurrent batch", "batch layer"),
    ("batch", "batch renorm, r = 1, d = 0", "batch renorm, clips off"),
    ("weight", "weight, mean-only batch", "weight standardization", "spectral"),
    ("none", "layer", "ada", "dyt"),
)
"""Normalizers that can be chosen together where no kernel runs."""

EPS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in EXACT}


@dataclass(frozen=True)
class InvarianceState:
    """A transformation, and the layers that it is tried on.

    Attributes:
        normalizers: at most four rows of Table 1 and its extension.
        transformation: the column, 1 to 10.
        delta: what is re-scaled is re-scaled by; 1e-4 to 1e4 in size, of either sign.
        shift: what is shifted is shifted by so many times a fixed standard normal vector;
            1e-4 to 1e4.
        eps: of every normalizer that has one.
        dtype: the precision of weights, inputs, statistics and outputs.
        batch: B; frozen and recomputed statistics are those of all 128 cases.
        mode: where statistics over cases come from: "batch", "frozen" as they were before
            the change, or "recomputed" after it.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = PAPER
    transformation: int = 1
    delta: float = 2.51
    shift: float = 1.0
    eps: float = 1e-5
    dtype: str = "float64"
    batch: int = 32
    mode: str = "batch"

    rows: ClassVar[Mapping[str, Row]] = {name: ROWS[name] for name in NORMALIZERS}
    """The rows behind the names of normalizers."""

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        if len(self.normalizers) > MOST:
            raise ValueError(f"{len(self.normalizers)} normalizers: compare at most {MOST}.")
        for name in self.normalizers:
            one_of("a normalizer", name, self.rows)
        one_of("transformation", self.transformation, range(1, 1 + len(TRANSFORMATIONS)))
        one_of("eps", self.eps, EPS)
        one_of("dtype", self.dtype, DTYPES)
        one_of("batch", self.batch, BATCHES)
        one_of("mode", self.mode, MODES)
        for name, size in (("delta", abs(self.delta)), ("shift", self.shift)):
            if not SIZES[0] <= size <= SIZES[-1]:
                raise ValueError(f"{name} is {size} in size: give 1e-4 to 1e4.")

    @property
    def scales(self) -> bool:
        """True if the transformation reads delta; the others read the shift."""
        return TRANSFORMATIONS[self.transformation - 1].scales

    @property
    def formula(self) -> str:
        """The transformation in letters."""
        return TRANSFORMATIONS[self.transformation - 1].formula

    @property
    def amount(self) -> float:
        """Delta or the shift, whichever the transformation reads."""
        return self.delta if self.scales else self.shift

    def resized(self, size: float) -> "InvarianceState":
        """The same with a change of another size, of the same sign."""
        name = "delta" if self.scales else "shift"
        return replace(self, **{name: float(np.copysign(size, self.amount))})

    def by(self, transformation: int) -> "InvarianceState":
        """The same under another change."""
        return replace(self, transformation=transformation)

    def alike(self, transformation: int) -> "InvarianceState":
        """The same under another change of the same size: a page has one slider for delta and
        the shift."""
        return self.by(transformation).resized(abs(self.amount))

    def of(self, normalizers: tuple[str, ...]) -> "InvarianceState":
        """The same of other normalizers."""
        return replace(self, normalizers=normalizers)

    @property
    def precision(self) -> torch.dtype:
        return DTYPES[self.dtype]


def states(own: Mapping[str, Norm]) -> type[InvarianceState]:
    """The states in which normalizers of somebody's own can be chosen too.

    Args:
        own: factories by name.

    Raises:
        ValueError: a name that is taken.
        TypeError: what is no factory of normalizers.
    """
    for name, norm in own.items():
        refuse(name, norm)
    if not own:
        return InvarianceState
    claimless = {name: Row(norm, "-" * 12, "somebody's own") for name, norm in own.items()}
    rows = {**InvarianceState.rows, **claimless}
    return type(InvarianceState.__name__, (InvarianceState,), {"rows": rows})


def refuse(name: str, norm: Norm) -> None:
    """Raise an error unless ``norm`` makes a normalizer, and its name is free."""
    if name in TABLE:
        raise ValueError(f"own normalizer {name!r}: this name is taken, give it another.")
    wanted = "give a factory such as LayerNorm, which makes a Normalizer of a number of units"
    if not callable(norm):
        raise TypeError(f"own normalizer {name!r} is {norm!r}: {wanted}.")
    made = norm(UNITS)
    if not isinstance(made, Normalizer):
        raise TypeError(f"own normalizer {name!r} makes a {type(made).__name__}: {wanted}.")


@lru_cache(maxsize=64)
def over_cases(kind: type[InvarianceState], name: str) -> bool:
    """True if a row has statistics over cases, and so a mode."""
    return isinstance(kind.rows[name].make(UNITS), OverCases)
