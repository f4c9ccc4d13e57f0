"""A tensor in a few numbers: its distribution, and what its cases and units have in common."""

from typing import Any

import torch
from torch import Tensor

QUANTILES = {
    f"q{round(100 * q):02}": q for q in (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
}
SAMPLE = 4096
"""Quantiles and histograms are of at most so many values of a tensor, evenly spread over it."""

Row = dict[str, Any]


def summary(tensor: Tensor) -> tuple[Tensor, Row]:
    """An even sample of the finite values of a tensor, and its numbers for a frame."""
    values = tensor.float() if tensor.dtype not in (torch.float32, torch.float64) else tensor
    flat = values.reshape(-1)
    # one sum tells whether all are finite, cheaper than to copy those that are
    finite = flat if flat.sum().isfinite() else flat[flat.isfinite()]
    nonfinite = flat.numel() - finite.numel()
    sample = finite[:: max(1, -(-finite.numel() // SAMPLE))]
    row: Row = {"count": flat.numel(), "nonfinite": nonfinite}
    if not finite.numel():
        nothing = ("mean", "std", "norm", "zeros", "dead", *QUANTILES)
        return sample, row | dict.fromkeys(nothing, float("nan"))
    std, mean = torch.std_mean(finite, correction=0)
    zero = values == 0
    dead = zero.reshape(-1, zero.shape[-1]).all(0) if zero.dim() else zero
    at = torch.tensor(list(QUANTILES.values()), dtype=finite.dtype, device=finite.device)
    numbers = [mean, std, finite.norm(), zero.float().mean(), dead.float().mean()]
    names = ("mean", "std", "norm", "zeros", "dead", *QUANTILES)
    measured = torch.stack([n.double() for n in numbers]).tolist()
    quantiles = torch.quantile(sample, at).tolist()
    return sample, row | dict(zip(names, measured + quantiles, strict=True))


def reach_of(sample: Tensor) -> float:
    """Half the width of a histogram: four times the largest value that was seen at first."""
    largest = float(sample.abs().max()) if sample.numel() else 0.0
    return 4 * largest or 1.0


def as_matrix(tensor: Tensor) -> Tensor:
    """Cases by units (N, H) in at least float32: units along the last axis, the rest cases."""
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return wide.reshape(-1, wide.shape[-1]) if wide.dim() else wide.reshape(1, 1)


def stable_rank(A: Tensor) -> float:
    """||A||_F²/||A||_2² of a matrix (N, H): 1 where all rows are multiples of one, at most H.

    NaN of a matrix of zeros, and of one that holds what is not finite.
    """
    if not A.isfinite().all():
        return float("nan")
    gram = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
    return float(gram.trace() / torch.linalg.eigvalsh(gram)[-1])


def mean_cosine(A: Tensor) -> float:
    """The mean cosine of the angle between two rows of a matrix (N, H); NaN of a lone row.

    1 where cases cannot be told apart. Rows of zeros are at a right angle to all.
    """
    N = len(A)
    summed = torch.nn.functional.normalize(A, dim=1).sum(0).square().sum()
    rows = (A != 0).any(1).sum()
    return float((summed - rows) / (N * (N - 1))) if N > 1 else float("nan")


def unit_moments(A: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every unit over the cases of (N, H), each (H,)."""
    var, mean = torch.var_mean(A, dim=0, correction=0)
    return mean, var
