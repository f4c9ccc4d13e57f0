"""The recognition of utterances that were not trained on, its errors and its attention."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from lnlab.data.filterbank import HOP
from lnlab.data.speech import Speech
from lnlab.data.utterance import Utterance
from lnlab.nn import Hypothesis, entropy, mass, monotonicity, search
from lnlab.nn.padding import cross_entropy
from lnlab.tasks.las.net import gathered

TOGETHER = 100
"""Utterances that are recognized at a time."""
WATCHED = 4
"""Test utterances whose attention is kept at each evaluation: to be looked at."""


@torch.no_grad()
def spelled(
    net: Any, utterances: Sequence[Utterance], units: Sequence[str], *, width: int, longest: int
) -> tuple[float, list[torch.Tensor], list[Hypothesis]]:
    """Nats a unit, the attention at the right units, and what the search finds.

    Args:
        width, longest: passed on to :func:`lnlab.nn.attention`.
    """
    net.eval()
    numbers = {unit: number for number, unit in enumerate(units)}
    weight = next(net.parameters())
    nll, count, alphas, said = 0.0, 0, [], []
    for start in range(0, len(utterances), TOGETHER):
        part = utterances[start : start + TOGETHER]
        batch, counts = gathered(part, numbers, weight.dtype, weight.device)
        heard = net.hear(batch)
        logits, alpha = net.speller(heard, batch.units)
        nll += float(cross_entropy(logits, batch.units, counts)) * int(counts.sum())
        count += int(counts.sum())
        alphas += [a[: len(u.units)].cpu() for u, a in zip(part, alpha, strict=True)]
        said += search(net.speller, heard, len(numbers), width=width, longest=longest)
    return nll / count, alphas, said


def validated(net: Any, dataset: Speech, *, width: int, longest: int) -> dict[str, float]:
    """``valid_nll`` in nats a unit, and ``valid_error``, of the validation cases.

    Args:
        width, longest: passed on to :func:`lnlab.nn.attention`.
    """
    valid = dataset.valid or []
    nll, _, said = spelled(net, valid, dataset.units, width=width, longest=longest)
    found = errors(valid, said, dataset.units)
    return {"valid_nll": nll, "valid_error": found["test_error"]}


def recognized(net: Any, dataset: Speech, *, width: int, longest: int) -> dict[str, Any]:
    """Errors and attention of a net on the test utterances.

    ``test_nll`` in nats a unit; the :func:`errors` of the search; of the attention at the right
    units ``alignment``, what lies within 40 ms of the unit (NaN where nobody knows where that
    is), ``monotonicity`` and ``entropy`` in nats, means over utterances; ``attention 0`` and so
    on, pictures of that on the first :data:`WATCHED`, and ``hypotheses``, what was made of
    them.

    Args:
        width, longest: passed on to :func:`lnlab.nn.attention`.
    """
    nll, alphas, said = spelled(net, dataset.test, dataset.units, width=width, longest=longest)
    step = HOP * net.listener.joined
    masses = [
        mass(alpha, step, u.begins, u.ends)
        for u, alpha in zip(dataset.test, alphas, strict=True)
        if u.begins is not None and u.ends is not None
    ]
    return {
        "test_nll": nll,
        **errors(dataset.test, said, dataset.units),
        "alignment": float(torch.cat(masses).mean()) if masses else math.nan,
        "monotonicity": sum(map(monotonicity, alphas)) / len(alphas),
        "entropy": float(torch.cat([entropy(alpha) for alpha in alphas]).mean()),
        **{f"attention {k}": alpha.half() for k, alpha in enumerate(alphas[:WATCHED])},
        "hypotheses": [[dataset.units[number] for number in s.units] for s in said[:WATCHED]],
    }


def errors(
    utterances: Sequence[Utterance], said: Sequence[Hypothesis], units: Sequence[str]
) -> dict[str, float]:
    """The error rates of all utterances by name, counted by jiwer.

    ``test_error`` is substitutions, deletions and insertions over N, the units that were said.
    ``test_error_with_end`` has the end symbols counted in N, as in the study's code;
    ``reference_length`` is N.
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
        "reference_length": N,
    }
