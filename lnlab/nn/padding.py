"""Cases of different lengths in one tensor: what is padding, and what is not."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

PADDING = -100
"""The class of a step that is padding: no word and no unit has it."""


def within(lengths: Tensor, T: int, device: torch.device | None = None) -> Tensor:
    """The steps that are no padding: a mask (B, T) on ``device``, or where the lengths are."""
    lengths = lengths.to(device)
    return torch.arange(T, device=lengths.device) < lengths[:, None]


def places(mask: Tensor, device: torch.device) -> Tensor:
    """The places in a flattened mask of what is True (n,), on ``device``.

    They are counted where the mask is: on the CPU, nothing has to wait for the device.
    """
    return mask.flatten().nonzero().squeeze(1).to(device)


def padded(parts: Sequence[Tensor], fill: int) -> Tensor:
    """Tensors (B, n, ...) of S seeds as one (S, B, N, ...), padded behind to the longest N.

    Floating-point numbers are padded with 0, whole numbers with ``fill``; tensors (B,) are only
    stacked.
    """
    if parts[0].dim() == 1:
        return torch.stack(list(parts))
    longest = max(part.shape[1] for part in parts)
    # numbers that are padded are not read: 0 keeps arithmetic on them finite
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
    # torch averages over the units that are not ignored: those of long cases weigh more
    right = y.masked_fill(~within(lengths, y.shape[1], y.device), PADDING)
    return F.cross_entropy(
        logits.flatten(0, 1), right.flatten(), ignore_index=PADDING, label_smoothing=smoothing
    )
