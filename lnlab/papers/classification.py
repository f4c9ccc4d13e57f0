"""Experiments that classify: their data, loss, measurements and points of evaluation."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import acos
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.internal_covariate_shift import covariate_shift
from lnlab.analysis.objective import Objective
from lnlab.data import Images, load
from lnlab.data.images import Split
from lnlab.training import Evaluation, Experiment, cross_entropy, evaluate, setting

TRAINING_CASES = 5_000
"""The number of training cases, the first ones, whose loss is measured: more would cost time
and tell nothing else."""


class HeldOut:
    """A data set whose last training cases validate instead; all else of it is as it was.

    Args:
        whole: which has no part in it that is like this one.
        cases: how many of its training cases are held out.

    Raises:
        ValueError: if none would be left to train on.
    """

    def __init__(self, whole: Images, cases: int) -> None:
        x, y = whole.train.x, whole.train.y
        if cases >= len(y):
            raise ValueError(
                f"valid_size is {cases}: {whole.name} has {len(y)} training cases."
            )
        self._whole = whole
        self.train = Split(x[:-cases], y[:-cases])
        self.valid = Split(x[-cases:], y[-cases:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


@dataclass(frozen=True)
class Classification(Experiment):
    """Cases with one class each, judged by the negative log likelihood and the error rate."""

    valid_size: int = setting(0, least=0)
    """The number of training cases, the last ones, that are not trained on: they validate, to
    choose a learning rate by. 0: none, and the paper's whole training set."""

    lower_is_better = ("train_nll", "test_nll", "test_error")

    def dataset(self) -> Any:
        """:class:`~lnlab.data.Images`, or those with cases held out."""
        whole = load(self.data)
        return HeldOut(whole, self.valid_size) if self.valid_size else whole

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood in nats: logits (S, B, classes), y (S, B) to (S,)."""
        return cross_entropy(output, y)

    def eval_points(self, updates_per_epoch: int) -> set[int]:
        """Before the first update, log-spaced through the first epoch, and then after every
        half epoch."""
        first = {round(updates_per_epoch * 2.0**-k) for k in range(8)}
        halves = 2 * self.num_epochs(updates_per_epoch)
        return first | {half * updates_per_epoch // 2 for half in range(halves + 1)}

    def evaluate(
        self, model: nn.Module, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> Mapping[str, list[float]]:
        """Per seed, in evaluation mode: NLL of the first training cases (nats), NLL and error
        rate of the test cases; the same of the validation cases, where some are held out."""
        train = measured(model, dataset.train, TRAINING_CASES)
        test = measured(model, dataset.test)
        found = {
            "train_nll": train["nll"],
            "test_nll": test["nll"],
            "test_error": test["error"],
        }
        if self.valid_size:
            valid = measured(model, dataset.valid)
            found |= {"valid_nll": valid["nll"], "valid_error": valid["error"]}
        return found


def measured(
    model: nn.Module, split: Split, cases: int | None = None
) -> Mapping[str, list[float]]:
    """``nll`` and ``error`` of each model on the first cases of a split; None: on all."""
    return evaluate(model, split.x[:cases], split.y[:cases], cross_entropy)


# The shift and the smoothness of a perceptron at one moment: what a small step would do to it.
#
# The step is the same for every net and arm: gradient descent of :data:`STEP` on always the
# same
# cases, tried and not taken. Statistics over cases are those of these cases, as in training.


CASES = 500
"""The number of training cases, the first ones, that are looked at."""
STEP = 0.1
LOWER = 0.02
"""The part of the loss that a step along the gradient promises to take away, whatever the net:
a tenth is more than some nets can lose along one gradient."""


def moved(net: Any, x: Tensor, y: Tensor) -> dict[str, float]:
    """The change that a step makes, in float64; all NaN where the loss is not finite.

    Args:
        net: of hidden ``layers`` and the logits, the last.
        x: cases (B, D).
        y: their classes (B,).

    Returns:
        ``gradient_angle``: between G and G' of Definition 2.1 of Santurkar et al. (2018), in
        radians, a mean over all layers but the first, which cannot shift. ``mean_shift``: |mu'
        - mu| of a unit behind its normalizer, over the standard deviation of its layer, a mean
        over hidden units. Both grow with the step as it does, so that their sums over a way
        depend on the way and not on how many steps it took. ``gradient_change``: :func:`bend`.
        ``weight_norm``: ||W|| of the hidden layers, their geometric mean.
    """
    with torch.no_grad():
        if not F.cross_entropy(deepcopy(net)(x), y).isfinite():
            return dict.fromkeys(
                ("gradient_angle", "mean_shift", "gradient_change", "weight_norm"), float("nan")
            )
    loss = Objective(net, x, y, F.cross_entropy, bn_stats="batch", dtype=torch.float64)
    there = loss.start - STEP * loss.gradient()[1]
    lengths = torch.stack([layer.W.detach().norm() for layer in net.layers[:-1]])
    return {
        "gradient_angle": angle(loss, there),
        "mean_shift": drift(loss, there),
        "gradient_change": bend(loss),
        "weight_norm": float(lengths.log().mean().exp()),
    }


def angle(loss: Objective, there: Tensor) -> float:
    """The mean angle between G and G', in radians, of all layers but the first.

    Args:
        loss: of the cases of the step, at the parameters before it.
        there: the parameters after it (P,).
    """
    angles = [acos(shift.cosine) for shift in covariate_shift(loss, there)[1:]]
    return sum(angles) / len(angles)


def promised(loss: Objective) -> tuple[Tensor, Tensor]:
    """The gradient g (P,), and the parameters (P,) where it promises a part LOWER less loss.

    eta ||g||^2 = LOWER L: to first order as much in every net, whatever the scale of its loss
    and of its weights. The step is shorter where a net learns faster, by L/||g||^2.
    """
    value, g = loss.gradient()
    return g, loss.start - LOWER * value / g.square().sum() * g


def bend(loss: Objective) -> float:
    """||g - g'|| / ||g|| between the two ends of a step along the gradient g of a loss.

    The step is that of :func:`promised`; LOWER / 2 in a round bowl, steep or flat.
    """
    g, there = promised(loss)
    return float((g - loss.gradient(there)[1]).norm() / g.norm())


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
