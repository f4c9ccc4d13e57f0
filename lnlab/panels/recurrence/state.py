"""The state of the recurrence panel: a recurrent net, and what it is normalized by."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from lnlab.nn import NORMS, BatchNorm, Cell, GRUCell, LSTMCell, Norm, RNNCell
from lnlab.panels.choices import one_of

UNITS, INPUTS, CASES = 64, 16, 32
MOST = 4

# On the cases at hand every time step has its own statistics, whatever is remembered.
NORMALIZERS: dict[str, Norm] = {
    "none": NORMS["none"],
    "layer": NORMS["layer"],
    "recurrent batch": BatchNorm,
    "rms": NORMS["rms"],
    "weight": NORMS["weight"],
}
CELLS: dict[str, tuple[str, Callable[..., Cell]]] = {
    "RNN, relu": ("eq. 4", partial(RNNCell, f=torch.relu)),
    "RNN, tanh": ("eq. 4", RNNCell),
    "LSTM": ("eq. 20-22", LSTMCell),
    "GRU": ("eq. 26-28", GRUCell),
}
STEPS = (10, 25, 50, 100, 200)
SMALLEST, LARGEST = 0.1, 10.0


@dataclass(frozen=True)
class RecurrenceState:
    """A recurrent net at its start, and the normalizers that it is tried with.

    Attributes:
        normalizers: at most four.
        cell: one of :data:`CELLS`.
        recurrent: the recurrent weights are this many times N(0, 1/H); 0.1 to 10.
        inputs: the input weights are this many times N(0, 1/D); 0.1 to 10.
        gain: of what normalizes W_h h; in eq. 4 the only one; 0.1 to 10.
        steps: T.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = ("none", "layer", "recurrent batch")
    cell: str = "RNN, relu"
    recurrent: float = 2.0
    inputs: float = 1.0
    gain: float = 1.0
    steps: int = 100

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        if len(self.normalizers) > MOST:
            raise ValueError(f"{len(self.normalizers)} normalizers: compare at most {MOST}.")
        for name in self.normalizers:
            one_of("a normalizer", name, NORMALIZERS)
        one_of("cell", self.cell, CELLS)
        one_of("steps", self.steps, STEPS)
        for name in ("recurrent", "inputs", "gain"):
            size = getattr(self, name)
            if not SMALLEST <= size <= LARGEST:
                raise ValueError(f"{name} is {size}: give {SMALLEST:g} to {LARGEST:g}.")

    def rescaled(self, recurrent: float) -> "RecurrenceState":
        """The same with recurrent weights of another size."""
        return replace(self, recurrent=recurrent)

    @property
    def equation(self) -> str:
        """The numbers of the cell's equations in the paper."""
        return CELLS[self.cell][0]
