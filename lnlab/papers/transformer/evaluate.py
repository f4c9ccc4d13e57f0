"""Measurements inside a transformer: gradients by depth, and its residual stream."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.norm_gradients import gradient_norms
from lnlab.analysis.objective import Objective
from lnlab.papers.transformer.model import Transformer


def nll(output: Tensor, y: Tensor) -> Tensor:
    """The negative log likelihood in nats a character: logits (B, T, V), y (B, T)."""
    return F.cross_entropy(output.flatten(0, -2), y.flatten())


def objective(net: nn.Module, x: Tensor, y: Tensor) -> Objective:
    """L(w) of a single net on cases x, y (B, T), in float64."""
    return Objective(net, x, y, nll, bn_stats="running", dtype=torch.float64)


def profile(loss: Objective) -> list[float]:
    """||dL/dW_2|| of every layer from bottom to top (Xiong et al., 2020, theorem 1)."""
    found = gradient_norms(loss)
    return [g for name, g in found.items() if name.endswith("feed_forward.f.W_2.W")]


@torch.no_grad()
def streams(net: Transformer, x: Tensor) -> list[Tensor]:
    """The residual stream of a single net on x (B, T): what goes into its first block, and
    what each block puts out, each (B T, D)."""
    seen: list[Tensor] = []
    with _hearing([net.embedding, *net.blocks], seen):
        net(x)
    return seen


def largest(stream: Tensor) -> float:
    """The greatest size of an activation as a multiple of the median size (Sun et al., 2024).

    They call activations massive that are above 100 and above 1,000 times the median.
    """
    sizes = stream.abs()
    return float(sizes.max() / sizes.median())


def along_ones(stream: Tensor) -> float:
    """The part of the squared length of a stream (N, D) that lies along (1, ..., 1): what
    layer norm takes away before it scales. Of a random direction it is 1/D."""
    along = stream.mean(1).square() * stream.shape[1]
    return float(along.sum() / stream.square().sum())


@contextmanager
def _hearing(parts: list[nn.Module], into: list[Tensor]) -> Iterator[None]:
    def hear(part: nn.Module, inputs: tuple, output: Tensor) -> None:
        into.append(output)

    hooks = [part.register_forward_hook(hear) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
