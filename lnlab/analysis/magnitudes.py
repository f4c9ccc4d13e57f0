"""Sizes of tensors that neither overflow nor underflow where their inputs do not."""

import torch
from torch import Tensor

EXACT = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.1}
"""A defect below this is rounding: some 10^3 of its units in float64 and float32, 25 in
bfloat16, which rounds weights, inputs and outputs once more after the change."""


def vector_norm(a: Tensor, dim: int | tuple[int, ...] = (), *, keepdim: bool = False) -> Tensor:
    """Return the Euclidean norm of ``a`` over ``dim`` (all axes by default), in float64.

    It is inf where ``a`` holds an infinity and NaN where it holds a NaN.
    """
    axes = dim if dim != () else tuple(range(a.dim()))
    if not a.numel():
        return torch.linalg.vector_norm(a.double(), dim=axes, keepdim=keepdim)
    if a.dtype != torch.float64:  # whose squares float64 holds
        return torch.linalg.vector_norm(a, dim=axes, keepdim=keepdim, dtype=torch.float64)
    # ||a|| = m ||a/m||: float64 holds 1e-200 and 1e200, and not their squares
    largest = a.abs().amax(axes, keepdim=True)
    m = torch.where((largest > 0) & largest.isfinite(), largest, 1)
    norm = torch.linalg.vector_norm(a / m, dim=axes, keepdim=True) * m
    return norm if keepdim else norm.squeeze(axes)


def root_mean_square(a: Tensor, dim: int | tuple[int, ...] = ()) -> Tensor:
    """Return the root mean square of ``a`` over ``dim`` (all axes by default), in float64."""
    norm = vector_norm(a, dim)
    return norm / (a.numel() / max(1, norm.numel())) ** 0.5


def relative_max_change(changed: Tensor, y: Tensor) -> float:
    """Return max|y' - y| / max|y| (any shape) in float64; 0/0 is 0, with a NaN it is NaN."""
    largest, change = max_abs(y), max_abs(changed.double() - y)
    # 0 if nothing moved, also where y is 0; infinite if y was 0 and is not now
    if largest:
        return change / largest
    return float("inf") if change > 0 else change


def max_abs(y: Tensor) -> float:
    """Return the largest |y| of y (any shape); NaN if y holds one, 0 if it is empty."""
    if not y.numel():
        return 0.0
    # both ends in one pass, without a copy for |y|
    low, high = y.double().aminmax()
    return max(abs(float(low)), abs(float(high)))
