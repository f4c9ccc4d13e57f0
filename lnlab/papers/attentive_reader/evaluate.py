"""Answers to held-out questions, and the attention of a reader."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.data.vocabulary import END
from lnlab.nn import StatisticsMode, statistics, use_statistics
from lnlab.nn.batch import BatchNormalizer
from lnlab.papers.attentive_reader.data import EncodedQuestions, QuestionDataset
from lnlab.papers.attentive_reader.model import QuestionBatch
from lnlab.training.random_state import move_to_device

SHOWN = 4  # validation questions whose attention is stored at each evaluation
BATCH = 250  # questions that are answered at once, or a batch if that is more
POPULATION = 20
"""Training batches, of all lengths, over which population statistics are computed."""


class Answers(NamedTuple):
    """Answers to N questions, in their order."""

    log_p_right_answer: Tensor  # log probability of the right answer, in nats (N,)
    is_wrong: Tensor  # whether another word is more likely (N,)
    shown_attention: list[Tensor]  # alpha of the first :data:`SHOWN`
    shown_candidate_probabilities: list[list[float]]  # of the candidates of these

    def nll_and_error(self, split: str, suffix: str = "") -> dict[str, float]:
        """Return the nats a question and the fraction of wrong answers, by metric."""
        return {
            f"{split}_nll{suffix}": -float(self.log_p_right_answer.mean()),
            f"{split}_error{suffix}": float(self.is_wrong.double().mean()),
        }


def batch_by_length(questions: EncodedQuestions, batch_size: int) -> list[list[int]]:
    """Return the indices of questions in batches of like length and of nearly one size."""
    order = sorted(
        range(len(questions)), key=lambda index: questions.passage_lengths_or_bytes[index]
    )
    count = max(1, len(order) // batch_size)
    ends = [len(order) * k // count for k in range(count + 1)]
    return [order[begin:end] for begin, end in pairwise(ends)]


@torch.no_grad()
def answer_questions(
    net: Any,
    questions: EncodedQuestions,
    batch_size: int,
    statistics_mode: StatisticsMode | None = None,
) -> Answers:
    """Return the answers of a model to questions, ``batch_size`` at once.

    ``statistics_mode`` is that of batch statistics in evaluation; None: the running ones.
    """
    net.eval()
    device, count = net.word.device, len(questions)
    log_p, wrong = torch.zeros(count), torch.zeros(count, dtype=torch.bool)
    attention, probabilities = {}, {}
    with use_statistics(net, statistics_mode) if statistics_mode else nullcontext():
        for batch in batch_by_length(questions, batch_size):
            x, y = move_to_device(questions.batch(batch), device)
            logits, alpha = net.logits_and_attention(x)
            log_ps = F.log_softmax(logits, -1)
            log_p[batch] = log_ps.gather(1, y[:, None])[:, 0].to(log_p).cpu()
            wrong[batch] = (logits.argmax(1) != y).cpu()
            for row, index in enumerate(batch):
                if index < SHOWN:
                    attention[index] = alpha[row, : x.passage_lengths[row]].cpu()
                    candidates = x.candidate_ids[row]
                    p = log_ps[row, candidates[candidates != END]].exp()
                    # three digits keep a run small
                    probabilities[index] = [float(f"{one:.3g}") for one in p.tolist()]
    shown = range(min(SHOWN, count))
    return Answers(
        log_p, wrong, [attention[k] for k in shown], [probabilities[k] for k in shown]
    )


def recompute_population_statistics_(
    net: Any, questions: EncodedQuestions, batch_size: int
) -> None:
    """Replace the running statistics of batch norm by population statistics, step by step."""
    indices = batch_by_length(questions, batch_size)
    chosen = indices[:: max(1, len(indices) // POPULATION)][:POPULATION]

    def batches_on_device() -> Iterator[QuestionBatch]:
        for batch in chosen:
            yield move_to_device(questions.batch(batch)[0], net.word.device)

    batches: Any = batches_on_device()
    statistics.recompute_statistics(net, batches)


def validation_and_test_metrics(
    net: Any, dataset: QuestionDataset, batch_size: int, *, include_test: bool
) -> dict[str, Any]:
    """Return the metrics of a model, whose running statistics are replaced.

    ``valid_nll`` in nats a question and ``valid_error``, by population statistics;
    ``valid_nll_batch`` and ``valid_error_batch`` by those of the validation batches, as the
    authors have it; with ``include_test``, ``test_nll`` and ``test_error``. Of the first
    :data:`SHOWN` validation questions the attention, pictures ``attention 0`` and so on, and
    ``candidate_probabilities``.
    """
    valid, by_batch = dataset.encoded_split("valid"), None
    if any(isinstance(module, BatchNormalizer) for module in net.modules()):
        by_batch = answer_questions(net, valid, batch_size, StatisticsMode.BATCH)
        recompute_population_statistics_(net, dataset.encoded_split("train"), batch_size)
    batch_size = max(batch_size, BATCH)  # answers no longer depend on the others of their batch
    answers = answer_questions(net, valid, batch_size)
    values: dict[str, Any] = {
        **answers.nll_and_error("valid"),
        **(by_batch or answers).nll_and_error("valid", "_batch"),
        **{f"attention {k}": alpha.half() for k, alpha in enumerate(answers.shown_attention)},
        "candidate_probabilities": answers.shown_candidate_probabilities,
    }
    if include_test:
        values |= answer_questions(
            net, dataset.encoded_split("test"), batch_size
        ).nll_and_error("test")
    return values
