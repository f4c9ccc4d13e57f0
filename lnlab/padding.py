"""Cases of different lengths in one tensor: what is padding, and what is not."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def within(lengths: Tensor, T: int) -> Tensor:
    """The steps that are no padding, a mask (B, T)."""
    return torch.arange(T, device=lengths.device) < lengths[:, None]


def padded(parts: Sequence[Tensor], fill: int) -> Tensor:
    """Tensors (B, n, ...) of S seeds as one (S, B, N, ...), padded behind to the longest N.

    Floating-point numbers are padded with 0, whole numbers with ``fill``; tensors (B,) are only
    stacked.
    """
    if parts[0].dim() == 1:
        return torch.stack(list(parts))
    longest = max(part.shape[1] for part in parts)
    whole = parts[0].new_full(
        (len(parts), len(parts[0]), longest, *parts[0].shape[2:]),
        0 if parts[0].is_floating_point() else fill,
    )
    for row, part in zip(whole, parts, strict=True):
        row[:, : part.shape[1]] = part
    return whole


def cross_entropy(logits: Tensor, y: Tensor, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
    """The cross entropy in nats of logits (B, U, V) and units y (B, U): a scalar.

    It is the mean over the first ``lengths`` (B,) units of each case; the rest is padding.

    Args:
        smoothing: the share of each label that is spread evenly over all V units, as in
            Szegedy et al. (2016); 0 leaves the labels as they are.
    """
    inside = within(lengths, y.shape[1])
    return F.cross_entropy(logits[inside], y[inside], label_smoothing=smoothing)
