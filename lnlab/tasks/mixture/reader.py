"""The recurrent net of Ziaee & Çano (2022): two LSTMs over words, a normalizer behind each."""

import torch
from torch import Tensor, nn

from lnlab.cells import LSTMCell
from lnlab.cells.lstm import OPEN
from lnlab.norms import Identity, Linear, Norm

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

    opaque = True  # normalizers count batches, and seeds would share a count

    def __init__(self, words: int, embedding: int, units: tuple[int, int], norm: Norm) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.empty(words, embedding))
        nn.init.xavier_uniform_(self.word)
        first, second = units
        cells = [
            LSTMCell(D, H, Identity, initial=OPEN)
            for D, H in ((embedding, first), (first, second))
        ]
        for cell in cells:
            nn.init.xavier_uniform_(cell.W_x)
            nn.init.xavier_uniform_(cell.W_h)
        dense = [
            Linear(D, H, Identity, bias_inside=True) for D, H in ((second, DENSE), (DENSE, 1))
        ]
        for layer in dense:
            nn.init.orthogonal_(layer.W)
        self.cells, self.dense = nn.ModuleList(cells), nn.ModuleList(dense)
        self.norms = nn.ModuleList(map(norm, (first, second, DENSE)))

    def forward(self, x: Tensor) -> Tensor:
        every, last, dense = self.norms
        first, second = self.cells
        hidden, readout = self.dense
        h = every(self.read(first, self.word[x]))
        h = last(self.read(second, h)[:, -1])
        h = dense(torch.tanh(hidden(h)))
        return readout(h).squeeze(-1)

    def read(self, cell: nn.Module, x: Tensor) -> Tensor:
        """The states h (B, T, H) of a cell over x (B, T, D); as Keras drops in training.

        What is dropped is drawn once for each case, not at every step.
        """
        assert isinstance(cell, LSTMCell)
        h, c = cell.start(x.transpose(0, 1))
        keep_x, keep_h = self.kept(x[:, 0]), self.kept(h)
        states = []
        for t in range(x.shape[1]):
            h, c = cell(x[:, t] * keep_x, (h * keep_h, c), t)
            states.append(h)
        return torch.stack(states, dim=1)

    def kept(self, like: Tensor) -> Tensor:
        """Factors of ``like``, 0 or 1/(1 - 0.2), mean 1; all 1 in evaluation."""
        ones = torch.ones_like(like)
        return nn.functional.dropout(ones, DROPPED, self.training)
