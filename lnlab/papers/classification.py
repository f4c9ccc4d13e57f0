"""Experiments that classify: their data, loss and measurements, and the effects of one step."""

from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from math import acos
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab import training
from lnlab.analysis.internal_covariate_shift import covariate_shift
from lnlab.analysis.objective import Objective
from lnlab.data import Images, load
from lnlab.data.dataset import Split
from lnlab.training import Evaluation, cross_entropy_per_model, evaluate, setting
from lnlab.training.experiment import LossPerSeed

TRAIN_EVAL_SIZE = 5_000
"""The number of training examples, the first ones, whose loss is measured."""

LogitsPerSeed = Tensor  # (S, B, classes)
ClassesPerSeed = Tensor  # (S, B)
MetricsPerSeed = Mapping[str, list[float]]  # by metric, a number for each seed


class DatasetWithReplacedSplits:
    """A data set with other splits; everything else of it is unchanged."""

    def __init__(self, whole: Any, **splits: Split) -> None:
        self._whole = whole
        vars(self).update(splits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def check_classifiable(dataset: Images, smallest_side: int = 1) -> Images:
    """Return a data set, if its images are labelled and large enough to be classified.

    Args:
        dataset: images with their shape and classes.
        smallest_side: the least height and width, in pixels.
    """
    if dataset.classes < 2:
        raise ValueError(f"{dataset.name} has no labels: give images of several classes.")
    height, width = dataset.shape[-2:]
    if min(height, width) < smallest_side:
        raise ValueError(
            f"{dataset.name} has images of {height} x {width}: give images of at least "
            f"{smallest_side} x {smallest_side}."
        )
    return dataset


def hold_out_validation(dataset: Images, count: int) -> DatasetWithReplacedSplits:
    """Return a data set whose last ``count`` training examples validate instead."""
    x, y = dataset.train.x, dataset.train.y
    if count >= len(y):
        raise ValueError(
            f"valid_size is {count}: {dataset.name} has {len(y)} training examples."
        )
    return DatasetWithReplacedSplits(
        dataset, train=Split(x[:-count], y[:-count]), valid=Split(x[-count:], y[-count:])
    )


@dataclass(frozen=True)
class Classification(training.Experiment):
    """An experiment with one class per example: negative log likelihood and error rate."""

    valid_size: int = setting(0, least=0)
    """The number of training examples, the last ones, that are held out for validation, to
    choose a learning rate by. 0: none, as in the paper."""

    required_data_kind = "images"
    lower_is_better = ("train_nll", "test_nll", "test_error")

    def dataset(self) -> Images | DatasetWithReplacedSplits:
        whole = check_classifiable(load(self.data, self.required_data_kind))
        return hold_out_validation(whole, self.valid_size) if self.valid_size else whole

    def loss(self, output: LogitsPerSeed, y: ClassesPerSeed) -> LossPerSeed:
        """Return the NLL in nats of logits (S, B, classes) and classes (S, B): (S,)."""
        return cross_entropy_per_model(output, y)

    def full_evaluation_updates(self, updates_per_epoch: int) -> set[int]:
        """Return 0, log-spaced updates of the first epoch, and then every half epoch."""
        first = {round(updates_per_epoch * 2.0**-k) for k in range(8)}
        halves = 2 * self.num_updates(updates_per_epoch) // updates_per_epoch
        return first | {half * updates_per_epoch // 2 for half in range(halves + 1)}

    def evaluate(
        self, model: nn.Module, dataset: Any, evaluation: Evaluation = Evaluation.FINAL
    ) -> MetricsPerSeed:
        """Return, per seed, the NLL (nats) and the error rate of each split.

        Of the training set: the NLL of the first :data:`TRAIN_EVAL_SIZE` examples. Of the
        validation set only if there is one.
        """
        train = nll_and_error_per_seed(model, dataset.train, TRAIN_EVAL_SIZE)
        test = nll_and_error_per_seed(model, dataset.test)
        metrics = {
            "train_nll": train["nll"],
            "test_nll": test["nll"],
            "test_error": test["error"],
        }
        if self.valid_size:
            valid = nll_and_error_per_seed(model, dataset.valid)
            metrics |= {"valid_nll": valid["nll"], "valid_error": valid["error"]}
        return metrics


def nll_and_error_per_seed(
    model: nn.Module, split: Split, count: int | None = None
) -> MetricsPerSeed:
    """Return ``nll`` and ``error`` of each model on the first ``count`` examples; None: all."""
    return evaluate(model, split.x[:count], split.y[:count], cross_entropy_per_model)


# The effects of a small step on a network: the step is computed, but not taken.

STEP_EFFECT_SIZE = 500
"""The number of training examples, the first ones, that the step is computed on."""
STEP = 0.1  # the learning rate of the step, the same for every network
LOWER = 0.02
"""The fraction of the loss that a step along the gradient removes, to first order. A tenth is
more than some networks can lose along one gradient."""


def measure_shift_and_smoothness(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """Measure covariate shift and smoothness around one step, in float64.

    Of a network with hidden ``layers``, the last of which gives the logits, at x (B, D) and y
    (B,): ``gradient_angle`` and ``mean_shift``, which grow with the step, so that their sums
    along a training depend on the path and not on the number of steps; ``gradient_change``; and
    ``weight_norm``, the geometric mean of ||W|| over the hidden layers. All are NaN where the
    loss is not finite.
    """
    with torch.no_grad():
        if not F.cross_entropy(deepcopy(net)(x), y).isfinite():
            names = "gradient_angle", "mean_shift", "gradient_change", "weight_norm"
            return dict.fromkeys(names, float("nan"))
    loss = Objective(net, x, y, F.cross_entropy, bn_stats="batch", dtype=torch.float64)
    after = loss.start - STEP * loss.gradient()[1]
    layers: Any = net.layers
    lengths = torch.stack([layer.W.detach().norm() for layer in layers[:-1]])
    return {
        "gradient_angle": mean_covariate_shift_angle_radians(loss, after),
        "mean_shift": layer_standardized_unit_mean_shift(loss, after),
        "gradient_change": relative_gradient_change(loss),
        "weight_norm": float(lengths.log().mean().exp()),
    }


def mean_covariate_shift_angle_radians(loss: Objective, parameters_after: Tensor) -> float:
    """Return the mean angle between G and G' in radians, of all layers but the first.

    G and G' are those of Definition 2.1 of Santurkar et al. (2018), before the step and at the
    parameters ``parameters_after`` it (P,). The input of the first layer cannot shift.
    """
    angles = [acos(shift.cosine) for shift in covariate_shift(loss, after=parameters_after)[1:]]
    return sum(angles) / len(angles)


def gradient_and_stepped_parameters(loss: Objective) -> tuple[Tensor, Tensor]:
    """Return the gradient g (P,) and the parameters (P,) after a step along it.

    The step size eta is such that eta ||g||^2 = LOWER L: to first order, it removes the same
    fraction of the loss in every network, whatever the scale of its loss and its weights.
    """
    value, g = loss.gradient()
    return g, loss.start - LOWER * value / g.square().sum() * g


def relative_gradient_change(loss: Objective) -> float:
    """Return ||g - g'|| / ||g||, with g' the gradient after a step.

    The step is that of :func:`gradient_and_stepped_parameters`. The result is
    LOWER / 2 in a round bowl, however steep.
    """
    g, after = gradient_and_stepped_parameters(loss)
    return float((g - loss.gradient(after)[1]).norm() / g.norm())


def layer_standardized_unit_mean_shift(loss: Objective, parameters_after: Tensor) -> float:
    """Return |mu' - mu| / sigma of the hidden units, a mean.

    mu is a unit's mean over the examples behind its normalizer, before the step and at the
    parameters ``parameters_after`` it (P,); sigma is the standard deviation of its whole layer.
    """
    pairs = zip(
        hidden_nonlinearity_inputs(loss, loss.start),
        hidden_nonlinearity_inputs(loss, parameters_after),
        strict=True,
    )
    shifts = [((h_.mean(0) - h.mean(0)).abs() / h.std()).mean() for h, h_ in pairs]
    return float(torch.stack(shifts).mean())


@torch.no_grad()
def hidden_nonlinearity_inputs(loss: Objective, parameters: Tensor) -> list[Tensor]:
    """Return the inputs of each hidden layer's nonlinearity at parameters (P,): (B, H) each."""
    outputs: list[Tensor] = []
    layers: Any = loss.module.layers
    with ExitStack() as hooks:
        for layer in layers[:-1]:
            hooks.enter_context(layer.register_forward_hook(lambda _, __, h: outputs.append(h)))
        loss(parameters)
    return outputs
