"""What panels of trained nets are shown: nets that were hardly trained."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from lnlab.analysis.recorder import record
from lnlab.papers import las
from lnlab.training import train_steps
from lnlab.training.runs import read

SMALL = las.Experiment.budget("smoke", train_size=24, epochs=2)


@pytest.fixture(scope="session")
def recognizers(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for norm in ("none", "both"):
        for _ in train_steps(replace(SMALL, norm=norm), root=root):
            pass
    return {run.config["norm"]: run for run in read(root, "las")}, SMALL.dataset().test


def grown(depth, scale):
    """A recorded net of linear layers that multiply by ``scale``, and that learns."""
    net: Any = nn.Sequential(*(nn.Linear(5, 5, bias=False).double() for _ in range(depth)))
    with torch.no_grad():
        for layer in net:
            layer.weight.copy_(scale * torch.eye(5, dtype=torch.float64))
    x = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(8, 5)
    with record(net, what=["activations", "gradients"], every=2) as seen:
        for _ in range(6):
            net(x).square().mean().backward()
            with torch.no_grad():
                net[0].weight.mul_(2.0)
    return seen.to_frame()


@pytest.fixture(scope="session")
def frames():
    return {
        "shallow": {"none": grown(2, 1.0), "layer": grown(2, 0.5)},
        "deep": {"none": grown(12, 1.0), "layer": grown(12, 0.5)},
    }
