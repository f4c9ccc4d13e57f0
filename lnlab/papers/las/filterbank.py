"""Features of sound for a recognizer: log-mel energies and how they change.

The settings are those of the published code of Ben Othman (2018): 40 filters and the energy,
with first and second differences, 123 numbers for every 10 ms.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

WINDOW, HOP = 0.025, 0.010
"""Seconds that a frame covers, and from one frame to the next."""
FILTERS = 40
EMPHASIS = 0.97
LOWEST = 20.0
"""Hz, where the first filter begins; the last ends at half the rate."""
MIN_ENERGY = 1e-10
SPAN = 2
"""Frames on each side from which a difference is taken."""


def features(sound: np.ndarray, rate: int) -> Tensor:
    """Return log-mel energies, the log energy, and their differences, normalized.

    Args:
        sound: samples (N,) between -1 and 1, at least one window long.
        rate: samples a second.

    Returns:
        (T, 123): T = :func:`count_frames`; each column has mean 0 and variance 1 over the
        utterance, or is 0 if it never changes.

    Raises:
        ValueError: if the sound is shorter than a window.
    """
    return normalize(add_differences(log_mel(sound, rate)))


def count_frames(samples: int, rate: int) -> int:
    """Return the number T of frames of :func:`features`; below 1 for too few samples."""
    return 1 + (samples - round(WINDOW * rate)) // round(HOP * rate)


def add_differences(frames: Tensor) -> Tensor:
    """Return (T, D) with first and second differences: (T, 3 D)."""
    first = differences(frames)
    return torch.cat([frames, first, differences(first)], dim=1)


def normalize(frames: Tensor) -> Tensor:
    """Return (T, D) with mean 0 and variance 1 in each column, in float32."""
    spread, mean = torch.std_mean(frames, dim=0, correction=0)
    return ((frames - mean) / spread.clamp(min=1e-5)).float()


def log_mel(sound: np.ndarray, rate: int) -> Tensor:
    """Return (T, 41): the log of the energy in each mel filter, and of all, in nats.

    Raises:
        ValueError: if the sound is shorter than one window.
    """
    window, hop = round(WINDOW * rate), round(HOP * rate)
    if len(sound) < window:
        raise ValueError(
            f"{len(sound)} samples at {rate} Hz are less than one window of {window}."
        )
    x = torch.from_numpy(np.ascontiguousarray(sound, np.float64))
    x = torch.cat([x[:1], x[1:] - EMPHASIS * x[:-1]])
    frames = x.unfold(0, window, hop)  # (T, window)
    size = 1 << (window - 1).bit_length()
    taper = torch.hamming_window(window, periodic=False, dtype=x.dtype)
    power = torch.fft.rfft(frames * taper, size).abs().square()
    energy = frames.square().sum(1, keepdim=True)
    return (
        torch.cat([power @ mel_filters(rate, size).T, energy], dim=1)
        .clamp(min=MIN_ENERGY)
        .log()
    )


def mel_filters(rate: int, size: int) -> Tensor:
    """Return triangles in mel, m = 1127 ln(1 + f/700), over the bins of a spectrum.

    (40, size // 2 + 1); each reaches from the centre of the one before to that of the next.
    """

    def mel(f: Tensor) -> Tensor:
        return 1127 * torch.log1p(f / 700)

    ends = mel(torch.tensor([LOWEST, rate / 2], dtype=torch.float64))
    edges = torch.linspace(float(ends[0]), float(ends[1]), FILTERS + 2, dtype=torch.float64)
    bins = mel(torch.arange(size // 2 + 1, dtype=torch.float64) * rate / size)
    low, centre, high = (edges[k : k + FILTERS, None] for k in range(3))
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return torch.minimum(rising, falling).clamp(min=0)


def differences(frames: Tensor) -> Tensor:
    """Return the slope of each column (T, D) through :data:`SPAN` frames on both sides."""
    T = len(frames)
    padded = F.pad(frames.T[None], (SPAN, SPAN), mode="replicate")[0].T
    slope = torch.zeros_like(frames)
    for k in range(1, SPAN + 1):
        slope += k * (padded[SPAN + k : SPAN + k + T] - padded[SPAN - k : SPAN - k + T])
    return slope / (2 * sum(k * k for k in range(1, SPAN + 1)))
