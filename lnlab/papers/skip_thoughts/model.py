"""A sentence read by one GRU, and its two neighbours told by two more."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import END, UNKNOWN, Vocabulary
from lnlab.nn import STARTS, Norm
from lnlab.nn.padding import places, within
from lnlab.nn.recurrent import GRU
from lnlab.papers.vocabularies import VocabularyModel

CONDITIONS = ("start", "every step")
"""The way in which a decoder knows the sentence: it starts from its vector, as in the authors'
code, or reads it beside every word, as Kiros et al. (2015) have it."""
SIDES = ("before", "after")
"""The neighbours of a sentence, in the order of the decoders."""
ROWS = 512
"""Words whose scores, (ROWS, V), are in memory at once: a processor's cache is not large."""


class Told(NamedTuple):
    """Sentences of one length, each with its two neighbours, by number.

    Attributes:
        middle: the sentences, their ends included (B, T).
        before, after: their neighbours, ends included and :data:`END` behind them (B, U).
        counts: words of both, ends included (B, 2), on the CPU.
    """

    middle: Tensor
    before: Tensor
    after: Tensor
    counts: Tensor
    on_cpu = ("counts",)


class SkipThoughts(VocabularyModel):
    r"""Kiros et al. (2015): :class:`Told` to the nats that its neighbours cost, (2,).

    A sentence is the last state of a GRU over its words, :math:`h`. Each neighbour has a GRU of
    its own, whose state after the words before it says which word comes:

    .. math:: p(w_t \mid w_{<t}, h) \propto \exp(v_{w_t}^T h_t + b_{w_t}).

    The numbers of words and the output layer (v, b) serve all three. Layer norm stands in all
    three GRUs (Ba et al., 2016, eq. 26-28).

    Args:
        vocabulary: that the words are of; weights that were trained with another are refused.
        units: H.
        words: numbers a word.
        norm: makes the normalizers of all GRUs.
        initialisation: "paper" is U(-0.1, 0.1), square weights orthogonal; "modern"
            N(0, 1/fan-in) and words N(0, 1).
        condition: one of :data:`CONDITIONS`.
        settings: passed on to :class:`lnlab.nn.GRUCell`.
    """

    opaque = True  # how long sentences are decides what is computed

    def __init__(
        self,
        vocabulary: Vocabulary,
        units: int,
        words: int,
        norm: Norm,
        initialisation: str = "paper",
        condition: str = "start",
        **settings: Any,
    ) -> None:
        super().__init__(vocabulary)
        self.condition = condition
        self.word = nn.Parameter(torch.empty(len(vocabulary), words))
        self.v = nn.Parameter(torch.empty(len(vocabulary), units))
        self.b = nn.Parameter(torch.zeros(len(vocabulary)))
        with torch.no_grad():
            if initialisation == "paper":
                self.word.uniform_(-0.1, 0.1)
                self.v.uniform_(-0.1, 0.1)
            else:
                self.word.normal_()
                STARTS[initialisation].draw(self.v)
        self.encoder = GRU(words, units, norm=norm, **settings)
        self.decoders = nn.ModuleList(GRU(words, units, norm=norm, **settings) for _ in SIDES)
        if condition == "every step":
            for place, decoder in enumerate([*self.decoders]):
                self.decoders[place] = widened(decoder, norm, **settings)

    def forward(self, told: Told) -> Tensor:
        h = self.read(told.middle)
        return torch.stack([
            self.nats(decoder, h, words, count).sum()
            for decoder, words, count in zip(
                self.decoders, (told.before, told.after), told.counts.T, strict=True
            )
        ])  # fmt: skip

    def read(self, words: Tensor) -> Tensor:
        """The vectors (B, H) of sentences of one length (B, T)."""
        _, last = self.encoder(F.embedding(words.T, self.word))
        return last[-1]

    def nats(self, decoder: nn.Module, h: Tensor, words: Tensor, counts: Tensor) -> Tensor:
        """The nats of each word of neighbours (B, U), one after the other: (words,).

        Args:
            h: the vectors of the sentences (B, H).
            counts: words of each neighbour, its end included (B,).
        """
        x = F.pad(F.embedding(words[:, :-1].T, self.word), (0, 0, 0, 0, 1, 0))
        y, _ = self.tell(decoder, x, h)
        inside = places(within(counts, words.shape[1]).T, y.device)
        ys, rights = y.flatten(0, 1)[inside], words.T.flatten()[inside]
        parts = zip(ys.split(ROWS), rights.split(ROWS), strict=True)
        return torch.cat(
            [
                F.cross_entropy(self.scores(some), right, reduction="none")
                for some, right in parts
            ]
        )

    def tell(
        self, decoder: nn.Module, x: Tensor, h: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The states of a decoder (U, B, H), and the last (1, B, H), over words x (U, B, E).

        Args:
            h: the vectors of the sentences (B, H).
            state: from which it goes on (1, B, H); None: it begins.
        """
        if self.condition == "every step":
            x = torch.cat([x, h.expand(len(x), *h.shape)], dim=-1)
        elif state is None:
            state = h.unsqueeze(0)
        return decoder(x, state)

    def scores(self, y: Tensor) -> Tensor:
        """The scores of words (..., V) by states (..., H)."""
        return F.linear(y, self.v, self.b)

    @torch.no_grad()
    def vectors(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """The vectors (N, H) of sentences of any lengths, those of one length read at once.

        Raises:
            ValueError: for a sentence without words.
        """
        if not all(map(len, sentences)):
            place = [*map(len, sentences)].index(0)
            raise ValueError(f"sentence {place} has no words: leave it out.")
        batches, device = of_one_length(sentences), self.word.device
        read = [
            self.read(torch.tensor([sentences[place] for place in places]).to(device))
            for places in batches
        ]
        order = torch.tensor([place for places in batches for place in places]).argsort()
        return torch.cat(read).index_select(0, order.to(device))

    @torch.no_grad()
    def say(self, h: Tensor, side: str = "after", most: int = 30) -> list[int]:
        """The neighbour that a decoder tells of a sentence's vector (H,), word by word the
        likeliest known one, without its end.

        Args:
            side: one of :data:`SIDES`.
            most: words after which it is cut off.
        """
        decoder = self.decoders[SIDES.index(side)]
        h = h.unsqueeze(0)
        x, state = self.word.new_zeros(1, 1, self.word.shape[1]), None
        said: list[int] = []
        while len(said) < most:
            y, state = self.tell(decoder, x, h, state)
            scores = self.scores(y[0, 0])
            scores[UNKNOWN] = -torch.inf
            word = int(scores.argmax())
            if word == END:
                break
            said.append(word)
            x = self.word[word].view(1, 1, -1)
        return said


@torch.no_grad()
def widened(decoder: Any, norm: Norm, **settings: Any) -> GRU:
    """A decoder that reads the vector of the sentence, too, behind every word.

    The weights that it has already stay: arms that are compared start alike.
    """
    words, units = decoder.input_size, decoder.hidden_size
    with torch.random.fork_rng(devices=[]):
        wide = GRU(words + units, units, norm=norm, **settings)
    (own,), (cell,) = decoder.cells, wide.cells
    C = torch.empty(len(own.W_x), units)
    for gate in C.split(units):
        own.initial.draw(gate)
    cell.W_x.copy_(torch.cat([own.W_x, C], dim=1))
    cell.W_h.copy_(own.W_h)
    return wide


def of_one_length(sentences: Sequence[Sequence[int]], most: int = 256) -> list[list[int]]:
    """The places of sentences in batches of one length, at most ``most`` in each."""
    by_length: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences):
        by_length.setdefault(len(sentence), []).append(place)
    return [
        places[k : k + most]
        for _, places in sorted(by_length.items())
        for k in range(0, len(places), most)
    ]
