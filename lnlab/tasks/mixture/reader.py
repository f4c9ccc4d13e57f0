"""The recurrent net of Ziaee & Çano (2022): two LSTMs over words, a normalizer behind each."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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

    opaque = True  # each seed draws the noise of all its layers before the next one's

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
        return self.behind(self.before(x))

    def before(self, x: Tensor) -> Tensor:
        """The states of the first LSTM (B, T, H), that no normalizer has seen."""
        return self.read(self.cells[0], self.word[x])

    def behind(self, h: Tensor) -> Tensor:
        """The logits (B,), from all states of the first LSTM (B, T, H)."""
        every, last, dense = self.norms
        hidden, readout = self.dense
        h = last(self.read(self.cells[1], every(h))[:, -1])
        h = dense(torch.tanh(hidden(h)))
        return readout(h).squeeze(-1)

    def read(self, cell: nn.Module, x: Tensor) -> Tensor:
        """The states h (B, T, H) of a cell over x (B, T, D); as Keras drops in training.

        What is dropped is drawn once for each case, not at every step. The cell itself is not
        called: the share of x is computed for all steps at once.
        """
        assert isinstance(cell, LSTMCell)
        h, c = cell.start(x.transpose(0, 1))
        keep_x, keep_h = self.kept(x[:, 0]), self.kept(h)
        # nothing is normalized in the cells, and W_x x waits for no h
        from_x = F.linear(x * keep_x[:, None], cell.W_x, cell.b)
        states = []
        for a in from_x.unbind(1):
            h, c = cell.gated(a + F.linear(h * keep_h, cell.W_h), c)
            states.append(h)
        return torch.stack(states, dim=1)

    def kept(self, like: Tensor) -> Tensor:
        """Factors of ``like``, 0 or 1/(1 - 0.2), mean 1; all 1 in evaluation."""
        ones = torch.ones_like(like)
        return F.dropout(ones, DROPPED, self.training)
