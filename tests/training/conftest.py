"""A task that is small and has all that could go wrong: running statistics and noise."""

from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lnlab.training import cross_entropy, evaluate


@dataclass(frozen=True)
class Tiny:
    seeds: tuple[int, ...] = (3, 4)
    epochs: int = 3
    batch_size: int = 4
    learning_rate: float = 1e-2

    name = "tiny"

    def config(self):
        return asdict(self)

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

    def evaluation_points(self, updates_per_epoch):
        return {0, 1, updates_per_epoch}

    def measure(self, model, dataset):
        found = evaluate(model, dataset.train.x, dataset.train.y, self.loss)
        return {"train_nll": found["nll"], "train_error": found["error"]}


@pytest.fixture
def tiny():
    """The small task, with changes: ``tiny(epochs=1)``."""
    return lambda **changes: replace(Tiny(), **changes)
