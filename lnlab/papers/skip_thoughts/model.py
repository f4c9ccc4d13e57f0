"""Skip-thoughts: one GRU encodes a sentence, two more predict its neighbours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.data.vocabulary import END, UNKNOWN, Vocabulary
from lnlab.nn import CELL_INITS, Identity, LayerNorm, NormLayer
from lnlab.nn.padding import flat_true_indices, length_mask
from lnlab.nn.recurrent import GRU
from lnlab.papers.models import VocabularyCheckedModel, cell_init

if TYPE_CHECKING:
    from lnlab.papers.skip_thoughts.experiment import Experiment

ARMS: dict[str, NormLayer] = {"none": Identity, "layer": LayerNorm}
"""The normalizer of the three GRUs."""
CONDITIONS = ("start", "every step")
"""The use of a sentence's vector by a decoder: as its first state, as in the authors' code, or
as an input beside every word, as Kiros et al. (2015) have it."""
SIDES = ("before", "after")  # the neighbours of a sentence, in the order of the decoders
ROWS = 512  # words whose logits, (ROWS, V), are computed at once: they fit a processor's cache


class SentenceTriples(NamedTuple):
    """Sentences of one length, each with its two neighbours, by number."""

    middle: Tensor  # the sentences, their ends included (B, T)
    before: Tensor  # their neighbours, ends included, padded with :data:`END` (B, U)
    after: Tensor  # their neighbours, ends included, padded with :data:`END` (B, U)
    neighbour_lengths: Tensor  # words of both, ends included (B, 2), on the CPU
    on_cpu = ("neighbour_lengths",)


SummedNatsBeforeAndAfter = Tensor  # (2,): of the words of all neighbours on a side


class SkipThoughts(VocabularyCheckedModel):
    r"""Kiros et al. (2015): :class:`SentenceTriples` to the nats of the neighbours, (2,).

    A sentence is the last state of a GRU over its words, :math:`h`. Each neighbour has its own
    GRU, whose state predicts the next word:

    .. math:: p(w_t \mid w_{<t}, h) \propto \exp(v_{w_t}^T h_t + b_{w_t}).

    All three share the word vectors, both decoders the output layer (v, b). Layer norm is in
    all three GRUs (Ba et al., 2016, eq. 26-28).

    Args:
        config: sizes, normalizers, initialisation, and the use of a sentence's vector.
        vocabulary: of the words; weights that were trained with another are refused.
    """

    opaque_to_vmap = True  # how long sentences are decides what is computed

    def __init__(self, config: "Experiment", vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.condition = config.condition
        embedding_size, (hidden_size,) = config.embedding_size, config.units
        self.word = nn.Parameter(torch.empty(len(vocabulary), embedding_size))
        self.v = nn.Parameter(torch.empty(len(vocabulary), hidden_size))
        self.b = nn.Parameter(torch.zeros(len(vocabulary)))
        with torch.no_grad():
            if config.initialisation == "paper":
                self.word.uniform_(-0.1, 0.1)
                self.v.uniform_(-0.1, 0.1)
            else:
                self.word.normal_()
                CELL_INITS[config.initialisation].input_and_recurrent_weights(self.v)
        norm = ARMS[config.norm]
        settings: Any = {"norm_layer": norm, "initial": cell_init(config, norm)}
        self.encoder, *decoders = (
            GRU(embedding_size, hidden_size, **settings) for _ in ("", *SIDES)
        )
        if self.condition == "every step":
            decoders = [
                widen_decoder_for_sentence_vector(decoder, **settings) for decoder in decoders
            ]
        self.decoders = nn.ModuleList(decoders)

    def forward(self, triples: SentenceTriples) -> SummedNatsBeforeAndAfter:
        h = self.encode_equal_lengths(triples.middle)
        neighbours = (triples.before, triples.after)
        each = zip(self.decoders, neighbours, triples.neighbour_lengths.T, strict=True)
        return torch.stack(
            [
                self.nats_of_each_neighbour_word(decoder, h, *words).sum()
                for decoder, *words in each
            ]
        )

    def encode_equal_lengths(self, word_ids: Tensor) -> Tensor:
        """Return the vectors (B, H) of sentences of one length (B, T)."""
        _, last = self.encoder(F.embedding(word_ids.T, self.word))
        return last[-1]

    def nats_of_each_neighbour_word(
        self, decoder: nn.Module, h: Tensor, word_ids: Tensor, lengths: Tensor
    ) -> Tensor:
        """Return the nats of all words of neighbours (B, U) of these lengths, in one row."""
        # each word is predicted from the one before it, the first from zeros
        x = F.pad(F.embedding(word_ids[:, :-1].T, self.word), (0, 0, 0, 0, 1, 0))
        y, _ = self.run_decoder(decoder, x, h)
        # most of the cost is the output layer: padding is left out
        indices = flat_true_indices(length_mask(lengths, word_ids.shape[1]).T, y.device)
        states, targets = y.flatten(0, 1)[indices], word_ids.T.flatten()[indices]
        nats = [
            F.cross_entropy(self.word_logits(h), right, reduction="none")
            for h, right in zip(states.split(ROWS), targets.split(ROWS), strict=True)
        ]
        return torch.cat(nats)

    def run_decoder(
        self, decoder: nn.Module, x: Tensor, h: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states of a decoder over words x (U, B, E): all (U, B, H), and the last.

        It begins with the vectors h (B, H) of the sentences, or continues from ``state``.
        """
        if self.condition == "every step":
            x = torch.cat([x, h.expand(len(x), *h.shape)], dim=-1)
        elif state is None:
            state = h.unsqueeze(0)
        return decoder(x, state)

    def word_logits(self, y: Tensor) -> Tensor:
        """Return the logits of words (..., V) by states (..., H)."""
        return F.linear(y, self.v, self.b)

    @torch.no_grad()
    def encode_sentences(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """Return the vectors (N, H) of sentences of any lengths."""
        if not all(map(len, sentences)):
            index = [*map(len, sentences)].index(0)
            raise ValueError(f"sentence {index} has no words: leave it out.")
        batches, device = batch_indices_by_length(sentences), self.word.device
        vectors = [
            self.encode_equal_lengths(
                torch.tensor([sentences[index] for index in batch]).to(device)
            )
            for batch in batches
        ]
        order = torch.tensor([index for batch in batches for index in batch]).argsort()
        return torch.cat(vectors).index_select(0, order.to(device))

    @torch.no_grad()
    def generate_neighbour_greedily(
        self, h: Tensor, side: str = "after", max_length: int = 30
    ) -> list[int]:
        """Return the neighbour predicted from a vector (H,), the likeliest word each time."""
        decoder = self.decoders[SIDES.index(side)]
        x, state = self.word.new_zeros(1, 1, self.word.shape[1]), None
        words: list[int] = []
        while len(words) < max_length:
            y, state = self.run_decoder(decoder, x, h.unsqueeze(0), state)
            logits = self.word_logits(y[0, 0])
            logits[UNKNOWN] = -torch.inf  # not a word
            word = int(logits.argmax())
            if word == END:
                break
            words.append(word)
            x = self.word[word].view(1, 1, -1)
        return words


@torch.no_grad()
def widen_decoder_for_sentence_vector(decoder: Any, **settings: Any) -> GRU:
    """Return a decoder that also reads the vector of the sentence, beside every word.

    It keeps the weights of the narrow decoder: compared arms start alike.
    """
    embedding_size, hidden_size = decoder.input_size, decoder.hidden_size
    # the wide decoder's first weights are replaced: drawing them must not move the generator
    with torch.random.fork_rng(devices=[]):
        wide = GRU(embedding_size + hidden_size, hidden_size, **settings)
    (narrow,), (cell,) = decoder.cells, wide.cells
    C = torch.empty(len(narrow.W_x), hidden_size)
    for gate in C.split(hidden_size):
        narrow.initial.input_and_recurrent_weights(gate)
    cell.W_x.copy_(torch.cat([narrow.W_x, C], dim=1))
    cell.W_h.copy_(narrow.W_h)
    return wide


def batch_indices_by_length(
    sentences: Sequence[Sequence[int]], max_batch_size: int = 256
) -> list[list[int]]:
    """Return the indices of sentences in batches of one length, at most ``max_batch_size``."""
    by_length: dict[int, list[int]] = {}
    for index, sentence in enumerate(sentences):
        by_length.setdefault(len(sentence), []).append(index)
    return [
        indices[k : k + max_batch_size]
        for _, indices in sorted(by_length.items())
        for k in range(0, len(indices), max_batch_size)
    ]
