"""The start of the playground in Python: its random numbers, examples, batches, networks.

They are the same numbers as in engine.js. With them the lines that the playground copies
(template.py) repeat a run with the modules of lnlab and the optimizers of torch.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lnlab import norms
from lnlab.live.bundle import digits


class Uniform:
    """Uniform numbers from a seed: mulberry32."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def __call__(self) -> float:
        """Return the next number, from 0 up to but not including 1, in steps of 2^-32."""
        mask = 0xFFFFFFFF
        self.state = (self.state + 0x6D2B79F5) & mask
        t = self.state
        t = (t ^ (t >> 15)) * (t | 1) & mask
        t ^= (t + ((t ^ (t >> 7)) * (t | 61))) & mask
        return (t ^ (t >> 14)) / 2**32

    def permutation(self, n: int) -> list[int]:
        """Return 0, ..., n - 1 in random order (Fisher and Yates)."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = int(self() * (i + 1))
            order[i], order[j] = order[j], order[i]
        return order


def spirals(label: int, uniform: Uniform) -> tuple[float, float]:
    """Return a point on one of two spirals."""
    r = uniform()
    angle = 1.25 * 2 * math.pi * r + label * math.pi
    x, y = r * math.sin(angle), r * math.cos(angle)
    return x + 0.06 * (2 * uniform() - 1), y + 0.06 * (2 * uniform() - 1)


def circles(label: int, uniform: Uniform) -> tuple[float, float]:
    """Return a point in a disc, or in the ring around it."""
    r = 0.7 + 0.3 * uniform() if label else 0.5 * uniform()
    angle = 2 * math.pi * uniform()
    return r * math.sin(angle), r * math.cos(angle)


def xor(label: int, uniform: Uniform) -> tuple[float, float]:
    """Return a point whose coordinates have the same sign (label 0) or not (label 1)."""
    x, y = 0.05 + 0.95 * uniform(), 0.05 + 0.95 * uniform()
    side = -1 if uniform() < 0.5 else 1
    return side * x, (-side if label else side) * y


POINTS = {"spirals": spirals, "circles": circles, "xor": xor}


def examples(dataset: str) -> tuple[Tensor, Tensor]:
    """Return what the playground trains on: inputs (N, D) in float64, labels (N,).

    A point of the plane has three inputs, x, y and 1: with x and y alone, layer norm could not
    see how far from the middle it is.
    """
    if dataset == "digits":
        rows = [digits()[i : i + 65] for i in range(0, 65 * 500, 65)]
        x = np.array([[ord(pixel) - ord("A") for pixel in row[1:]] for row in rows]) / 16
        return torch.from_numpy(x), torch.tensor([int(row[0]) for row in rows])
    uniform, labels = Uniform(2016), [i % 2 for i in range(400)]
    points = np.array([POINTS[dataset](label, uniform) for label in labels])
    # rounded: sin and cos differ in the last digit between browsers and Python
    points = np.c_[np.floor(points * 1e6 + 0.5) / 1e6, np.ones(len(points))]
    return torch.from_numpy(points[:300]), torch.tensor(labels[:300])


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
    factories = [norms.named(norm)] * state["depth"] + [norms.Identity]
    uniform, modules = Uniform(1000 + seed), []
    for (D, H), factory in zip(pairwise(widths), factories, strict=True):
        layer = norms.Linear(D, H, factory, bias_inside=factory is norms.Identity).double()
        bound = D**-0.5
        with torch.no_grad():
            layer.W.copy_(torch.tensor([bound * (2 * uniform() - 1) for _ in range(H * D)],
                                       dtype=torch.float64).view(H, D))  # fmt: skip
            layer.norm.start(layer.W)
        modules += [layer, {"tanh": nn.Tanh, "relu": nn.ReLU}[state["activation"]]()]
    return nn.Sequential(*modules[:-1])
