"""A layer of linear models under a normalizer: the state of a panel, and its geometry."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from lnlab.figures.geometry import Course, Courses
from lnlab.figures.table import number
from lnlab.norms import NORMS, Norm
from lnlab.probes.families import FAMILIES
from lnlab.probes.fisher_glm import GLM, divergence, gap
from lnlab.probes.givens import normal

from .transformed import one_of

INPUTS, CASES = 6, 24
MOST = 4
NORMALIZERS: dict[str, Norm] = {
    name: NORMS[name] for name in ("none", "layer", "batch", "weight")
}
UNITS = (4, 8, 16, 32, 64)
SMALLEST, LARGEST = 0.1, 10.0
SIZES = np.logspace(-1, 1, 21)
STEP = 1e-4
"""The size of a step in every weight or gain: small enough for eq. 8."""


@dataclass(frozen=True)
class Curved:
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

    def longer(self, length: float) -> "Curved":
        """The same with weights of another length."""
        return replace(self, length=length)


def model(name: str, family: str, length: float, inputs: float, units: int) -> GLM:
    """The models of a state; the same draw whatever is set."""
    W, x = normal(0, 6, units, INPUTS), normal(0, 7, CASES, INPUTS) / INPUTS**0.5
    return GLM(length * W, inputs * x, NORMALIZERS[name], FAMILIES[family])


@lru_cache(maxsize=20_000)
def costs(
    name: str, family: str, length: float, inputs: float, units: int
) -> tuple[float, float]:
    """What a step costs that turns W, and one of the gains, in nats a squared step.

    That is 2 D_KL/||delta||², the curvature along a random step of W and along one of all
    gains, or of all ||w_i|| where nothing normalizes.
    """
    glm = model(name, family, length, inputs, units)
    turn, stretch = torch.zeros_like(glm.theta), torch.zeros_like(glm.theta)
    turn[:, :INPUTS] = normal(1, 6, units, INPUTS)
    if glm.plain:
        stretch[:, :INPUTS] = glm.W / glm.W.norm(dim=1, keepdim=True)
    else:
        stretch[:, -1] = 1.0
    return _curvature(glm, STEP * turn), _curvature(glm, STEP * stretch)


def _curvature(glm: GLM, delta: torch.Tensor) -> float:
    return 2 * divergence(glm, delta) / float(delta.square().sum())


@lru_cache(maxsize=200)
def error(name: str, family: str, units: int) -> float:
    """How far a block of eq. 13 is from the metric, relative."""
    return gap(model(name, family, 1.0, 1.0, units)).own


def courses(state: Curved) -> Courses:
    """For each normalizer the three curves of the figure, and where on them the state is."""
    return {
        name: (*_cost_courses(name, state), _errors(name, state)) for name in state.normalizers
    }


def _cost_courses(name: str, state: Curved) -> tuple[Course, Course]:
    s = state
    by_length = np.array([costs(name, s.family, c, s.inputs, s.units)[0] for c in SIZES])
    by_inputs = np.array([costs(name, s.family, s.length, c, s.units)[1] for c in SIZES])
    turn, stretch = costs(name, s.family, s.length, s.inputs, s.units)
    return (
        Course(SIZES, by_length, s.length, turn),
        Course(SIZES, by_inputs, s.inputs, stretch),
    )


def _errors(name: str, state: Curved) -> Course:
    found = np.array([error(name, state.family, units) for units in UNITS])
    here = error(name, state.family, state.units)
    return Course(np.array(UNITS, float), found, float(state.units), here)


def conditions(state: Curved) -> str:
    """What was measured, in short."""
    return (
        f"{state.family} outputs, H = {state.units}, W × {state.length:g}, "
        f"x × {state.inputs:g}, D = {INPUTS}, {CASES} cases"
    )


def sentence(state: Curved) -> str:
    """What a step costs at this length and these inputs, against both at 1."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what a step costs."
    said = []
    for name in state.normalizers:
        here = costs(name, state.family, state.length, state.inputs, state.units)
        there = costs(name, state.family, 1.0, 1.0, state.units)
        turn, stretch = (number(a / b) for a, b in zip(here, there, strict=True))
        said.append(f"{name} {turn} and {stretch}")
    return (
        "Against W × 1 and x × 1 the same step of W, and of a gain, changes the outputs by a "
        f"factor of: {', '.join(said)}. Eq. 13 is off by "
        + ", ".join(
            f"{number(error(n, state.family, state.units))} ({n})" for n in state.normalizers
        )
        + "."
    )
