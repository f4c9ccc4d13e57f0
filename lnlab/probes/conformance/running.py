"""The memory that a normalizer has of its batches, found out from its outputs alone."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from lnlab.probes.conformance.identify import Box, Divisor, Extent, alike


@dataclass(frozen=True)
class Running:
    """The memory that evaluation has of a training batch.

    Attributes:
        momentum: the weight of the newest batch, 0.1 in torch; None where all batches weigh
            alike; NaN where it follows no such rule.
        variance: what is averaged: "biased variance", "unbiased variance", "biased sigma",
            "unbiased sigma", or "unknown".
    """

    momentum: float | None
    variance: str


@torch.no_grad()
def running(box: Box, x: Tensor, over: Extent, law: Divisor) -> Running | None:
    """The memory of batches like x (B, ...); None where evaluation knows nothing of them.

    Evaluation then is an affine map of each unit, and slope and offset of it give away the
    mean and variance that are remembered.

    Args:
        box: the module in training mode, gains 1 and biases 0.
        x: a batch.
        over: what statistics run over in training.
        law: how they enter.
    """
    module = deepcopy(box.subject.module)
    for name, value in box.weights.items():
        module.get_parameter(name).data = value

    def evaluate(x: Tensor) -> Tensor:
        module.eval()
        return box.subject.read(module(x)).clone()

    if not _elementwise(evaluate, x):
        return None
    seen = [_remembered(evaluate, x, law)]
    batches = (x, 2 * x.flip(0) + 1)
    for batch in batches:
        module.train()
        module(batch)
        seen.append(_remembered(evaluate, x, law))
    return _rule(seen, batches, over)


def _elementwise(evaluate: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """True if each y is an affine function of its own x."""
    # an affine function has no second difference, and one x nudged moves one y
    bend = evaluate(x + 2) - 2 * evaluate(x + 1) + evaluate(x)
    nudged = x.clone()
    nudged[(0,) * x.dim()] += 1
    reached = int((evaluate(nudged) != evaluate(x)).sum())
    return reached == 1 and float(bend.abs().max()) < 1e-9


def _remembered(
    evaluate: Callable[[Tensor], Tensor], like: Tensor, law: Divisor
) -> tuple[Tensor, Tensor]:
    """(mean, variance), each in the shape of x: y = (x - mean) / s(variance)."""
    # y(0) = -mean / s and y(1) - y(0) = 1 / s, then s = var ** power, with eps where it stands
    offset = evaluate(torch.zeros_like(like))
    slope = evaluate(torch.ones_like(like)) - offset
    s = 1 / slope
    if law.place == "outside":
        s = s - law.eps
    var = s ** (1 / law.power)
    return -offset / slope, var - law.eps if law.place == "inside" else var


def _rule(
    seen: list[tuple[Tensor, Tensor]], batches: tuple[Tensor, ...], over: Extent
) -> Running:
    """The momentum from the means, then the estimator from the variances."""
    weights = []
    for (before, _), (after, _), batch in zip(seen, seen[1:], batches, strict=False):
        # after = before + momentum (mean of the batch - before): momentum by least squares
        towards, step = over.mean(batch) - before, after - before
        weight = float((step * towards).mean() / towards.square().mean())
        weights.append(weight if alike(before + weight * towards, after, 1e-6) else torch.nan)
    first, second = weights
    momentum = first if abs(first - second) < 1e-6 else torch.nan
    # a mean of all batches gives the n-th the weight 1/n
    if abs(first - 1) < 1e-6 and abs(second - 0.5) < 1e-6:
        momentum = None
    return Running(momentum, _estimator(seen[0][1], seen[1][1], batches[0], first, over))


def _estimator(
    before: Tensor, after: Tensor, batch: Tensor, weight: float, over: Extent
) -> str:
    """The estimate of the batch's variance that moved the remembered one."""
    biased = over.mean((batch - over.mean(batch)).square())
    unbiased = biased * (over.size / (over.size - 1))
    if not abs(weight) > 1e-9:
        return "unknown"
    for what, root in (("variance", 1.0), ("sigma", 0.5)):
        # after = before + weight (target - before), solved for what the batch brought in
        target = before**root + (after**root - before**root) / weight
        for name, estimate in (("biased", biased), ("unbiased", unbiased)):
            if alike(target, estimate**root, 1e-6):
                return f"{name} {what}"
    return "unknown"
