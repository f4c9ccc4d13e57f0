"""The recurrent net of Ziaee & Çano (2022): two LSTMs over words, a normalizer behind each."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn import Identity, Linear, Norm
from lnlab.nn.cells import OPEN
from lnlab.nn.recurrent import LSTM, unroll

DROPPED = 0.2
"""The part of inputs and of states that is dropped, the same units at every step of a case."""
DENSE = 32


class ReviewReader(nn.Module):
    """Words by number (B, T) to one logit a review (B,).

    An embedding, an LSTM, a normalizer at every step, an LSTM whose last state counts, a
    normalizer, a dense layer with tanh, a normalizer, a logit. The normalizers stand between
    the layers and not in the cells. Embedding and LSTMs start as in Glorot & Bengio (2010),
    forget gates open; dense layers orthogonal.

    Args:
        words: V.
        embedding: numbers a word.
        units: of the two LSTMs.
        norm: makes the normalizers.
    """

    opaque = True  # each seed draws the noise of all its layers before the next one's

    def __init__(self, words: int, embedding: int, units: tuple[int, int], norm: Norm) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.empty(words, embedding))
        nn.init.xavier_uniform_(self.word)
        first, second = units
        layers = [
            LSTM(D, H, norm=Identity, initial=OPEN)
            for D, H in ((embedding, first), (first, second))
        ]
        for (cell,) in (layer.cells for layer in layers):
            nn.init.xavier_uniform_(cell.W_x)
            nn.init.xavier_uniform_(cell.W_h)
        dense = [
            Linear(D, H, Identity, bias_inside=True) for D, H in ((second, DENSE), (DENSE, 1))
        ]
        for layer in dense:
            nn.init.orthogonal_(layer.W)
        self.layers, self.dense = nn.ModuleList(layers), nn.ModuleList(dense)
        self.norms = nn.ModuleList(map(norm, (first, second, DENSE)))

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.before(x))

    def before(self, x: Tensor) -> Tensor:
        """The states of the first LSTM (B, T, H), that no normalizer has seen."""
        return self.read(self.layers[0], self.word[x])

    def behind(self, h: Tensor) -> Tensor:
        """The logits (B,), from all states of the first LSTM (B, T, H)."""
        every, last, dense = self.norms
        hidden, readout = self.dense
        h = last(self.read(self.layers[1], every(h))[:, -1])
        h = dense(torch.tanh(hidden(h)))
        return readout(h).squeeze(-1)

    def read(self, layer: nn.Module, x: Tensor) -> Tensor:
        """The states h (B, T, H) of an LSTM over x (B, T, D); as Keras drops in training.

        What is dropped is drawn once for each case, not at every step.
        """
        assert isinstance(layer, LSTM)
        (cell,), x = layer.cells, x.transpose(0, 1)
        if self.training:
            keep_x, keep_h = self.kept(x[0]), self.kept(x.new_empty(x.shape[1], cell.units))
            return layer.unroll(cell, x * keep_x, mask=keep_h)[0].transpose(0, 1)
        # evaluation is of many batches side by side, by torch.func, which sees no kernel
        return unroll(cell, x)[0].transpose(0, 1)

    def kept(self, like: Tensor) -> Tensor:
        """Factors of ``like``, 0 or 1/(1 - 0.2), mean 1."""
        return F.dropout(torch.ones_like(like), DROPPED)
