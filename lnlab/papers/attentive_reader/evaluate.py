"""The answers of a reader to questions that it was not trained on, and where it looks."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.data.vocabulary import END
from lnlab.nn import Mode, recompute, statistics_from
from lnlab.nn.batch import OverCases
from lnlab.papers.attentive_reader.batches import NumberedQuestions
from lnlab.training.random_state import placed

WATCHED = 4
"""Validation questions whose attention is kept at each evaluation: to be looked at."""
TOGETHER = 250
"""Questions that are answered at a time, or a batch if that is more."""
POPULATION = 20
"""Batches of training questions, of all lengths, of which population statistics are made."""


class Answered(NamedTuple):
    """Answers to N questions, in their order.

    Attributes:
        log_p: of the right answer, in nats (N,).
        wrong: whether the likeliest word is another (N,).
        alphas: where the reader looked, of the first :data:`WATCHED`.
        chances: the probabilities of their candidates.
    """

    log_p: Tensor
    wrong: Tensor
    alphas: list[Tensor]
    chances: list[list[float]]

    def named(self, name: str, end: str = "") -> dict[str, float]:
        """The nats a question and the part that is wrong, under names."""
        return {
            f"{name}_nll{end}": -float(self.log_p.mean()),
            f"{name}_error{end}": float(self.wrong.double().mean()),
        }


def batches(numbered: NumberedQuestions, size: int) -> list[list[int]]:
    """The places of questions in batches of like length; none is much smaller than others."""
    order = sorted(range(len(numbered)), key=lambda place: numbered.lengths[place])
    count = max(1, len(order) // size)
    ends = [len(order) * k // count for k in range(count + 1)]
    return [order[begin:end] for begin, end in pairwise(ends)]


@torch.no_grad()
def answered(
    net: Any, numbered: NumberedQuestions, size: int, mode: Mode | None = None
) -> Answered:
    """The answers of a net to questions, ``size`` at a time.

    Args:
        mode: where statistics over cases are from, in evaluation; None: the remembered ones.
    """
    net.eval()
    device = net.word.device
    log_p, wrong = torch.zeros(len(numbered)), torch.zeros(len(numbered), dtype=torch.bool)
    alphas, chances = {}, {}
    with statistics_from(net, mode) if mode else nullcontext():
        for places in batches(numbered, size):
            x, y = placed(numbered.asked(places), device)
            logits, alpha = net.read(x)
            found = F.log_softmax(logits, -1)
            log_p[places] = found.gather(1, y[:, None])[:, 0].to(log_p).cpu()
            wrong[places] = (logits.argmax(1) != y).cpu()
            for row, place in enumerate(places):
                if place < WATCHED:
                    alphas[place] = alpha[row, : x.lengths[row]].cpu()
                    own = x.candidates[row]
                    each = found[row, own[own != END]].exp().tolist()
                    chances[place] = [float(f"{p:.3g}") for p in each]
    first = range(min(WATCHED, len(numbered)))
    return Answered(log_p, wrong, [alphas[k] for k in first], [chances[k] for k in first])


def remembered(net: Any, numbered: NumberedQuestions, size: int) -> None:
    """Replace what batch norm remembers by population statistics, each time step's own."""
    every = batches(numbered, size)
    chosen = every[:: max(1, len(every) // POPULATION)][:POPULATION]

    def asked() -> Iterator[Any]:
        for places in chosen:
            x, _ = numbered.asked(places)
            yield placed(x, net.word.device)

    recompute(net, asked())


def measured(
    net: Any, numbered: dict[str, NumberedQuestions], size: int, *, test: bool
) -> dict[str, Any]:
    """All that is measured of a net, which is changed: what batch norm remembers.

    ``valid_nll`` in nats a question and ``valid_error``, by population statistics;
    ``valid_nll_batch`` and ``valid_error_batch`` by those of the validation batches, as the
    authors have it; with ``test``, ``test_nll`` and ``test_error``. ``attention 0`` and so on
    are pictures, where the reader looks in the first :data:`WATCHED` validation questions, and
    ``candidate_probabilities`` the probabilities of their candidates.
    """
    over_cases = any(isinstance(part, OverCases) for part in net.modules())
    valid = numbered["valid"]
    by_batch = answered(net, valid, size, Mode.BATCH) if over_cases else None
    if over_cases:
        remembered(net, numbered["train"], size)
    many = max(size, TOGETHER)  # no answer depends on the others any more
    found = answered(net, valid, many)
    measures: dict[str, Any] = {
        **found.named("valid"),
        **(by_batch or found).named("valid", "_batch"),
        **{f"attention {k}": alpha.half() for k, alpha in enumerate(found.alphas)},
        "candidate_probabilities": found.chances,
    }
    return measures | (answered(net, numbered["test"], many).named("test") if test else {})
