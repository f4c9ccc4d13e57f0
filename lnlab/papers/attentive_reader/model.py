"""A passage and a question about it: two LSTMs, attention, and one of the candidates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import END, Vocabulary
from lnlab.nn import Attention, Identity, Initial, Linear, Norm, modern
from lnlab.nn.padding import within
from lnlab.nn.recurrent import LSTM
from lnlab.papers.vocabularies import VocabularyModel

Draw = Callable[[Tensor], object]


class Asked(NamedTuple):
    """Questions by number; :data:`lnlab.data.vocabulary.END` is behind the end of each row.

    Lengths and counts are on the CPU, where the loop over time looks at them.

    Attributes:
        passage: (B, T).
        lengths: words of each passage, its end included (B,).
        query: (B, U).
        counts: words of each question, its end included (B,).
        candidates: (B, C).
    """

    passage: Tensor
    lengths: Tensor
    query: Tensor
    counts: Tensor
    candidates: Tensor
    on_cpu = ("lengths", "counts")


def glorot(W: Tensor) -> None:
    """The start of the published code: U(-r, r), r^2 = 6 / (H + D + 1); square weights are
    orthogonal, divided by 20."""
    if W.shape[0] == W.shape[1]:
        nn.init.orthogonal_(W, 0.05)
    else:
        bound = (6 / (sum(W.shape) + 1)) ** 0.5
        nn.init.uniform_(W, -bound, bound)


def reseeded(W: Tensor) -> None:
    """:func:`glorot` as the published code calls it: every call begins with the same random
    numbers, so that the four gates of an LSTM start with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch.initial_seed())
        glorot(W)


STARTS: dict[str, Draw] = {"published": reseeded, "paper": glorot, "modern": modern}
"""Rules by which weights are drawn; "modern" is N(0, 1/fan-in), words N(0, 1)."""

PADDING = ("apart", "cyclic", "zeros")
"""The steps of an LSTM that no sequence has: left out; the sequence again from its first word,
as in the published code; the number that ends it. In the last two only the statistics of batch
norm notice."""


class AttentiveReader(VocabularyModel):
    r"""Hermann et al. (2015), in one direction: questions :class:`Asked` to logits (B, V).

    A passage is every h of its LSTM, y_t, a question the last h of another, u:

    .. math::
        \alpha_t &\propto \exp(v^T \tanh(W_y y_t + W_u u)), \quad r = \sum_t \alpha_t y_t \\
        s &= \tanh(W_r r + W_s u + W_m \bar y), \quad p \propto \exp(U s + b)

    with :math:`\bar y` the mean of a passage, as in the published code. Words that are no
    candidates have the logit minus infinity.

    Args:
        vocabulary: that the words are of; weights that were trained with another are refused.
        units: H.
        words: numbers a word.
        norms: make the normalizers of the passage's LSTM, of the question's.
        everywhere: makes those of all other sums but the answer's.
        start: one of :data:`STARTS`.
        padding: one of :data:`PADDING`.
        dropout: of words and of s.
        open: whether every word of the vocabulary is a candidate.
    """

    opaque = True  # how long passages are decides what is computed

    def __init__(
        self,
        vocabulary: Vocabulary,
        units: int,
        words: int,
        norms: tuple[Norm, Norm],
        everywhere: Norm = Identity,
        start: str = "paper",
        *,
        padding: str = "apart",
        dropout: float = 0.0,
        open: bool = False,
    ) -> None:
        super().__init__(vocabulary)
        self.padding, self.dropout, self.open = padding, dropout, open
        draw = STARTS[start]
        initial = Initial(draw, learned_state=True)
        self.word = nn.Parameter(torch.empty(len(vocabulary), words))
        self.passage, self.question = (
            LSTM(words, units, norm=norm, initial=initial) for norm in norms
        )
        self.attention = Attention(units, units, units, norm=everywhere)
        self.W_r, self.W_s, self.W_m = (
            Linear(units, units, everywhere, bias_inside=once) for once in (True, False, False)
        )
        self.answer = Linear(units, len(vocabulary), Identity, bias_inside=True)
        with torch.no_grad():
            self._begin(draw)

    def _begin(self, draw: Draw) -> None:
        """Draw the weights that are not the LSTMs'."""
        if draw is modern:
            nn.init.normal_(self.word)
        else:
            draw(self.word)
        for part in self.modules():
            if isinstance(part, Linear):
                draw(part.W)
                part.norm.start(part.W)

    def forward(self, asked: Asked) -> Tensor:
        return self.read(asked)[0]

    def read(self, asked: Asked) -> tuple[Tensor, Tensor]:
        """Logits (B, V), and alpha (B, T), where the reader looks."""
        y, _ = self._encoded(self.passage, asked.passage, asked.lengths)
        _, u = self._encoded(self.question, asked.query, asked.counts)
        r, alpha = self.attention(u, self.attention.annotate(y, asked.lengths), y[..., 0])
        mean = y.sum(1) / asked.lengths.to(y.device)[:, None]
        s = torch.tanh(self.W_r(r) + self.W_s(u) + self.W_m(mean))
        logits = self.answer(F.dropout(s, self.dropout, self.training))
        return logits if self.open else logits.masked_fill(~self._may(asked), -torch.inf), alpha

    def _may(self, asked: Asked) -> Tensor:
        """True where a word is a candidate (B, V)."""
        none = torch.zeros(
            len(asked.candidates), len(self.word), dtype=torch.bool, device=self.word.device
        )
        may = none.scatter(1, asked.candidates, torch.ones_like(asked.candidates).bool())
        may[:, END] = False  # behind the last candidate
        return may

    def _encoded(self, layer: Any, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Every h of an LSTM over words (B, T), 0 at padding (B, T, H), and the last (B, H)."""
        T = words.shape[1]
        if self.padding == "cyclic":
            places = torch.arange(T) % lengths.cpu()[:, None]
            words = words.gather(1, places.to(words.device))
        x = F.dropout(F.embedding(words.T, self.word), self.dropout, self.training)
        y, _ = layer(x, lengths=lengths if self.padding == "apart" else None)
        y = torch.where(within(lengths, T, y.device)[..., None], y.transpose(0, 1), 0.0)
        return y, y[torch.arange(len(y), device=y.device), (lengths - 1).to(y.device)]
