"""The start of the playground in Python: its random numbers, examples, batches, networks.

They are the same numbers as in engine.js. With them the lines that the playground copies
(template.py) repeat a run with the modules of lnlab and the optimizers of torch.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import lnlab.nn
from lnlab.live.examples import Uniform, digits, points


def examples(dataset: str) -> tuple[Tensor, Tensor]:
    """Return what the playground trains on: inputs (N, D) in float64, labels (N,).

    A point of the plane has three inputs, x, y and 1: with x and y alone, layer norm could not
    see how far from the middle it is.
    """
    if dataset == "digits":
        rows = [digits()[i : i + 65] for i in range(0, 65 * 500, 65)]
        x = np.array([[ord(pixel) - ord("A") for pixel in row[1:]] for row in rows]) / 16
        return torch.from_numpy(x), torch.tensor([int(row[0]) for row in rows])
    x = torch.tensor([[*point, 1.0] for point in points()[dataset][:300]], dtype=torch.float64)
    return x, torch.arange(300) % 2


class BatchOrder:
    """Batches without replacement, of any size each time; an epoch's rest is dropped."""

    def __init__(self, n: int, seed: int) -> None:
        self.uniform, self.n = Uniform(2000 + seed), n
        self.order, self.next = self.uniform.permutation(n), 0

    def take(self, size: int) -> list[int]:
        """Return the indices of the next ``size`` examples."""
        if self.next + size > self.n:
            self.order, self.next = self.uniform.permutation(self.n), 0
        self.next += size
        return self.order[self.next - size : self.next]


def network(state: dict[str, Any], norm: str, seed: int) -> nn.Sequential:
    """Return a network with its first weights: for each hidden layer W x, normalized, then f.

    Args:
        state: the settings of the playground (state.json).
        norm: the name of the normalizer.
        seed: of the weights, which are the same with every normalizer.
    """
    inputs, classes = (64, 10) if state["dataset"] == "digits" else (3, 2)
    widths = [inputs] + [state["units"]] * state["depth"] + [classes]
    factories = [lnlab.nn.named(norm)] * state["depth"] + [lnlab.nn.Identity]
    uniform, modules = Uniform(1000 + seed), []
    for (D, H), factory in zip(pairwise(widths), factories, strict=True):
        layer = lnlab.nn.Linear(
            D, H, factory, bias_inside=factory is lnlab.nn.Identity
        ).double()
        bound = D**-0.5
        with torch.no_grad():
            layer.W.copy_(torch.tensor([bound * (2 * uniform() - 1) for _ in range(H * D)],
                                       dtype=torch.float64).view(H, D))  # fmt: skip
            layer.norm.start(layer.W)
        modules += [layer, {"tanh": nn.Tanh, "relu": nn.ReLU}[state["activation"]]()]
    return nn.Sequential(*modules[:-1])
