"""Gradients by depth, and the first step of Adam: a pure function of the panel's state."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.nn import NORMS
from lnlab.panels.transformer.state import TransformerState
from lnlab.tasks.transformer.inside import objective
from lnlab.tasks.transformer.net import Placed, Transformer
from lnlab.training import cross_entropy, stack
from lnlab.training.random_state import default_dtype, generator

DRAWS, CASES, CONTEXT, WIDTH, HEADS = 3, 8, 16, 16, 2
STEPS = np.logspace(-4, -0.5, 11)
"""Sizes of a first step."""


class Start(NamedTuple):
    """Several draws of one net side by side, before the first update.

    Attributes:
        loss: of all of them, a mean.
        w: their parameters by name, each with an axis of draws.
        g: the gradient of the loss of each.
        x, y: the cases, the same for all.
    """

    loss: Objective
    w: dict[str, Tensor]
    g: dict[str, Tensor]
    x: Tensor
    y: Tensor


@lru_cache(maxsize=100)
def start(place: str, kind: str, depth: int) -> Start:
    """The nets of a place, a kind and a depth; the same draws whatever is set."""
    text = load("embedded", "text", context=CONTEXT)
    size = len(text.vocabulary), CONTEXT, depth, WIDTH, HEADS
    with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
        nets = [Transformer(*size, Placed(place, NORMS[kind])) for _ in range(DRAWS)]
        for draw, net in enumerate(nets):
            net.draw(lambda name, draw=draw: generator(f"{name} of draw {draw}"))
    x, y = (v[:CASES].expand(DRAWS, CASES, CONTEXT) for v in (text.train.x, text.train.y))
    loss = objective(stack(nets), x, y)
    slope = DRAWS * loss.gradient()[1]  # of the sum, so that each has its own
    return Start(loss, loss.split(loss.start), loss.split(slope), x, y)


@lru_cache(maxsize=100)
def profile(place: str, kind: str, depth: int) -> np.ndarray:
    """||dL/dW_2|| of each layer, bottom first (draws, L)."""
    g = start(place, kind, depth).g
    norms = [g[name].norm(dim=(-2, -1)) for name in g if name.endswith("W_2.W")]
    return torch.stack(norms, dim=1).numpy()


@lru_cache(maxsize=100)
def first_steps(place: str, kind: str, depth: int) -> np.ndarray:
    """The loss behind a first step of Adam of each size, in nats (draws, K).

    Adam's first step moves every parameter by the learning rate, whatever its gradient:
    w - eta sign(g).
    """
    here = start(place, kind, depth)
    losses = []
    for eta in STEPS:
        moved = {name: w - eta * here.g[name].sign() for name, w in here.w.items()}
        logits = functional_call(here.loss.module, moved, (here.x,))
        losses.append(cross_entropy(logits.flatten(1, 2), here.y.flatten(1)))
    return torch.stack(losses, dim=1).detach().numpy()


def stepped(state: TransformerState) -> dict[str, np.ndarray]:
    """:func:`first_steps` at each of the state's places."""
    return {place: first_steps(place, state.kind, state.depth) for place in state.places}


class TransformerMeasurement(NamedTuple):
    """The numbers that one move of a slider shows; the first steps follow once it rests.

    Attributes:
        profiles: by place the gradients (draws, L).
    """

    profiles: dict[str, np.ndarray]


def measure(state: TransformerState) -> TransformerMeasurement:
    """The gradients of a state; the one way into this room for a slider."""
    return TransformerMeasurement(
        {p: profile(p, state.kind, state.depth) for p in state.places}
    )
