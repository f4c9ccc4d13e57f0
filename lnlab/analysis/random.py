"""Random numbers that are the same on every device."""

import numpy as np
import torch
from torch import Tensor


def normal(seed: int, stream: int | tuple[int, ...], *shape: int) -> Tensor:
    """Return standard normal numbers in float64, those of one ``stream`` of ``seed``.

    The numbers of a larger shape begin with those of a smaller one.
    """
    return torch.from_numpy(_generator(seed, stream).standard_normal(shape))


def uniform(seed: int, stream: int | tuple[int, ...], *shape: int) -> Tensor:
    """Return numbers from U(0, 1) in float64, otherwise as :func:`normal`."""
    return torch.from_numpy(_generator(seed, stream).random(shape))


def _generator(seed: int, stream: int | tuple[int, ...]) -> np.random.Generator:
    # NumPy's, as torch.randn gives other first numbers for other sizes and devices
    streams = stream if isinstance(stream, tuple) else (stream,)
    return np.random.default_rng([seed, *streams])
