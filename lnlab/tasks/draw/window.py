"""A window of N x N Gaussian filters on a picture: where DRAW looks, and where it writes."""

from typing import NamedTuple

import torch
from torch import Tensor

PARAMETERS = 5
"""The numbers that make a window."""


class Window(NamedTuple):
    """Windows on B pictures, in pixels counted from 1: Gregor et al. (2015), eq. 19-24.

    Attributes:
        x, y: g_X and g_Y, the middle of the grid, each (B,).
        stride: delta, from one filter to the next (B,).
        variance: sigma squared, of each filter (B,).
        intensity: gamma (B,).
    """

    x: Tensor
    y: Tensor
    stride: Tensor
    variance: Tensor
    intensity: Tensor


def window(raw: Tensor, shape: tuple[int, int], count: int) -> Window:
    """The windows of ``count`` x ``count`` filters that a decoder asks for.

    Of zeros it is the whole picture, looked at with a variance of 1.

    Args:
        raw: what is linear in h_dec (B, 5): g_X, g_Y, log of sigma squared, of delta, of gamma.
        shape: height and width of the pictures.
        count: N, of filters along a side.
    """
    height, width = shape
    x, y, variance, stride, intensity = raw.unbind(-1)
    return Window(
        (width + 1) / 2 * (x + 1),
        (height + 1) / 2 * (y + 1),
        (max(shape) - 1) / max(1, count - 1) * stride.exp(),
        variance.exp(),
        intensity.exp(),
    )


def filters(
    middle: Tensor, stride: Tensor, variance: Tensor, count: int, pixels: int, first: float = 1
) -> Tensor:
    r"""F (B, N, pixels): N Gaussians along a side, each row of sum 1; eq. 19, 20, 25 and 26.

    .. math::
        \mu^i = g + (i - N/2 - 0.5)\, \delta, \qquad
        F[i, a] = \frac{1}{Z_i} \exp\left(-\frac{(a - \mu^i)^2}{2 \sigma^2}\right)

    Args:
        middle, stride, variance: g, delta and sigma squared, each (B,).
        count: N.
        pixels: how many there are, a = 1 to ``pixels``.
        first: the first i, 1. Counted from 0, with the same formula, the grid stands one
            stride beside its middle.
    """
    like = {"device": middle.device, "dtype": middle.dtype}
    i = torch.arange(count, **like) + first
    mu = middle[..., None] + (i - count / 2 - 0.5) * stride[..., None]
    a = torch.arange(1, pixels + 1, **like)
    narrow = (-2 * variance[..., None, None]).reciprocal()
    # Z makes it a softmax, which has no row of zeros even where a filter stands outside
    return ((a - mu[..., None]).square() * narrow).softmax(-1)
