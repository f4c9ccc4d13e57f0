"""Evaluation as published: in batches of m, in each of the 16 configurations of statistics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import nan
from typing import NamedTuple, Protocol

from torch import Tensor, nn
from torch.func import vmap

from lnlab.nn import (
    CONFIGURATIONS,
    BatchLayerNorm,
    Mode,
    Population,
    is_computable,
    use_statistics,
)
from lnlab.papers.batch_layer_norm.model import mixtures_of
from lnlab.training import evaluating
from lnlab.training.random_state import placed

AS_IT_IS = ""
"""The letters of no configuration: statistics from where the model has them."""
CASES = 1000
"""Cases that are in memory at a time."""


class Cases(Protocol):
    """Cases (N, ...) and their classes (N,)."""

    @property
    def x(self) -> Tensor: ...

    @property
    def y(self) -> Tensor: ...


class Score(NamedTuple):
    """The mean negative log likelihood, in nats, and the part of classes that are right."""

    nll: float
    accuracy: float


Judge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A rule from outputs (N, ...) and classes (N,) to losses (N,) and which are right (N,)."""


def score(model: nn.Module, cases: Cases, m: int, judge: Judge) -> Score:
    """The score of one model on cases in their order, in batches of m; a rest is left out.

    Raises:
        ValueError: if there is not one whole batch.
    """
    return scores(model, cases, m, judge, (AS_IT_IS,))[AS_IT_IS]


def scores(
    model: nn.Module, cases: Cases, m: int, judge: Judge, configurations: Iterable[str]
) -> dict[str, Score]:
    """The :func:`score` in each of some configurations, by their letters.

    A model that has ``before``, its part before the first normalizer, and ``behind``, the rest
    of it, computes the former once for all of them.

    Raises:
        ValueError: if there is not one whole batch.
    """
    batches = len(cases.y) // m
    if not batches:
        raise ValueError(f"{len(cases.y)} cases make no batch of {m}: give more of them.")
    weight, norms = next(model.parameters()), mixtures_of(model)
    x, y = (tensor[: batches * m].unflatten(0, (batches, m)) for tensor in (cases.x, cases.y))
    before, behind = getattr(model, "before", None), getattr(model, "behind", model)
    nll, right = dict.fromkeys(configurations, 0.0), dict.fromkeys(configurations, 0)
    with evaluating(model):
        for some_x, some_y in zip(*(t.split(max(1, CASES // m)) for t in (x, y)), strict=True):
            some_x, some_y = placed((some_x, some_y), weight.device, weight.dtype)
            h = some_x if before is None else vmap(before)(some_x)
            for letters in nll:
                with asking(norms, letters):
                    # each batch by itself: its statistics may be its own
                    output = vmap(behind)(h).flatten(0, 1)
                losses, correct = judge(output, some_y.flatten())
                nll[letters] += losses.double().sum().item()
                right[letters] += int(correct.sum().item())
    seen = batches * m
    return {letters: Score(nll[letters] / seen, right[letters] / seen) for letters in nll}


def fitted(model: nn.Module, cases: Cases, m: int, judge: Judge) -> Score:
    """The score with the statistics of each batch, as in training."""
    with use_statistics(model, Mode.BATCH):
        return score(model, cases, m, judge)


@contextmanager
def asking(norms: list[BatchLayerNorm], letters: str) -> Iterator[None]:
    """Normalizers in one of the 16 configurations, "TTFF" say; afterwards as they were."""
    before = [norm.population for norm in norms]
    try:
        for norm in norms if letters != AS_IT_IS else ():
            norm.population = Population.from_letters(letters)
        yield
    finally:
        for norm, population in zip(norms, before, strict=True):
            norm.population = population


def searched(
    model: nn.Module, splits: Mapping[str, Cases], m: int, judge: Judge
) -> dict[str, float]:
    """The scores of one model in every configuration that is is_computable, on valid and test.

    ``valid_accuracy_TTFF`` and so on; and of the test ``chosen_nll`` and ``chosen_accuracy``,
    of the configuration with the least loss on validation; ``optimistic_...``, of the one with
    the least loss on the test itself, as published; ``optimism``, what that adds to the
    accuracy. Of an impossible configuration the numbers are NaN. A model without configurations
    has one score, and no optimism.
    """
    norms = mixtures_of(model)
    there = [
        letters for letters in CONFIGURATIONS if all(_has(norm, letters) for norm in norms)
    ]
    of_splits = {
        split: scores(model, cases, m, judge, there if norms else (AS_IT_IS,))
        for split, cases in splits.items()
    }
    found = {
        letters: {split: of[letters] for split, of in of_splits.items()}
        for letters in of_splits["test"]
    }
    missing = dict.fromkeys(splits, Score(nan, nan))
    chosen, optimistic = (
        min(found.values(), key=lambda scores, split=split: scores[split].nll)["test"]
        for split in ("valid", "test")
    )
    return {
        **{
            f"{split}_{name}_{letters}": value
            for letters in (CONFIGURATIONS if norms else ())
            for split in splits
            for name, value in found.get(letters, missing)[split]._asdict().items()
        },
        "chosen_nll": chosen.nll,
        "chosen_accuracy": chosen.accuracy,
        "optimistic_nll": optimistic.nll,
        "optimistic_accuracy": optimistic.accuracy,
        "optimism": optimistic.accuracy - chosen.accuracy,
    }


def _has(norm: BatchLayerNorm, letters: str) -> bool:
    """True if a normalizer has all that a configuration asks for."""
    trained = bool(norm.over_cases.batches)
    return is_computable(letters, norm.m, norm.variant) and (trained or "T" not in letters)
