"""Measurements inside a transformer: gradients by depth, and its residual stream."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.norm_gradients import gradient_norms
from lnlab.analysis.objective import Objective
from lnlab.papers.transformer.model import TransformerLanguageModel


def mean_nll_over_characters(logits: Tensor, y: Tensor) -> Tensor:
    """Return the NLL in nats per character of logits (B, T, V) and characters y (B, T)."""
    return F.cross_entropy(logits.flatten(0, -2), y.flatten())


def nll_objective(net: nn.Module, x: Tensor, y: Tensor) -> Objective:
    """Return the loss of one network on examples x, y (B, T), in float64."""
    return Objective(
        net, x, y, mean_nll_over_characters, bn_stats="running", dtype=torch.float64
    )


def W_2_gradient_norm_per_layer(loss: Objective) -> list[float]:
    """Return ||dL/dW_2|| of each layer from bottom to top (Xiong et al., 2020, theorem 1)."""
    norms = gradient_norms(loss)
    return [g for name, g in norms.items() if name.endswith("feed_forward.f.W_2.W")]


@torch.no_grad()
def embedding_and_block_outputs(net: TransformerLanguageModel, x: Tensor) -> list[Tensor]:
    """Return the inputs of the first block and the outputs of each block, each (B T, D)."""
    streams: list[Tensor] = []

    def append_output(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        streams.append(output)

    hooks = [
        module.register_forward_hook(append_output) for module in (net.embedding, *net.blocks)
    ]
    try:
        net(x)
    finally:
        for hook in hooks:
            hook.remove()
    return streams


def stream_variances_and_W_2_gradient_norms(
    net: TransformerLanguageModel, x: Tensor, y: Tensor
) -> tuple[list[float], list[float]]:
    """Return the variance of the stream before and after each block, and ||dL/dW_2|| by layer.

    The variance is that over the units of a position, a mean over positions.

    Args:
        net: One network.
        x, y: Characters and the next ones (B, T).
    """
    weights = [block.feed_forward.f.W_2.W for block in net.blocks]
    gradients = torch.autograd.grad(mean_nll_over_characters(net(x), y), weights)
    variances = [h.var(1, correction=0).mean() for h in embedding_and_block_outputs(net, x)]
    return [float(v) for v in variances], [float(g.norm()) for g in gradients]


def largest_over_median_activation(stream: Tensor) -> float:
    """Return the largest |activation| as a multiple of the median (Sun et al., 2024).

    They call activations massive that are above 100 and above 1,000 times the median.
    """
    sizes = stream.abs()
    return float(sizes.max() / sizes.median())


def squared_norm_fraction_along_ones(stream: Tensor) -> float:
    """Return the fraction of the squared length of a stream (N, D) along (1, ..., 1).

    Layer norm removes it before it scales. Of a random direction it is 1/D.
    """
    along = stream.mean(1).square() * stream.shape[1]
    return float(along.sum() / stream.square().sum())
