"""A training that is looked at is the training that nobody looks at."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.smoothness import along_training, smoothness, steps
from lnlab.nn.table1 import Statistics


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def batches(count=7):
    torch.manual_seed(1)
    return [(torch.randn(20, 4), torch.randint(3, (20,))) for _ in range(count)]


def trained(module) -> Any:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return along_training(module, batches(), F.cross_entropy, optimizer, every=3)


def test_looking_changes_nothing():
    plain, seen = net(), net()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(plain(x), y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    found = []
    for update, objective in trained(seen):
        found.append((update, objective.value()))
        smoothness(objective, steps(0.1))
    assert found == [(update, pytest.approx(losses[update])) for update in (0, 3, 6)]
    for name, tensor in plain.state_dict().items():
        assert torch.equal(seen.state_dict()[name], tensor), name


def test_whoever_stops_asking_has_stopped_the_training():
    module = net()
    start = module[0].weight.detach().clone()
    moments = trained(module)
    next(moments)
    assert torch.equal(module[0].weight, start)
    next(moments)
    moved = module[0].weight.detach().clone()
    moments.close()
    assert torch.equal(module[0].weight, moved)
    assert not torch.equal(moved, start)


def test_the_objective_has_the_statistics_that_are_asked_for():
    module = net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    given = {"every": 3, "statistics": Statistics.FROZEN}
    for _, objective in along_training(module, batches(), F.cross_entropy, optimizer, **given):
        assert objective.statistics is Statistics.FROZEN
        assert module.training


def test_every_is_at_least_one():
    optimizer = torch.optim.SGD(net().parameters(), lr=0.1)
    with pytest.raises(ValueError, match="give 1 or more"):
        next(along_training(net(), batches(), F.cross_entropy, optimizer, every=0))
