"""Sequences of different lengths in one tensor: masks, padding, and the loss without it."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

PADDING = -100
"""The class of a step that is padding: no word and no unit has it."""


def length_mask(lengths: Tensor, T: int, device: torch.device | None = None) -> Tensor:
    """Return True for steps within their sequence (B, T), on ``device`` or as ``lengths``."""
    lengths = lengths.to(device)
    return torch.arange(T, device=lengths.device) < lengths[:, None]


def flat_true_indices(mask: Tensor, device: torch.device) -> Tensor:
    """Return the indices (n,) of True in a flattened mask, on ``device``.

    They are computed where the mask is: on the CPU, nothing has to wait for the device.
    """
    return mask.flatten().nonzero().squeeze(1).to(device)


def pad_and_stack(batch_per_seed: Sequence[Tensor], integer_fill: int) -> Tensor:
    """Stack batches (B, n, ...) of S seeds as (S, B, N, ...), padded to the longest N.

    Floating-point numbers are padded with 0, whole numbers with ``integer_fill``; batches
    (B,) are only stacked.
    """
    first = batch_per_seed[0]
    if first.dim() == 1:
        return torch.stack(list(batch_per_seed))
    longest = max(batch.shape[1] for batch in batch_per_seed)
    # padding is not read: 0 keeps arithmetic on it finite
    stacked = first.new_full(
        (len(batch_per_seed), len(first), longest, *first.shape[2:]),
        0 if first.is_floating_point() else integer_fill,
    )
    for row, batch in zip(stacked, batch_per_seed, strict=True):
        row[:, : batch.shape[1]] = batch
    return stacked


def mean_masked_cross_entropy(logits: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
    """Return the cross entropy in nats of logits (B, U, V) and units y (B, U): a scalar.

    It is the mean over the first ``lengths`` (B,) units of each example; the rest is padding.
    """
    # torch averages over all units that are not ignored: long examples weigh more
    targets = y.masked_fill(~length_mask(lengths, y.shape[1], y.device), PADDING)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)
