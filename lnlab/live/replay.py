"""The examples, batches and networks of engine.js, with which template.py repeats a run."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.live.examples import (
    UniformGenerator,
    digits_as_labels_and_letters,
    points_by_dataset,
)
from lnlab.nn import Identity, Linear, norm_by_name


def training_examples(dataset: str) -> tuple[Tensor, Tensor]:
    """Return what is trained on: inputs (N, D) in float64 (x, y, 1 of a point), labels (N,)."""
    if dataset == "digits":
        rows = [digits_as_labels_and_letters()[i : i + 65] for i in range(0, 65 * 500, 65)]
        pixels = [[ord(pixel) - ord("A") for pixel in row[1:]] for row in rows]
        x = torch.tensor(pixels, dtype=torch.float64) / 16
        return x, torch.tensor([int(row[0]) for row in rows])
    points = points_by_dataset()[dataset][:300]
    x = torch.tensor([[*point, 1.0] for point in points], dtype=torch.float64)
    return x, torch.arange(300) % 2


class BatchIndexSampler:
    """Batches without replacement, of any size each time; an epoch's rest is dropped."""

    def __init__(self, n: int, seed: int) -> None:
        self.uniform, self.n = UniformGenerator(2000 + seed), n
        self.order, self.next = self.uniform.permutation(n), 0

    def next_batch(self, size: int) -> list[int]:
        """Return the indices of the next ``size`` examples."""
        if self.next + size > self.n:
            self.order, self.next = self.uniform.permutation(self.n), 0
        self.next += size
        return self.order[self.next - size : self.next]


def initial_network(settings: dict[str, Any], norm: str, seed: int) -> nn.Sequential:
    """Return a network with its first weights, which are the same with every normalizer."""
    inputs, classes = (64, 10) if settings["dataset"] == "digits" else (3, 2)
    widths = [inputs] + [settings["units"]] * settings["depth"] + [classes]
    factories = [norm_by_name(norm)] * settings["depth"] + [Identity]
    uniform, modules = UniformGenerator(1000 + seed), []
    for (D, H), factory in zip(pairwise(widths), factories, strict=True):
        layer = Linear(D, H, factory, bias=factory is Identity).double()
        first = [D**-0.5 * (2 * uniform() - 1) for _ in range(H * D)]
        with torch.no_grad():
            layer.W.copy_(torch.tensor(first, dtype=torch.float64).view(H, D))
            layer.norm.initialize_from_weights(layer.W)
        modules += [layer, {"tanh": nn.Tanh, "relu": nn.ReLU}[settings["activation"]]()]
    return nn.Sequential(*modules[:-1])
