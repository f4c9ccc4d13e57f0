"""A small experiment with all that could go wrong: running statistics, dropout and noise."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lnlab.training import Evaluation, Experiment, cross_entropy_per_model, evaluate


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
        split = SimpleNamespace(x=x, y=(x[:, 0] > 0).long())
        about = {"name": "made", "kind": "synthetic", "licence": "none", "checksum": "c0"}
        return SimpleNamespace(train=split, **about)

    def model(self, seed, dataset):
        return nn.Sequential(
            nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 2)
        )

    def loss(self, output, y):
        return cross_entropy_per_model(output, y)

    def optimizer(self, parameters):
        return torch.optim.Adam(parameters, lr=self.learning_rate)

    def full_evaluation_updates(self, updates_per_epoch):
        return {0, 1, updates_per_epoch}

    def evaluate(self, model, dataset, evaluation=Evaluation.FINAL):
        metrics = evaluate(model, dataset.train.x, dataset.train.y, self.loss)
        return {"train_nll": metrics["nll"], "train_error": metrics["error"]}


def random_numbers():
    """Return numbers of torch's global generator, of two distributions."""
    return [draw((), dtype=torch.float64).item() for draw in (torch.randn, torch.rand)]


@dataclass(frozen=True)
class Noisy(Tiny):
    """One whose steps depend on the global generator, besides its dropout."""

    def loss(self, output, y):
        return super().loss(output, y) * (5 + sum(random_numbers()))


@pytest.fixture
def tiny():
    """The small experiment, with changes: ``tiny(epochs=1)``."""
    return lambda **changes: replace(Tiny(), **changes)
