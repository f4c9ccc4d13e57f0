"""A passage and a question about it: two LSTMs, attention, and one of the candidates."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import END, Vocabulary
from lnlab.nn import (
    Attention,
    BatchNorm,
    CellInit,
    Identity,
    LayerNorm,
    Linear,
    NormLayer,
    RecurrentBatchNorm,
    init_variance_preserving_,
)
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import LSTM
from lnlab.papers.models import VocabularyCheckedModel, set_gains_
from lnlab.training.random_state import seed_torch_temporarily

if TYPE_CHECKING:
    from lnlab.papers.attentive_reader.experiment import Experiment

GateInitializer = Callable[[Tensor], object]
MakeNorm = Callable[[int], NormLayer]  # makes a normalizer for a number of time steps


def _recurrent_batch_norm_factory(steps: int) -> NormLayer:
    return partial(RecurrentBatchNorm, steps=steps)


ARMS: dict[str, tuple[MakeNorm, NormLayer, float]] = {
    "none": (lambda steps: Identity, Identity, 1.0),
    "layer": (lambda steps: LayerNorm, Identity, 1.0),
    "batch": (_recurrent_batch_norm_factory, Identity, 0.1),
    "batch everywhere": (_recurrent_batch_norm_factory, BatchNorm, 0.1),
}
"""The normalizer of the LSTMs, that of all other sums, and the first gain of both."""


class QuestionBatch(NamedTuple):
    """Questions by number, padded with :data:`lnlab.data.vocabulary.END`.

    Lengths count the end of a sequence. They are on the CPU, where the loop over time reads
    them.
    """

    passage: Tensor  # (B, T)
    passage_lengths: Tensor  # (B,)
    query: Tensor  # (B, U)
    query_lengths: Tensor  # (B,)
    candidate_ids: Tensor  # (B, C)
    on_cpu = ("passage_lengths", "query_lengths")


def glorot_or_small_orthogonal_(W: Tensor) -> None:
    """Draw weights as the published code does: U(-r, r), r^2 = 6 / (H + D + 1).

    Square weights are orthogonal, divided by 20.
    """
    if W.shape[0] == W.shape[1]:
        nn.init.orthogonal_(W, 0.05)
    else:
        bound = (6 / (sum(W.shape) + 1)) ** 0.5
        nn.init.uniform_(W, -bound, bound)


def glorot_or_small_orthogonal_same_seed_(W: Tensor) -> None:
    """Draw weights by :func:`glorot_or_small_orthogonal_` as the published code calls it.

    Every call begins with the same random numbers, so that the four gates of an LSTM start with
    the same weights.
    """
    with seed_torch_temporarily(torch.initial_seed()):
        glorot_or_small_orthogonal_(W)


STARTS: dict[str, GateInitializer] = {
    "published": glorot_or_small_orthogonal_same_seed_,
    "paper": glorot_or_small_orthogonal_,
    "modern": init_variance_preserving_,
}
"""Rules by which weights are drawn; "modern" is N(0, 1/fan-in), words N(0, 1)."""

PADDING = ("apart", "cyclic", "zeros")
"""The steps of an LSTM behind the end of a sequence: left out; the sequence again from its
first word, as in the published code; its end symbol. The last two change only the statistics
of batch norm."""


class AttentiveReader(VocabularyCheckedModel):
    r"""Hermann et al. (2015), in one direction: a :class:`QuestionBatch` to logits (B, V).

    A passage is every h of its LSTM, y_t, a question the last h of another, u:

    .. math::
        \alpha_t &\propto \exp(v^T \tanh(W_y y_t + W_u u)), \quad r = \sum_t \alpha_t y_t \\
        s &= \tanh(W_r r + W_s u + W_m \bar y), \quad p \propto \exp(U s + b)

    with :math:`\bar y` the mean of a passage, as in the published code. Words that are no
    candidates have the logit minus infinity.

    Args:
        config: sizes, normalizers, initialisation, padding, dropout and answers.
        vocabulary: of the words; weights that were trained with another are refused.
        steps: the time steps of the passage's batch statistics, and of the question's.
    """

    opaque_to_vmap = True  # how long passages are decides what is computed

    def __init__(
        self, config: "Experiment", vocabulary: Vocabulary, steps: tuple[int, int]
    ) -> None:
        super().__init__(vocabulary)
        self.padding, self.dropout = config.padding, config.dropout
        self.any_word = config.answers == "vocabulary"
        recurrent, everywhere, gain = ARMS[config.norm]
        draw = STARTS[config.initialisation]
        initial = CellInit(draw, learned_initial_state=True)
        embedding_size, (H,) = config.embedding_size, config.units
        self.word = nn.Parameter(torch.empty(len(vocabulary), embedding_size))
        self.passage, self.question = (
            LSTM(embedding_size, H, norm_layer=recurrent(T), initial=initial) for T in steps
        )
        self.attention = Attention(H, H, H, norm_layer=everywhere)
        self.W_r, self.W_s, self.W_m = (
            Linear(H, H, everywhere, bias=once) for once in (True, False, False)
        )
        self.answer = Linear(H, len(vocabulary), Identity, bias=True)
        with torch.no_grad():
            if draw is init_variance_preserving_:
                nn.init.normal_(self.word)
            else:
                draw(self.word)
            for module in self.modules():
                if isinstance(module, Linear):  # the LSTMs have drawn theirs
                    draw(module.W)
                    module.norm.initialize_from_weights(module.W)
        set_gains_(self, config.gain or gain)

    def forward(self, batch: QuestionBatch) -> Tensor:
        return self.logits_and_attention(batch)[0]

    def logits_and_attention(self, batch: QuestionBatch) -> tuple[Tensor, Tensor]:
        """Return logits (B, V), and the attention alpha (B, T)."""
        y, _ = self._all_and_last_states(self.passage, batch.passage, batch.passage_lengths)
        _, u = self._all_and_last_states(self.question, batch.query, batch.query_lengths)
        annotations = self.attention.annotate(y, batch.passage_lengths)
        r, alpha = self.attention(u, annotations, y[..., 0])
        mean = y.sum(1) / batch.passage_lengths.to(y.device)[:, None]
        s = torch.tanh(self.W_r(r) + self.W_s(u) + self.W_m(mean))
        logits = self.answer(F.dropout(s, self.dropout, self.training))
        if not self.any_word:
            mask = torch.zeros_like(logits, dtype=torch.bool).scatter(
                1, batch.candidate_ids, True
            )
            mask[:, END] = False  # the padding of candidates
            logits = logits.masked_fill(~mask, -torch.inf)
        return logits, alpha

    def _all_and_last_states(
        self, lstm: Any, words: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return every h of an LSTM over words (B, T), 0 at padding (B, T, H), and the last."""
        T = words.shape[1]
        if self.padding == "cyclic":
            steps = torch.arange(T) % lengths.cpu()[:, None]
            words = words.gather(1, steps.to(words.device))
        x = F.dropout(F.embedding(words.T, self.word), self.dropout, self.training)
        y, _ = lstm(x, lengths=lengths if self.padding == "apart" else None)
        # zeros behind the end: the mean over a passage is then a sum over all steps
        y = torch.where(length_mask(lengths, T, y.device)[..., None], y.transpose(0, 1), 0.0)
        return y, y[torch.arange(len(y), device=y.device), (lengths - 1).to(y.device)]
