"""The cost of a step in the space of parameters: a pure function of the panel's state."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from lnlab.analysis.arguments import normal
from lnlab.analysis.fisher import FAMILIES, GLM, divergence, gap
from lnlab.figures.geometry import CostCurve, Costs
from lnlab.panels.geometry.state import CASES, INPUTS, NORMALIZERS, SIZES, UNITS, GeometryState

STEP = 1e-4
"""The size of a step in every weight or gain: small enough for eq. 8."""


def model(name: str, family: str, length: float, inputs: float, units: int) -> GLM:
    """The models of a state; the same draw whatever is set."""
    W, x = normal(0, 6, units, INPUTS), normal(0, 7, CASES, INPUTS) / INPUTS**0.5
    return GLM(length * W, inputs * x, NORMALIZERS[name], FAMILIES[family])


@lru_cache(maxsize=20_000)
def costs(
    name: str, family: str, length: float, inputs: float, units: int
) -> tuple[float, float]:
    """The cost of a step that turns W, and of one of the gains, in nats a squared step.

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
    """The relative distance of a block of eq. 13 from the metric."""
    return gap(model(name, family, 1.0, 1.0, units)).own


class GeometryMeasurement(NamedTuple):
    """The costs of steps in the layers of a state.

    Attributes:
        curves: for each normalizer the three curves of the figure, and the place of the state
            on each.
        factors: for each normalizer what a step of W, and one of the gain, costs here against
            the same step at W × 1 and x × 1.
    """

    curves: Costs
    factors: dict[str, tuple[float, float]]


def measure(state: GeometryState) -> GeometryMeasurement:
    """The costs of steps in the layers of a state; the one way into this room for a slider."""
    curves = {name: (*_curves(name, state), _errors(name, state)) for name in state.normalizers}
    factors = {}
    for name, (turn, stretch, _) in curves.items():
        there = costs(name, state.family, 1.0, 1.0, state.units)
        factors[name] = turn.value / there[0], stretch.value / there[1]
    return GeometryMeasurement(curves, factors)


def _curves(name: str, state: GeometryState) -> tuple[CostCurve, CostCurve]:
    s = state
    by_length = np.array([costs(name, s.family, c, s.inputs, s.units)[0] for c in SIZES])
    by_inputs = np.array([costs(name, s.family, s.length, c, s.units)[1] for c in SIZES])
    turn, stretch = costs(name, s.family, s.length, s.inputs, s.units)
    return (
        CostCurve(SIZES, by_length, s.length, turn),
        CostCurve(SIZES, by_inputs, s.inputs, stretch),
    )


def _errors(name: str, state: GeometryState) -> CostCurve:
    found = np.array([error(name, state.family, units) for units in UNITS])
    here = error(name, state.family, state.units)
    return CostCurve(np.array(UNITS, float), found, float(state.units), here)
