"""Captions and images in one space: the more general, the nearer to the origin."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import Vocabulary
from lnlab.nn import CELL_INITS, Identity, LayerNorm, NormLayer
from lnlab.nn.recurrent import GRU
from lnlab.papers.models import VocabularyCheckedModel, cell_init

if TYPE_CHECKING:
    from lnlab.papers.order_embeddings.experiment import Experiment

ARMS: dict[str, NormLayer] = {"none": Identity, "layer": LayerNorm}
"""The normalizer of the GRU that reads captions; images are not normalized."""

CaptionPoints = Tensor  # (B, H)
ImagePoints = Tensor  # (B, H)


class ImageCaptionPairs(NamedTuple):
    """Images, each with one of its captions."""

    features: Tensor  # of the images (B, D)
    word_ids: Tensor  # the captions, each word by its number (B, T)
    caption_lengths: Tensor  # words of each caption (B,), on the CPU
    on_cpu = ("caption_lengths",)


class OrderEmbedding(VocabularyCheckedModel):
    """Vendrov et al. (2016): :class:`ImageCaptionPairs` to points (B, H), none negative.

    A caption is the last state of a GRU (Ba et al., 2016, eq. 26-28) over its words, an image
    a linear map of its features; both are divided by their norms, and signs are dropped.

    Args:
        config: sizes, the normalizer of the GRU, initialisation, and whether captions are
            divided by their norms.
        vocabulary: of the captions; weights that were trained with another are refused.
        feature_size: D.
    """

    opaque_to_vmap = True  # how long captions are decides what is computed

    def __init__(self, config: "Experiment", vocabulary: Vocabulary, feature_size: int) -> None:
        super().__init__(vocabulary)
        self.unit_captions = config.normalize_captions
        embedding_size, (hidden_size,) = config.embedding_size, config.units
        self.word = nn.Parameter(torch.empty(len(vocabulary), embedding_size))
        self.W = nn.Parameter(torch.empty(hidden_size, feature_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        if config.initialisation == "paper":
            nn.init.uniform_(self.word, -0.1, 0.1)
            nn.init.xavier_uniform_(self.W)
        else:
            nn.init.normal_(self.word)
            CELL_INITS[config.initialisation].input_and_recurrent_weights(self.W)
        norm = ARMS[config.norm]
        self.reader = GRU(
            embedding_size, hidden_size, norm_layer=norm, initial=cell_init(config, norm)
        )

    def forward(self, pairs: ImageCaptionPairs) -> tuple[CaptionPoints, ImagePoints]:
        captions = self.embed_captions(pairs.word_ids, pairs.caption_lengths)
        return captions, self.embed_images(pairs.features)

    def embed_captions(self, word_ids: Tensor, lengths: Tensor) -> Tensor:
        """Return captions (B, T) of so many words (B,) as points (B, H)."""
        _, last = self.reader(self.word[word_ids.T], lengths=lengths)
        h = last[-1]
        return (F.normalize(h, dim=-1) if self.unit_captions else h).abs()

    def embed_images(self, features: Tensor) -> Tensor:
        """Return images (B, D) as points (B, H)."""
        return F.normalize(F.linear(features, self.W, self.b), dim=-1).abs()


def order_violation_matrix(captions: Tensor, images: Tensor) -> Tensor:
    """Return max(0, s - i)^2, summed over units: (C, H), (P, H) to (C, P).

    It is 0 where no unit of the caption s exceeds that of the image i (Vendrov et al., 2016,
    eq. 2).
    """
    excess = captions.unsqueeze(-2) - images.unsqueeze(-3)
    return excess.relu().square().sum(-1)


def contrastive_loss(
    captions: Tensor, images: Tensor, image_indices: Tensor, margin: float
) -> Tensor:
    """Return the hinge loss of points (B, H) (Vendrov et al., 2016, eq. 5), summed.

    ``image_indices`` are those of the images (B,): an image twice in a batch is no false pair.
    """
    violation = order_violation_matrix(captions, images)
    right = violation.diagonal()
    wrong = image_indices[:, None] != image_indices
    other_images = (margin + right[:, None] - violation).relu()
    other_captions = (margin + right - violation).relu()
    return ((other_images + other_captions) * wrong).sum()
