"""Evaluation as published: in batches of m, in each of the 16 configurations of statistics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import nan
from typing import NamedTuple

from torch import Tensor, nn
from torch.func import vmap

from lnlab.data.dataset import Split
from lnlab.nn import (
    CONFIGURATIONS,
    BatchLayerNorm,
    StatisticsMode,
    has_finite_sigmas,
    use_statistics,
)
from lnlab.papers.batch_layer_norm.model import find_batch_layer_norms
from lnlab.training import evaluation_mode
from lnlab.training.random_state import move_to_device

UNCHANGED = ""  # the name for no configuration: each normalizer keeps its own
CHUNK_SIZE = 1000  # examples that are in memory at a time


class LossAndAccuracy(NamedTuple):
    """The mean negative log likelihood in nats, and the accuracy."""

    nll: float
    accuracy: float


ExampleScoring = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A rule from outputs (N, ...) and classes (N,) to losses (N,) and which are correct (N,)."""


def score_in_batches(
    model: nn.Module, split: Split, m: int, scoring: ExampleScoring
) -> LossAndAccuracy:
    """Return the score of a model in batches of m; a last, smaller batch is left out."""
    return score_configurations(model, split, m, scoring, (UNCHANGED,))[UNCHANGED]


def score_configurations(
    model: nn.Module,
    split: Split,
    m: int,
    scoring: ExampleScoring,
    configurations: Iterable[str],
) -> dict[str, LossAndAccuracy]:
    """Return the :func:`score_in_batches` of a model in each of some configurations.

    If the model has ``states_of_first_lstm``, its part before the first normalizer, and
    ``logits_from_first_lstm_states``, the rest, the first is computed once for all
    configurations.
    """
    batches = len(split.y) // m
    if not batches:
        raise ValueError(f"{len(split.y)} examples make no batch of {m}: give more of them.")
    weight, norms = next(model.parameters()), find_batch_layer_norms(model)
    x, y = (tensor[: batches * m].unflatten(0, (batches, m)) for tensor in (split.x, split.y))
    states_of_first_lstm, logits_from_first_lstm_states = (
        getattr(model, "states_of_first_lstm", None),
        getattr(model, "logits_from_first_lstm_states", model),
    )
    nll, correct = dict.fromkeys(configurations, 0.0), dict.fromkeys(configurations, 0)
    chunks = zip(*(tensor.split(max(1, CHUNK_SIZE // m)) for tensor in (x, y)), strict=True)
    with evaluation_mode(model):
        for chunk in chunks:
            chunk_x, chunk_y = move_to_device(chunk, weight.device, weight.dtype)
            h = chunk_x if states_of_first_lstm is None else vmap(states_of_first_lstm)(chunk_x)
            for name in nll:
                with temporarily_use_configuration(norms, name):
                    # each batch by itself: its statistics may be its own
                    output = vmap(logits_from_first_lstm_states)(h).flatten(0, 1)
                losses, hits = scoring(output, chunk_y.flatten())
                nll[name] += losses.double().sum().item()
                correct[name] += int(hits.sum().item())
    count = batches * m
    return {name: LossAndAccuracy(nll[name] / count, correct[name] / count) for name in nll}


def score_with_batch_statistics(
    model: nn.Module, split: Split, m: int, scoring: ExampleScoring
) -> LossAndAccuracy:
    """Return the score with the statistics of each batch, as in training."""
    with use_statistics(model, StatisticsMode.BATCH):
        return score_in_batches(model, split, m, scoring)


@contextmanager
def temporarily_use_configuration(
    norms: list[BatchLayerNorm], configuration: str
) -> Iterator[None]:
    """Set normalizers to one of the 16 configurations, such as "TTFF", and restore them."""
    before = [norm.population for norm in norms]
    try:
        for norm in norms if configuration != UNCHANGED else ():
            norm.population = configuration
        yield
    finally:
        for norm, population in zip(norms, before, strict=True):
            norm.population = population


def metrics_of_every_configuration(
    model: nn.Module, splits: Mapping[str, Split], m: int, scoring: ExampleScoring
) -> dict[str, float]:
    """Return the scores of a model on valid and test, in every possible configuration.

    A model without configurations has one score.

    Returns:
        ``valid_accuracy_TTFF`` and so on, NaN where a configuration is impossible. Of the test:
        ``chosen_nll`` and ``chosen_accuracy`` in the configuration with the lowest validation
        loss; ``optimistic_...`` in the one with the lowest test loss, as published;
        ``optimism``, the difference of these accuracies.
    """
    norms = find_batch_layer_norms(model)
    possible = [
        name
        for name in CONFIGURATIONS
        if all(_can_use_configuration(norm, name) for norm in norms)
    ]
    names = possible if norms else [UNCHANGED]
    scores = {
        split: score_configurations(model, examples, m, scoring, names)
        for split, examples in splits.items()
    }
    best = {
        split: scores["test"][min(names, key=lambda name: scores[split][name].nll)]
        for split in ("valid", "test")
    }
    missing = LossAndAccuracy(nan, nan)
    return {
        **{
            f"{split}_{metric}_{name}": value
            for name in (CONFIGURATIONS if norms else ())
            for split in splits
            for metric, value in scores[split].get(name, missing)._asdict().items()
        },
        "chosen_nll": best["valid"].nll,
        "chosen_accuracy": best["valid"].accuracy,
        "optimistic_nll": best["test"].nll,
        "optimistic_accuracy": best["test"].accuracy,
        "optimism": best["test"].accuracy - best["valid"].accuracy,
    }


def _can_use_configuration(norm: BatchLayerNorm, configuration: str) -> bool:
    """Return True if a normalizer can use a configuration: it has the statistics."""
    trained = bool(norm.over_examples.batches)
    return has_finite_sigmas(configuration, norm.m, norm.variant) and (
        trained or "T" not in configuration
    )
