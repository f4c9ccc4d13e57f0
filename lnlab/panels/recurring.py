"""A recurrent net under a normalizer: the state of a panel, and pure functions of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor

from lnlab.cells import Cell, GRUCell, Initial, LSTMCell, RNNCell
from lnlab.figures.table import number
from lnlab.kernels import fuse
from lnlab.norms import NORMS, BatchNorm, Norm
from lnlab.probes.dynamics import Dynamics, dynamics
from lnlab.probes.givens import normal

from .transformed import one_of

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
class Recurring:
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

    def rescaled(self, recurrent: float) -> "Recurring":
        """The same with recurrent weights of another size."""
        return replace(self, recurrent=recurrent)

    @property
    def equation(self) -> str:
        """Where the cell stands in the paper."""
        return CELLS[self.cell][0]


def drawn(seed: int = 0) -> Callable[[Tensor], object]:
    """Fills one gate after the other from N(0, 1/fan-in), torch's generator left alone."""
    streams = iter(range(100, 200))
    return lambda W: W.copy_(normal(seed, next(streams), *W.shape) / W.shape[1] ** 0.5)


@torch.no_grad()
def made(name: str, cell: str, recurrent: float, inputs: float, gain: float) -> Cell:
    """The cell, its normalizers torch's own operators; the same draw whatever is set."""
    make = CELLS[cell][1]
    new = make(INPUTS, UNITS, NORMALIZERS[name], initial=Initial(drawn())).double()
    new.W_x.mul_(inputs)
    new.W_h.mul_(recurrent)
    for norm in (new.norm_h, getattr(new, "norm_U", None)):
        g = getattr(norm, "g", None)
        if isinstance(g, Tensor):
            g.fill_(gain)
    return fuse(new) if name in ("layer", "rms", "recurrent batch") else new


@lru_cache(maxsize=2_000)
def course(name: str, cell: str, recurrent: float, inputs: float, gain: float, steps: int):
    """What :func:`~lnlab.probes.dynamics.dynamics` measures, on inputs always the same."""
    x = normal(0, 5, max(STEPS), CASES, INPUTS)[:steps]
    return dynamics(made(name, cell, recurrent, inputs, gain), x)


def courses(state: Recurring) -> dict[str, Dynamics]:
    """Summed inputs, hidden states and gradients under each of the state's normalizers."""
    rest = state.cell, state.recurrent, state.inputs
    return {
        # without a normalizer there is no gain
        name: course(name, *rest, 1.0 if name == "none" else state.gain, state.steps)
        for name in state.normalizers
    }


def conditions(state: Recurring) -> str:
    """What was measured, in short."""
    return (
        f"{state.cell} ({state.equation}), W_h × {state.recurrent:g}, W_x × {state.inputs:g}, "
        f"gain {state.gain:g}, {state.steps} steps"
    )


def sentence(state: Recurring) -> str:
    """What becomes of the gradient on its way back."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what becomes of the gradient."
    said = ", ".join(
        f"{name} {number(float(each.gradient[0]))} ({each.rate:.2f} a step)"
        for name, each in courses(state).items()
    )
    return (
        f"On its way back from step {state.steps} to 1 the gradient is multiplied by: {said}."
    )
