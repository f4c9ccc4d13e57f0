"""The columns of Table 1 of Ba et al. (2016), and four of our own, as changes of a layer.

A *transformation* changes what a layer is given: its weights W, its inputs x, or its summed
inputs a.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from .normalizer import Normalizer


@dataclass(frozen=True)
class Given:
    """The inputs and weights of one layer; ``a = W x + c``.

    Attributes:
        W: weights (H, D), or (H, D, height, width) of a convolution.
        x: inputs (B, D), or (B, D, height, width).
        c: added to the summed inputs, broadcast: 0, or a bias inside a.
        padding: zeros around the picture.
    """

    W: Tensor
    x: Tensor
    c: Tensor
    padding: int = 0

    def summed_inputs(self, norm: Normalizer) -> Tensor:
        """``a`` (B, H, *space), with the weights that ``norm`` multiplies by."""
        W = norm.weight(self.W)
        if self.x.dim() == 2:
            return F.linear(self.x, W) + self.c
        return F.conv2d(self.x, W, padding=self.padding) + self.c

    def output(self, norm: Normalizer) -> Tensor:
        """The normalized summed inputs (B, H): behind f a dead unit may hide a change."""
        return norm(self.summed_inputs(norm), self.W, 0)

    def along(self, v: Tensor, axis: int) -> Tensor:
        """v (N,) along ``axis`` of x (0 cases, 1 inputs or units), ready to broadcast."""
        return v.reshape(tuple(-1 if i == axis else 1 for i in range(self.x.dim())))


Change = Callable[[Given, float, Tensor], Given]
"""(given, delta, shift) to what is given instead; ``shift`` is as long as it is cut to."""


@dataclass(frozen=True)
class Transformation:
    """One column: what is changed, by a scale ``delta`` or by a ``shift``.

    Attributes:
        column: its number here; 1 to 6 are the columns of Table 1, in its order.
        name: in the paper's words where it has some.
        formula: the same, in its letters.
        change: does it. Shifts are cut from one long vector, so that the same vector serves
            every shape.
        scales: whether delta is what it reads; the others read the shift.
    """

    column: int
    name: str
    formula: str
    change: Change
    scales: bool

    def __call__(self, given: Given, delta: float, shift: Tensor) -> Given:
        return self.change(given, delta, shift)


def _scale_weights(given: Given, delta: float, shift: Tensor) -> Given:
    return replace(given, W=delta * given.W)


def _shift_weights(given: Given, delta: float, shift: Tensor) -> Given:
    # One γ for all rows: every summed input of a case moves by γᵀx, one number, which a mean
    # over the units takes out and a mean over the cases does not.
    gamma = shift[: given.W[0].numel()].view_as(given.W[0])
    return replace(given, W=given.W + gamma)


def scale_rows(given: Given, delta: float, shift: Tensor, rows: int = 1) -> Given:
    """The first ``rows`` weight vectors of W (H, D) times delta."""
    return replace(given, W=torch.cat([delta * given.W[:rows], given.W[rows:]]))


def _scale_data(given: Given, delta: float, shift: Tensor) -> Given:
    return replace(given, x=delta * given.x)


def _shift_data(given: Given, delta: float, shift: Tensor) -> Given:
    # a moves by W γ, one number a unit and the same in all cases: here it is the other way
    return replace(given, x=given.x + given.along(shift[: given.x.shape[1]], 1))


def _scale_cases(given: Given, delta: float, shift: Tensor, cases: int = 1) -> Given:
    return replace(given, x=torch.cat([delta * given.x[:cases], given.x[cases:]]))


def _shift_summed(given: Given, delta: float, shift: Tensor) -> Given:
    return replace(given, c=given.c + given.along(shift[: len(given.x)], 0))


def _shift_units(given: Given, delta: float, shift: Tensor) -> Given:
    return replace(given, c=given.c + given.along(shift[: len(given.W)], 1))


def _shift_cases(given: Given, delta: float, shift: Tensor) -> Given:
    # a_i moves by c_n times the sum of row i of W: another number for each unit and each case
    return replace(given, x=given.x + given.along(shift[: len(given.x)], 0))


def _shift_rows(given: Given, delta: float, shift: Tensor) -> Given:
    # a_i moves by c_i times the sum of x: likewise
    c = shift[: len(given.W)].reshape((-1,) + (1,) * (given.W.dim() - 1))
    return replace(given, W=given.W + c)


def _shift_ghost(given: Given, delta: float, shift: Tensor, cases: int) -> Given:
    shifted = _shift_data(given, delta, shift).x
    return replace(given, x=torch.cat([shifted[:cases], given.x[cases:]]))


def _shift_group(given: Given, delta: float, shift: Tensor, members: int) -> Given:
    one_group = torch.zeros_like(shift[: len(given.W)])
    one_group[:members] = shift[0]
    return replace(given, c=given.c + given.along(one_group, 1))


TRANSFORMATIONS: tuple[Transformation, ...] = (
    Transformation(1, "weight matrix re-scaling", "W → δW", _scale_weights, True),
    Transformation(2, "weight matrix re-centering", "W → W + 1γᵀ", _shift_weights, False),
    Transformation(3, "weight vector re-scaling", "w₁ → δw₁", scale_rows, True),
    Transformation(4, "dataset re-scaling", "X → δX", _scale_data, True),
    Transformation(5, "dataset re-centering", "X → X + 1γᵀ", _shift_data, False),
    Transformation(6, "single training case re-scaling", "x₁ → δx₁", _scale_cases, True),
    Transformation(7, "shift of a case's summed inputs", "aₙ → aₙ + cₙ1", _shift_summed, False),
    Transformation(8, "shift of a unit's summed input", "aᵢ → aᵢ + cᵢ", _shift_units, False),
    Transformation(9, "shift of a case's inputs", "xₙ → xₙ + cₙ1", _shift_cases, False),
    Transformation(10, "shift of a unit's weights", "wᵢ → wᵢ + cᵢ1", _shift_rows, False),
)
"""Columns 1 to 10. Column 11, a case's output does not depend on the others, and 12,
training and evaluation are the same function, are no transformations: see ``Row``."""

GROUPS, MEMBERS, GHOST = 4, 3, 4
"""Sizes for the rows with groups (12 units: 4 groups of 3) and ghosts (of 4 cases)."""

ONE_GROUP_SCALED = Transformation(
    3, "re-scaling of all weight vectors of a group", "w₁…w₃ → δw₁…w₃",
    partial(scale_rows, rows=MEMBERS), True,
)  # fmt: skip
ONE_GROUP_SHIFTED = Transformation(
    7, "shift of the summed inputs of a group", "aₙ₁…aₙ₃ → aₙ₁…aₙ₃ + c1",
    partial(_shift_group, members=MEMBERS), False,
)  # fmt: skip
ONE_GHOST_SCALED = Transformation(
    6, "re-scaling of all cases of a ghost batch", "x₁…x₄ → δx₁…x₄",
    partial(_scale_cases, cases=GHOST), True,
)  # fmt: skip
ONE_GHOST_SHIFTED = Transformation(
    9, "re-centering of a ghost batch", "x₁…x₄ → x₁…x₄ + γ",
    partial(_shift_ghost, cases=GHOST), False,
)  # fmt: skip
