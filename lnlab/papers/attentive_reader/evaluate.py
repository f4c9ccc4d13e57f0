"""The answers of a reader to questions that it was not trained on, and where it looks."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.data.vocabulary import END
from lnlab.nn import Mode, recompute, statistics_from
from lnlab.nn.batch import OverCases
from lnlab.papers.attentive_reader.data import EncodedQuestions
from lnlab.training.random_state import placed

SHOWN = 4
"""Validation questions whose attention is kept at each evaluation: to be looked at."""
TOGETHER = 250
"""Questions that are answered at a time, or a batch if that is more."""
POPULATION = 20
"""Batches of training questions, of all lengths, of which population statistics are made."""


class Answers(NamedTuple):
    """Answers to N questions, in their order.

    Attributes:
        log_p: of the right answer, in nats (N,).
        wrong: whether the likeliest word is another (N,).
        attention: where the reader looked, of the first :data:`SHOWN`.
        probabilities: of their candidates.
    """

    log_p: Tensor
    wrong: Tensor
    attention: list[Tensor]
    probabilities: list[list[float]]

    def metrics(self, name: str, end: str = "") -> dict[str, float]:
        """Return the nats a question and the fraction that is wrong, under names."""
        return {
            f"{name}_nll{end}": -float(self.log_p.mean()),
            f"{name}_error{end}": float(self.wrong.double().mean()),
        }


def length_batches(questions: EncodedQuestions, size: int) -> list[list[int]]:
    """Return the indices of questions in batches of like length and of nearly one size."""
    order = sorted(range(len(questions)), key=lambda index: questions.lengths[index])
    count = max(1, len(order) // size)
    ends = [len(order) * k // count for k in range(count + 1)]
    return [order[begin:end] for begin, end in pairwise(ends)]


@torch.no_grad()
def answer(
    net: Any, questions: EncodedQuestions, size: int, mode: Mode | None = None
) -> Answers:
    """Return the answers of a model to questions, ``size`` at a time.

    Args:
        mode: where statistics over examples are from, in evaluation; None: the running ones.
    """
    net.eval()
    device, count = net.word.device, len(questions)
    log_p, wrong = torch.zeros(count), torch.zeros(count, dtype=torch.bool)
    attention, probabilities = {}, {}
    with statistics_from(net, mode) if mode else nullcontext():
        for batch in length_batches(questions, size):
            x, y = placed(questions.batch(batch), device)
            logits, alpha = net.logits_and_attention(x)
            log_ps = F.log_softmax(logits, -1)
            log_p[batch] = log_ps.gather(1, y[:, None])[:, 0].to(log_p).cpu()
            wrong[batch] = (logits.argmax(1) != y).cpu()
            for row, index in enumerate(batch):
                if index < SHOWN:
                    attention[index] = alpha[row, : x.passage_lengths[row]].cpu()
                    candidates = x.candidates[row]
                    p = log_ps[row, candidates[candidates != END]].exp()
                    # three digits are enough to be looked at, and a run keeps many of them
                    probabilities[index] = [float(f"{one:.3g}") for one in p.tolist()]
    shown = range(min(SHOWN, count))
    return Answers(
        log_p, wrong, [attention[k] for k in shown], [probabilities[k] for k in shown]
    )


def recompute_statistics(net: Any, questions: EncodedQuestions, size: int) -> None:
    """Replace what batch norm remembers by population statistics, each time step's own."""
    batches = length_batches(questions, size)
    chosen = batches[:: max(1, len(batches) // POPULATION)][:POPULATION]

    def inputs() -> Iterator[Any]:
        for batch in chosen:
            yield placed(questions.batch(batch)[0], net.word.device)

    recompute(net, inputs())


def measure(
    net: Any, splits: Mapping[str, EncodedQuestions], size: int, *, test: bool
) -> dict[str, Any]:
    """Return all that is measured of a model, whose running statistics are replaced.

    ``valid_nll`` in nats a question and ``valid_error``, by population statistics;
    ``valid_nll_batch`` and ``valid_error_batch`` by those of the validation batches, as the
    authors have it; with ``test``, ``test_nll`` and ``test_error``. ``attention 0`` and so on
    are pictures, where the reader looks in the first :data:`SHOWN` validation questions, and
    ``candidate_probabilities`` the probabilities of their candidates.
    """
    valid, by_batch = splits["valid"], None
    if any(isinstance(module, OverCases) for module in net.modules()):
        by_batch = answer(net, valid, size, Mode.BATCH)
        recompute_statistics(net, splits["train"], size)
    together = max(size, TOGETHER)  # no answer depends on the others any more
    answers = answer(net, valid, together)
    values: dict[str, Any] = {
        **answers.metrics("valid"),
        **(by_batch or answers).metrics("valid", "_batch"),
        **{f"attention {k}": alpha.half() for k, alpha in enumerate(answers.attention)},
        "candidate_probabilities": answers.probabilities,
    }
    if test:
        values |= answer(net, splits["test"], together).metrics("test")
    return values
