"""The shift and the smoothness of a perceptron at one moment: what a small step would do to it.

The step is the same for every net and arm: gradient descent of :data:`STEP` on always the same
cases, tried and not taken. Statistics over cases are those of these cases, as in training.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.norms.invariances import Statistics
from lnlab.probes.loss.objective import Objective
from lnlab.probes.loss.smoothness import smoothness, steps
from lnlab.probes.training.covariate_shift import covariate_shift

CASES = 500
"""The number of training cases, the first ones, that are looked at."""
STEP = 0.1


def moved(net: Any, x: Tensor, y: Tensor) -> dict[str, float]:
    """The change that a step makes, in float64; all NaN where the loss is not finite.

    Args:
        net: of hidden ``layers`` and the logits, the last.
        x: cases (B, D).
        y: their classes (B,).

    Returns:
        ``turn``: 1 - cos(G, G') by Definition 2.1 of Santurkar et al. (2018), a mean over all
        layers but the first, which cannot shift. ``drift``: |mu' - mu| of a unit behind its
        normalizer, over the standard deviation of its layer, a mean over hidden units.
        ``steepness``: the range of the loss along its gradient, eta from 1/2 to 4 times STEP,
        over the loss. ``length``: ||W|| of the hidden layers, their geometric mean.
    """
    with torch.no_grad():
        if not F.cross_entropy(deepcopy(net)(x), y).isfinite():
            return dict.fromkeys(("turn", "drift", "steepness", "length"), float("nan"))
    loss = Objective(
        net, x, y, F.cross_entropy, statistics=Statistics.BATCH, dtype=torch.float64
    )
    along = smoothness(loss, steps(STEP))
    low, high = along.variation
    there = loss.start - STEP * loss.gradient()[1]
    turns = [1 - shift.cosine for shift in covariate_shift(loss, there)[1:]]
    lengths = torch.stack([layer.W.detach().norm() for layer in net.layers[:-1]])
    return {
        "turn": sum(turns) / len(turns),
        "drift": drift(loss, there),
        "steepness": (high - low) / along.loss,
        "length": float(lengths.log().mean().exp()),
    }


def drift(loss: Objective, there: Tensor) -> float:
    """|mu' - mu| / sigma between the parameters of a loss and others (P,), as in :func:`moved`.

    mu of a unit over the cases, sigma of all units of its layer and the cases together.
    """
    before, after = behind_normalizers(loss, loss.start), behind_normalizers(loss, there)
    each = [
        ((h_.mean(0) - h.mean(0)).abs() / h.std()).mean()
        for h, h_ in zip(before, after, strict=True)
    ]
    return float(torch.stack(each).mean())


@torch.no_grad()
def behind_normalizers(loss: Objective, w: Tensor) -> list[Tensor]:
    """The inputs of the nonlinearity of each hidden layer at w (P,): (B, H) each."""
    seen: list[Tensor] = []
    hidden: Any = loss.module.layers
    hooks = [
        layer.register_forward_hook(lambda _, __, h: seen.append(h)) for layer in hidden[:-1]
    ]
    try:
        loss(w)
    finally:
        for hook in hooks:
            hook.remove()
    return seen
