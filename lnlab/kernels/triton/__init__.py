"""Recurrent layers on a GPU: a step of time is one product and one Triton program a case.

Triton comes with torch's builds for CUDA. It is imported when a layer first runs on a GPU;
where it is absent, torch's operators take its place, and a warning says so once.
"""

import functools
import importlib.util
import warnings

import torch

from lnlab.kernels.hoisted import Steps
from lnlab.kernels.library import NoKernel

WIDEST = 2048
"""Units up to which a program holds its case in registers; held to by a test."""


def steps(device: torch.device, dtype: torch.dtype, units: int) -> Steps | None:
    """The loop over time of a layer with H units by Triton; None where it has none.

    It has one in float32, on a GPU that torch calls "cuda", for at most ``WIDEST`` units.
    """
    if device.type != "cuda" or dtype != torch.float32 or units > WIDEST or not installed():
        return None
    from lnlab.kernels.triton.loop import steps

    return steps


@functools.cache
def installed() -> bool:
    """True if there is Triton; where not, one :class:`NoKernel` warning has said so."""
    if importlib.util.find_spec("triton"):
        return True
    warnings.warn(
        "Triton is not installed. Recurrent layers run on torch's operators instead: the same "
        'results, more slowly. pip install "lnlab[triton]"',
        NoKernel,
        stacklevel=3,
    )
    return False
