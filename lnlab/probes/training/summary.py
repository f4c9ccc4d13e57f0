"""A tensor in a few numbers: its distribution, and what its cases and units have in common."""

from math import frexp, hypot, isfinite, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

QUANTILES = {
    f"q{round(100 * q):02}": q for q in (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
}
PLACES = np.array(list(QUANTILES.values()))
SAMPLE = 4096
"""Quantiles are of at most so many values of a tensor, evenly spread over it."""
MOMENTS = ("mean", "std", "norm", "zeros", "dead")

Row = dict[str, Any]


def summary(tensor: Tensor) -> Row:
    """The numbers of a tensor (any shape) for a frame; quantiles are of an even sample."""
    values = widened(tensor)
    finite, largest = values.reshape(-1), values.new_zeros(1)
    if values.numel():
        largest = as_matrix(values).abs().amax(0)  # of each unit
    top = float(largest.max())
    if not isfinite(top):  # cheaper than to look at each of them
        finite = finite[finite.isfinite()]
        top = float(finite.abs().max()) if finite.numel() else top
    n = finite.numel()
    # numpy sorts ten times as fast as torch, on a processor
    sample = np.sort(finite[:: max(1, -(-n // SAMPLE))].cpu().numpy())
    row: Row = {"count": values.numel(), "nonfinite": values.numel() - n}
    if not n:
        return row | dict.fromkeys((*MOMENTS, *QUANTILES), float("nan"))
    # In units of a power of 2 near the largest no sum and no square overflows or underflows,
    # and the division does not round.
    unit = max(2.0 ** (frexp(top)[1] - 1), torch.finfo(values.dtype).tiny)
    scaled = finite / unit
    mean = float(scaled.mean())
    std = float((scaled - mean).norm()) / sqrt(n)
    norm = hypot(mean, std) * sqrt(n)  # ||a||² = n (mean² + std²)
    zeros = 1 - int(torch.count_nonzero(values)) / values.numel()
    dead = 1 - int(torch.count_nonzero(largest)) / len(largest)
    moments = (mean * unit, std * unit, norm * unit, zeros, dead)
    row |= zip(MOMENTS, moments, strict=True)
    return row | dict(zip(QUANTILES, quantiles(sample).tolist(), strict=True))


def quantiles(sample: np.ndarray) -> np.ndarray:
    """A quantile of a sorted sample, interpolated between two of its values."""
    place = PLACES * (len(sample) - 1)
    below = place.astype(int)
    # in float64: the difference of two float32 numbers may overflow
    low, high = sample[[below, np.minimum(below + 1, len(sample) - 1)]].astype(np.float64)
    return low + (place - below) * (high - low)


def widened(tensor: Tensor) -> Tensor:
    """A tensor (any shape) in at least float32."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def as_matrix(tensor: Tensor) -> Tensor:
    """Cases by units (N, H) in at least float32.

    Units stand along the last axis, of pictures (B, H, height, width) and kernels along the
    second; the rest are cases.
    """
    wide = widened(tensor)
    wide = wide.movedim(1, -1) if wide.dim() >= 4 else wide
    return wide.reshape(-1, wide.shape[-1]) if wide.dim() else wide.reshape(1, 1)


def stable_rank(A: Tensor) -> float:
    """||A||_F²/||A||_2² of a matrix (N, H): 1 where all rows are multiples of one, at most H.

    NaN of a matrix of zeros, and of one that holds what is not finite.
    """
    largest = float(A.abs().max())
    if not isfinite(largest) or not largest:
        return float("nan")
    A = A / largest  # or the squares of large numbers overflow, and those of small ones are 0
    # both have the squares of the singular values of A for eigenvalues, and 0: ||A||_F² is
    # their sum, ||A||_2² the largest
    gram = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
    return float(gram.trace() / torch.linalg.eigvalsh(gram)[-1])


def mean_cosine(A: Tensor) -> float:
    """The mean cosine of the angle between two rows of a matrix (N, H); NaN of a lone row.

    1 where cases cannot be told apart. Rows of zeros are at a right angle to all.
    """
    N = len(A)
    rows = A[(A != 0).any(1)]
    rows = rows / rows.abs().amax(1, keepdim=True)  # or the squares of small ones would be 0
    # the squared length of the sum of N unit vectors is N and the sum of all N (N - 1) cosines
    summed = (rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)).sum(0).square().sum()
    return float((summed - len(rows)) / (N * (N - 1))) if N > 1 else float("nan")


def unit_moments(A: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every unit over the cases of (N, H), each (H,), in float64."""
    var, mean = torch.var_mean(A.double(), dim=0, correction=0)
    return mean, var
