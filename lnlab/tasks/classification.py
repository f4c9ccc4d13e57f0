"""Experiments that classify: their data, loss, measurements and points of evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lnlab.data import Images, load
from lnlab.data.images import Split
from lnlab.training import Experiment, Moment, cross_entropy, evaluate, setting

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

    falls = ("train_nll", "test_nll", "test_error")

    def dataset(self) -> Any:
        """:class:`~lnlab.data.Images`, or those with cases held out."""
        whole = load(self.data)
        return HeldOut(whole, self.valid_size) if self.valid_size else whole

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood in nats: logits (S, B, classes), y (S, B) to (S,)."""
        return cross_entropy(output, y)

    def evaluation_points(self, updates_per_epoch: int) -> set[int]:
        """Before the first update, log-spaced through the first epoch, and then after every
        half epoch."""
        first = {round(updates_per_epoch * 2.0**-k) for k in range(8)}
        halves = 2 * self.passes(updates_per_epoch)
        return first | {half * updates_per_epoch // 2 for half in range(halves + 1)}

    def measure(
        self, model: nn.Module, dataset: Any, moment: Moment = Moment.END
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
