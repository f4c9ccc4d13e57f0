"""The normalizers that Ziaee & Çano (2022) compare, as their code has them, and controls."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from lnlab.nn import (
    CODE,
    PAPER,
    BatchLayerNorm,
    BatchNorm,
    Copies,
    LayerNorm,
    Norm,
    Normalizer,
    Reading,
)
from lnlab.nn.batch import move

KERAS = 1e-3
"""The eps of all normalizers of Keras, and of the published layer."""

READINGS: dict[str, Reading] = {"code": CODE, "paper": PAPER}


@dataclass(frozen=True)
class Around:
    """The part of a training that its normalizers have to know.

    Attributes:
        m: the size of every batch.
        epoch: the number of batches in an epoch.
        reading: of batch layer normalization.
    """

    m: int
    epoch: int
    reading: Reading


class KerasBatchNorm(BatchNorm):
    """Batch normalization as Keras has it: momentum 0.99 and eps 0.001, a biased variance.

    Of a single value the variance is 0 and is remembered too, so that with one case in the
    batch evaluation divides by nearly nothing.
    """

    def __init__(self, units: int, **settings) -> None:
        super().__init__(units, eps=KERAS, momentum=0.01, **settings)

    def remember(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        move(self.running_mean, mu, self.momentum)
        move(self.running_var, var, self.momentum)


def small_gain(units: int, **settings) -> Normalizer:
    """Layer normalization whose gain is 1/sqrt(d) at the start: the size of eq. 16."""
    norm = layer(units, **settings)
    assert norm.g is not None
    nn.init.constant_(norm.g, units**-0.5)
    return norm


layer = partial(LayerNorm, eps=KERAS, per_position=True)


def mixture(copies: Copies, root_d: bool) -> Callable[[Around], Norm]:
    """Eq. 16, or a part of it alone, with or without the root of d."""
    return lambda around: partial(
        BatchLayerNorm, m=around.m, epoch=around.epoch, reading=around.reading,
        copies=copies, root_d=root_d,
    )  # fmt: skip


ARMS: dict[str, Callable[[Around], Norm]] = {
    "batch": lambda around: KerasBatchNorm,
    "layer": lambda around: layer,
    "batch layer": mixture("both", True),
    "layer, small gain": lambda around: small_gain,
    "batch, axis 0": mixture("cases", False),
    "batch, axis 0, small": mixture("cases", True),
    "batch layer, full size": mixture("both", False),
}
"""Three as published. Then controls: the size of eq. 16 without its mixture; statistics of
every position by itself, which "batch" does not have, in either size; the mixture in full
size."""


def settled(net: nn.Module, x: Tensor) -> nn.Module:
    """``net`` whose population statistics have the shapes that batches like ``x`` give them,
    and nothing in them."""
    mixtures = mixtures_of(net)
    if mixtures:
        with torch.no_grad():
            net.train()(x)
        for norm in mixtures:
            norm.begin()
    return net


def mixtures_of(net: nn.Module) -> list[BatchLayerNorm]:
    """The normalizers of a net that have configurations to choose from."""
    return [part for part in net.modules() if isinstance(part, BatchLayerNorm)]
