"""The fit of an attention with the truth: where each unit began and ended."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

TOLERANCE = 0.04
"""Seconds beside a unit that still count as inside it."""


Times = Sequence[float] | np.ndarray


def mass(alpha: Tensor, step: float, begins: Times, ends: Times) -> Tensor:
    """The part of the attention at each unit that lies in that unit, within 40 ms (U,).

    Args:
        alpha: (U, T), a distribution over steps at each unit; the end symbol left out.
        step: seconds of one step; step t lasts from t to t + 1 times that.
        begins: seconds at which each unit begins (U,).
        ends: likewise.

    Raises:
        ValueError: where there are not as many units as rows.
    """
    if not len(alpha) == len(begins) == len(ends):
        raise ValueError(
            f"there are {len(alpha)} rows, {len(begins)} begins and {len(ends)} ends: give one "
            "of each for every unit."
        )
    low = torch.as_tensor(np.asarray(begins)).to(alpha)[:, None] - TOLERANCE
    high = torch.as_tensor(np.asarray(ends)).to(alpha)[:, None] + TOLERANCE
    left = step * torch.arange(alpha.shape[1]).to(alpha)
    # of a step that lies partly inside, that part
    part = (torch.minimum(high, left + step) - torch.maximum(low, left)).clamp(min=0) / step
    return (alpha * part).sum(-1)


def monotonicity(alpha: Tensor) -> float:
    """The fraction of units that are not attended before the one before them.

    1 for a single unit.

    Args:
        alpha: attention (U, T) of the units over time.
    """
    place = (alpha * torch.arange(alpha.shape[1]).to(alpha)).sum(-1)
    forward = place.diff() >= 0
    return float(forward.double().mean()) if len(forward) else 1.0


def entropy(alpha: Tensor) -> Tensor:
    """The entropy of the attention at each unit, in nats (U,): 0 is a single step."""
    return -torch.special.xlogy(alpha, alpha).sum(-1)
