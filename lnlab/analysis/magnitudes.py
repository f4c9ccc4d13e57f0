"""Norms and root mean squares that neither overflow nor underflow where their inputs do not."""

import torch
from torch import Tensor


def vector_norm(a: Tensor, dim: int | tuple[int, ...] = (), *, keepdim: bool = False) -> Tensor:
    """Return the Euclidean norm of ``a`` over ``dim`` (all axes by default), in float64.

    It is inf where ``a`` holds an infinity and NaN where it holds a NaN.
    """
    axes = dim if dim != () else tuple(range(a.dim()))
    if not a.numel():
        return torch.linalg.vector_norm(a.double(), dim=axes, keepdim=keepdim)
    # ||a|| = m ||a/m||: float32 holds 1e-24 and 1e20, and not their squares
    largest = a.abs().amax(axes, keepdim=True)
    m = torch.where((largest > 0) & largest.isfinite(), largest, 1).double()
    norm = torch.linalg.vector_norm(a / m, dim=axes, keepdim=True) * m
    return norm if keepdim else norm.squeeze(axes)


def root_mean_square(a: Tensor, dim: int | tuple[int, ...] = ()) -> Tensor:
    """Return the root mean square of ``a`` over ``dim`` (all axes by default), in float64."""
    norm = vector_norm(a, dim)
    return norm / (a.numel() / max(1, norm.numel())) ** 0.5
