"""Small modules that several tests of analyses share."""

import torch
from torch import nn

import lnlab.nn
from lnlab.analysis.objective import Objective


class Parameters(nn.Module):
    """Returns its parameters w, so that a loss of it is any function of w."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(w)

    def forward(self, x):
        return self.w


def loss_of_w(loss_fn, w):
    """The objective whose loss at w is ``loss_fn(w, None)``."""
    return Objective(Parameters(w), torch.ones(2), None, loss_fn)


def three_layers(norm=lnlab.nn.LayerNorm, D=5, H=6, classes=3):
    """Two normalized layers and logits, of lnlab.nn: "0.W", "2.W" and "4.W"."""
    return nn.Sequential(
        lnlab.nn.Linear(D, H, norm), nn.Tanh(), lnlab.nn.Linear(H, H, norm), nn.Tanh(),
        lnlab.nn.Linear(H, classes, bias=True),
    )  # fmt: skip


class Checkpointed(nn.Module):
    """A module of which ``run`` runs a part, several times: plainly, or as a checkpoint."""

    def __init__(self, calls=1):
        super().__init__()
        self.first, self.part = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.calls, self.run = calls, lambda part, x: part(x)

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.calls):
            x = self.run(self.part, x)
        return x
