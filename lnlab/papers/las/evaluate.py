"""The recognition of utterances that were not trained on, its errors and its attention."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lnlab.analysis.objective import Objective
from lnlab.analysis.recorder import QUANTILES, record, summary
from lnlab.analysis.smoothness import gradient_smoothness, step_sizes
from lnlab.extras import name_missing_extra
from lnlab.nn import Hypothesis, entropy, mass, monotonicity, search
from lnlab.nn.padding import cross_entropy
from lnlab.papers.las.data import Speech
from lnlab.papers.las.model import Heeded, gathered
from lnlab.papers.las.recordings import HOP, Utterance

if TYPE_CHECKING:
    import pandas as pd


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
    with name_missing_extra():
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


# The inside of a recognizer: its distributions, and the steepness of its loss.
#
# Figures 4 to 7 of Ben Othman (2018), of every run at each of its evaluations.


UTTERANCES = 16
"""The first of those to train on are what the inside is seen with, at each evaluation."""
LENGTH = 0.1
"""Steps along the gradient are from 1/2 to 4 times this, as Santurkar et al. (2018) have it."""
SHOWN = [name for name, q in QUANTILES.items() if q in (0.05, 0.25, 0.5, 0.75, 0.95)]


def inside(net: Any, dataset: Speech) -> dict[str, Any]:
    """Steepness and distributions of a recognizer, on always the same training utterances.

    ``lipschitz``, the length of the gradient: the local Lipschitz constant of the loss;
    ``loss_range``, between the least and the greatest loss along it, in nats;
    ``beta_smoothness``, the effective smoothness (:mod:`lnlab.analysis.smoothness`);
    ``quantiles``, by the name of a parameter or of a layer (its outputs): five quantiles, 5,
    25, 50, 75 and 95 %.
    """
    weight = next(net.parameters())
    numbers = {unit: number for number, unit in enumerate(dataset.units)}
    said = dataset.train[:UTTERANCES]
    batch, counts = gathered(said, numbers, weight.dtype, weight.device)

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return cross_entropy(logits, batch.units[rows], counts[rows])

    rows = torch.arange(len(said), device=weight.device)
    objective = Objective(Chosen(net, batch), rows, rows, loss, bn_stats="running")
    found = gradient_smoothness(objective, eta=step_sizes(LENGTH))
    low, high = found.variation
    return {
        "lipschitz": found.gradient,
        "loss_range": high - low,
        "beta_smoothness": found.beta,
        "quantiles": distributions(net, batch),
    }


class Chosen(nn.Module):
    """A net on those utterances of a batch whose numbers it is given (B,)."""

    def __init__(self, net: nn.Module, batch: Heeded) -> None:
        super().__init__()
        self.net, self.batch = net, batch

    def forward(self, rows: Tensor) -> Tensor:
        return self.net(Heeded(*(v[rows.to(v.device)] for v in self.batch)))


@torch.no_grad()
def distributions(net: Any, batch: Heeded) -> dict[str, list[float]]:
    """Quantiles of all parameters, and of what each LSTM of the listener and the readout make
    of a batch; both directions of an LSTM are one."""
    net.eval()
    layers = [f"listener.layers.{k}" for k in range(len(net.listener.layers))]
    with record(net, [*layers, "speller.readout"], evaluation=True) as seen:
        net(batch)
    rows = {row["name"].removesuffix("[0]"): row for row in seen if not row["call"]}
    pooled = defaultdict(list)
    for name, p in net.named_parameters():
        pooled[re.sub(r"^(listener\.layers\.\d+)\.cells\.\d+", r"\1", name)].append(p.flatten())
    rows |= {name: summary(torch.cat(ps)) for name, ps in pooled.items()}
    return {
        name: [float(f"{row[q]:.3g}") for q in SHOWN]
        for name, row in rows.items()
        if not name.endswith("]")  # last states
    }


def ribbon(metrics: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """The quantiles of a parameter or layer along a run, for :func:`lnlab.figures.curves`.

    Args:
        metrics: the rows of one seed.

    Raises:
        ValueError: for a name that was not watched.
    """
    import pandas as pd

    seen = metrics["quantiles"]
    if name not in seen.iloc[0]:
        raise ValueError(f"nothing is called {name!r}: choose from {', '.join(seen.iloc[0])}.")
    frame = pd.DataFrame([row[name] for row in seen], columns=SHOWN)
    return frame.assign(step=metrics["update"].to_numpy())
