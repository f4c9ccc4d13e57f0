"""The common ground of nets that are a compiled loop of their own: DRAW, handwriting."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from lnlab.kernels.forms import Form, exactly, form
from lnlab.kernels.library import KernelLibrary, library
from lnlab.kernels.recurrent import KERNEL_DTYPES
from lnlab.nn import Identity, Linear, LSTMCell


def kernel(of: KernelLibrary, device: torch.device, dtype: torch.dtype) -> ctypes.CDLL | None:
    """The library, where it serves this device and this dtype."""
    return library(of) if device.type == "cpu" and dtype in KERNEL_DTYPES else None


def run(lib: ctypes.CDLL, name: str, problem: Any) -> int:
    """The result of the function ``name`` of a library: bytes, or 0.

    Raises:
        MemoryError: if there is too little memory.
    """
    result = getattr(lib, name)(ctypes.byref(problem))
    if result < 0:
        raise MemoryError(f"no memory for {problem.T} steps of {problem.B} cases.")
    return result


def affine(layer: Linear) -> bool:
    """True if a layer is W x + b, and nobody's own."""
    alone = exactly(layer, Linear) and exactly(layer.norm, Identity)
    return alone and layer.b_inside is not None


def bias(layer: Linear) -> Tensor:
    """The b (H,) of a layer that is :func:`affine`."""
    assert layer.b_inside is not None
    return layer.b_inside


def formed(cell: LSTMCell) -> Form:
    """The form of a cell that has one."""
    found = form(cell)
    assert found is not None
    return found
