"""Captions and pictures in one space: what is more general lies nearer to the origin."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import Vocabulary
from lnlab.nn import STARTS, Norm
from lnlab.nn.recurrent import GRU
from lnlab.papers.vocabularies import OfVocabulary


class Pairs(NamedTuple):
    """Pictures, each with one of its captions.

    Attributes:
        vectors: the pictures (B, D).
        words: the captions, each word by its number (B, T).
        lengths: how many words each caption has (B,), on the CPU.
    """

    vectors: Tensor
    words: Tensor
    lengths: Tensor
    on_cpu = ("lengths",)


class OrderEmbedding(OfVocabulary):
    """Vendrov et al. (2016): :class:`Pairs` to captions and pictures (B, H), none negative.

    A caption is the last state of a GRU (Ba et al., 2016, eq. 26-28) over its words, a picture
    a linear map of its vector; both are divided by their lengths, and signs are dropped.

    Args:
        vocabulary: the words of the captions. Weights that were trained with others are
            refused.
        inputs: D.
        units: H.
        words: E, numbers a word.
        norm: makes the normalizers of the GRU's summed inputs; nothing else is normalized.
        initialisation: "paper" is that of the authors' code, "modern" keeps unit variance.
        unit_captions: whether captions are divided by their lengths.
        settings: passed on to :class:`lnlab.nn.GRUCell`.
    """

    opaque = True  # how long captions are decides what is computed

    def __init__(
        self,
        vocabulary: Vocabulary,
        inputs: int,
        units: int,
        words: int,
        norm: Norm,
        initialisation: str = "paper",
        *,
        unit_captions: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(vocabulary)
        self.unit_captions = unit_captions
        self.word = nn.Parameter(torch.empty(len(vocabulary), words))
        self.W = nn.Parameter(torch.empty(units, inputs))
        self.b = nn.Parameter(torch.zeros(units))
        if initialisation == "paper":
            nn.init.uniform_(self.word, -0.1, 0.1)
            nn.init.xavier_uniform_(self.W)
        else:
            nn.init.normal_(self.word)
            STARTS[initialisation].draw(self.W)
        self.reader = GRU(words, units, norm=norm, **settings)

    def forward(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return self.read(pairs.words, pairs.lengths), self.see(pairs.vectors)

    def read(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Captions (B, T) of so many words (B,) as points (B, H)."""
        _, last = self.reader(self.word[words.T], lengths=lengths)
        h = last[-1]
        return (F.normalize(h, dim=-1) if self.unit_captions else h).abs()

    def see(self, vectors: Tensor) -> Tensor:
        """Pictures (B, D) as points (B, H)."""
        return F.normalize(F.linear(vectors, self.W, self.b), dim=-1).abs()


def penalty(captions: Tensor, pictures: Tensor) -> Tensor:
    """The order violation max(0, s - i)^2, summed over units: (C, H), (P, H) to (C, P).

    It is 0 where the caption s lies nowhere beyond the picture i (Vendrov et al., 2016, eq. 2).
    """
    beyond = captions.unsqueeze(-2) - pictures.unsqueeze(-3)
    return beyond.relu().square().sum(-1)


def contrastive(captions: Tensor, pictures: Tensor, places: Tensor, margin: float) -> Tensor:
    """The hinge loss of a batch (Vendrov et al., 2016, eq. 5), summed: (B, H), (B, H) to ().

    Args:
        places: which picture each is (B,): a caption is no wrong one of its own picture.
    """
    violation = penalty(captions, pictures)
    right = violation.diagonal()
    wrong = places[:, None] != places
    pictures_apart = (margin + right[:, None] - violation).relu()
    captions_apart = (margin + right - violation).relu()
    return ((pictures_apart + captions_apart) * wrong).sum()
