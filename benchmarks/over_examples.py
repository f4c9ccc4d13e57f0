"""A training step of an LSTM with recurrent batch norm beside one with layer norm.

A step is zero gradients, forward, and backward to weights and inputs; one thread. Ragged: half
of the sequences are shorter, down to a fifth. Contenders take turns, every other round in the
reverse order, on the clock of the processor; the median and the quartiles of the ratios within
a round are shown.
"""

import os
from functools import partial
from json import dumps
from typing import Any

import torch
from torch import Tensor

from benchmarks.recurrent import step
from benchmarks.thoughts import summary, table, timed
from lnlab.kernels import fuse
from lnlab.nn import LayerNorm, RecurrentBatchNorm
from lnlab.nn.recurrent import LSTM
from lnlab.training.runs import device_name

SIZES = ((100, 32, 64, 128), (50, 32, 128, 128), (100, 32, 256, 256))
"""T, B, inputs, H; the first is the reader's."""


def main(json: bool) -> None:
    """Print the ratios, as a table or as JSON."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "device": device_name(torch.device("cpu")), "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    for size in SIZES:
        for name, n in (("all of one length", None), ("ragged", ragged(*size[:2]))):
            found[f"batch / layer, T, B, inputs, H = {size}, {name}"] = ratio(size, n)
    found["load at the end"] = round(os.getloadavg()[0], 1)
    print(dumps(found, indent=1) if json else table(found))


def ragged(T: int, B: int) -> Tensor:
    """Lengths (B,): half are T, the others evenly from T / 5 on."""
    return torch.cat([torch.full((B - B // 2,), T), torch.linspace(T / 5, T, B // 2).long()])


def ratio(size: tuple[int, ...], lengths: Tensor | None) -> dict[str, Any]:
    """The time of a step with batch norm over that of one with layer norm."""
    T, B, inputs, H = size
    x, dy = torch.randn(T, B, inputs, requires_grad=True), torch.randn(T, B, H)
    norms = {"batch": partial(RecurrentBatchNorm, steps=T), "layer": LayerNorm}
    layers = {
        name: Ragged(fuse(LSTM(inputs, H, norm_layer=norm)), lengths)
        for name, norm in norms.items()
    }
    return summary(timed({name: step(layer, x, dy, True) for name, layer in layers.items()}))


class Ragged(torch.nn.Module):
    """A layer that is called with the same lengths each time."""

    def __init__(self, layer: LSTM, lengths: Tensor | None) -> None:
        super().__init__()
        self.layer, self.lengths = layer, lengths

    def forward(self, x: Tensor) -> Any:
        """(y, last state) of x (T, B, D)."""
        return self.layer(x, lengths=self.lengths)
