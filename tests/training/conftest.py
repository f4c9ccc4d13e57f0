"""A task that is small and has all that could go wrong: running statistics and noise."""

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from lnlab.training import Evaluation, Experiment, cross_entropy, evaluate


@dataclass(frozen=True)
class Tiny(Experiment):
    seeds: tuple[int, ...] = (3, 4)
    epochs: int = 3
    batch_size: int = 4
    learning_rate: float = 1e-2

    name = "tiny"
    lower_is_better = ("train_nll", "train_error")

    @classmethod
    def budgets(cls):
        return {"smoke": cls()}

    def dataset(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(30, 6, generator=generator, dtype=torch.float32)
        y = (x[:, 0] > 0).long()
        split = SimpleNamespace(x=x, y=y)
        about = {"name": "made", "kind": "synthetic", "licence": "none", "checksum": "c0"}
        return SimpleNamespace(train=split, **about)

    def model(self, seed, dataset):
        return nn.Sequential(
            nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 2)
        )

    def loss(self, output, y):
        return cross_entropy(output, y)

    def optimizer(self, parameters):
        return torch.optim.Adam(parameters, lr=self.learning_rate)

    def eval_points(self, updates_per_epoch):
        return {0, 1, updates_per_epoch}

    def evaluate(self, model, dataset, evaluation=Evaluation.FINAL):
        found = evaluate(model, dataset.train.x, dataset.train.y, self.loss)
        return {"train_nll": found["nll"], "train_error": found["error"]}


DRAWS = {
    "torch": lambda: torch.randn((), dtype=torch.float64).item(),
    "numpy": lambda: np.random.normal(),  # noqa: NPY002
    "Python": lambda: random.gauss(),
}
"""A number of each global generator; two of the three draw them in pairs."""


@dataclass(frozen=True)
class Drawing(Tiny):
    """One whose steps depend on the global generators, besides its dropout."""

    draws: tuple[str, ...] = tuple(DRAWS)

    def loss(self, output, y):
        return super().loss(output, y) * (5 + sum(DRAWS[name]() for name in self.draws))


@pytest.fixture
def drawing():
    """The small task that draws: ``drawing(draws=("torch",))``."""
    return lambda **changes: replace(Drawing(), **changes)


@pytest.fixture
def draw():
    """A number of a global generator: ``draw("numpy")``."""
    return lambda name: DRAWS[name]()


@pytest.fixture
def tiny():
    """The small task, with changes: ``tiny(epochs=1)``."""
    return lambda **changes: replace(Tiny(), **changes)
