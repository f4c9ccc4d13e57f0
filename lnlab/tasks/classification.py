"""What experiments that classify have in common: when they are measured, and what."""

from torch import nn

from lnlab.data import Dataset
from lnlab.training import cross_entropy, evaluate

TRAINING_CASES = 5_000
"""Of so many of the training cases, the first, the loss is taken: more cost time alone."""


def log_spaced(updates_per_epoch: int, epochs: int) -> set[int]:
    """Before the first update, log-spaced through the first epoch, and then after every half
    epoch."""
    first = {round(updates_per_epoch * 2.0**-k) for k in range(8)}
    return first | {half * updates_per_epoch // 2 for half in range(2 * epochs + 1)}


def measured(model: nn.Module, dataset: Dataset) -> dict[str, list[float]]:
    """Per seed, in evaluation mode: NLL of the first training cases (nats), NLL and error
    rate of the test cases."""
    W = next(model.parameters())
    train, test = (
        evaluate(model, split.x[:cases].to(W), split.y[:cases].to(W.device), cross_entropy)
        for split, cases in ((dataset.train, TRAINING_CASES), (dataset.test, None))
    )
    return {"train_nll": train["nll"], "test_nll": test["nll"], "test_error": test["error"]}
