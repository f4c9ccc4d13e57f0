"""What a recognizer makes of utterances that it was not trained on."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lnlab.data.filterbank import HOP
from lnlab.data.speech import Speech
from lnlab.data.utterance import Utterance

from .alignment import entropy, mass, monotonicity
from .net import gathered
from .search import Said, search
from .speller import cross_entropy

TOGETHER = 100
"""Utterances that are recognized at a time."""
WATCHED = 4
"""Test utterances whose attention is kept at each evaluation: to be looked at."""


@torch.no_grad()
def recognized(net: Any, dataset: Speech, *, width: int, longest: int) -> dict[str, Any]:
    """What a net makes of the test utterances.

    ``test_nll`` in nats a unit; the :func:`errors` of the search; of the attention at the
    right units ``alignment``, what lies within 40 ms of the unit (NaN where nobody knows where
    that is), ``monotonicity`` and ``entropy`` in nats, means over utterances; ``attention``,
    that on the first :data:`WATCHED`, and ``heard``, what was made of them.

    Args:
        width, longest: of :func:`lnlab.tasks.las.search`.
    """
    net.eval()
    numbers = {unit: number for number, unit in enumerate(dataset.units)}
    weight = next(net.parameters())
    nll, count, alphas, said = 0.0, 0, [], []
    for start in range(0, len(dataset.test), TOGETHER):
        part = dataset.test[start : start + TOGETHER]
        batch, counts = gathered(part, numbers, weight.dtype, weight.device)
        logits, alpha = net.spell(batch)
        nll += float(cross_entropy(logits, batch.units, counts)) * int(counts.sum())
        count += int(counts.sum())
        alphas += [a[: len(u.units)].cpu() for u, a in zip(part, alpha, strict=True)]
        said += search(net.speller, net.hear(batch), len(numbers), width=width, longest=longest)
    step = HOP * net.listener.joined
    masses = [
        mass(alpha, step, u.begins, u.ends)
        for u, alpha in zip(dataset.test, alphas, strict=True)
        if u.begins is not None and u.ends is not None
    ]
    return {
        "test_nll": nll / count,
        **errors(dataset.test, said, dataset.units),
        "alignment": float(torch.cat(masses).mean()) if masses else math.nan,
        "monotonicity": sum(map(monotonicity, alphas)) / len(alphas),
        "entropy": float(torch.cat([entropy(alpha) for alpha in alphas]).mean()),
        "attention": [rounded(alpha) for alpha in alphas[:WATCHED]],
        "heard": [[dataset.units[number] for number in s.units] for s in said[:WATCHED]],
    }


def rounded(alpha: Tensor) -> list[list[float]]:
    """An attention as a run can keep it."""
    return [[round(v, 3) for v in row] for row in alpha.tolist()]


def errors(
    utterances: Sequence[Utterance], said: Sequence[Said], units: Sequence[str]
) -> dict[str, float]:
    """``test_error``, (S + D + I) / N, and its three parts, by jiwer.

    ``test_error_with_end`` has the end symbols counted in N, as in the study's code;
    ``spoken`` is N.
    """
    import jiwer

    names = {unit: f"u{number}" for number, unit in enumerate(units)}  # none is a space
    right = [" ".join(names[unit] for unit in u.units) for u in utterances]
    heard = [" ".join(f"u{number}" for number in s.units) for s in said]
    found = jiwer.process_words(right, heard)
    wrong = found.substitutions + found.deletions + found.insertions
    N = found.hits + found.substitutions + found.deletions
    return {
        "test_error": wrong / N,
        "test_error_with_end": wrong / (N + len(right)),
        "substitutions": found.substitutions / N,
        "deletions": found.deletions / N,
        "insertions": found.insertions / N,
        "spoken": N,
    }
