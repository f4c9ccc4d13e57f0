"""The course of a recurrent net from step to step: a pure function of the panel's state."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from lnlab.analysis.arguments import normal
from lnlab.analysis.rnn_dynamics import Dynamics, dynamics
from lnlab.kernels import fuse
from lnlab.nn import Cell, Initial
from lnlab.panels.recurrence.state import (
    CASES,
    CELLS,
    INPUTS,
    NORMALIZERS,
    STEPS,
    UNITS,
    RecurrenceState,
)
from lnlab.training.random_state import default_dtype


def drawn(seed: int = 0) -> Callable[[Tensor], object]:
    """Fills one gate after the other from N(0, 1/fan-in), torch's generator left alone."""
    streams = iter(range(100, 200))
    return lambda W: W.copy_(normal(seed, next(streams), *W.shape) / W.shape[1] ** 0.5)


@torch.no_grad()
def made(name: str, cell: str, recurrent: float, inputs: float, gain: float) -> Cell:
    """The cell, its normalizers torch's own operators; the same draw whatever is set."""
    make = CELLS[cell][1]
    with default_dtype(torch.float64):
        new = make(INPUTS, UNITS, NORMALIZERS[name], initial=Initial(drawn()))
    new.W_x.mul_(inputs)
    new.W_h.mul_(recurrent)
    for norm in (new.norm_h, getattr(new, "norm_U", None)):
        g = getattr(norm, "g", None)
        if isinstance(g, Tensor):
            g.fill_(gain)
    return fuse(new) if name in ("layer", "rms", "recurrent batch") else new


@lru_cache(maxsize=2_000)
def course(
    name: str, cell: str, recurrent: float, inputs: float, gain: float, steps: int
) -> Dynamics:
    """The measurement of :func:`~lnlab.analysis.rnn_dynamics.dynamics` on inputs always the same."""
    x = normal(0, 5, max(STEPS), CASES, INPUTS)[:steps]
    return dynamics(made(name, cell, recurrent, inputs, gain), x)


def measure(state: RecurrenceState) -> dict[str, Dynamics]:
    """Summed inputs, hidden states and gradients under each of the state's normalizers."""
    rest = state.cell, state.recurrent, state.inputs
    return {
        # without a normalizer there is no gain
        name: course(name, *rest, 1.0 if name == "none" else state.gain, state.steps)
        for name in state.normalizers
    }
