"""The speller: an LSTM that attends to what was heard and says one unit after the other."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lnlab.nn import Annotations, Attention, Identity, Linear, LSTMCell, Norm, State


class SpellerState(NamedTuple):
    """The state of a speller: those of its cells, the context, and where it last looked."""

    states: tuple[State, ...]
    context: Tensor
    alpha: Tensor

    def pick(self, rows: Tensor) -> "SpellerState":
        """The memory of some rows of the batch."""
        states = tuple(tuple(s[rows] for s in state) for state in self.states)
        return SpellerState(states, self.context[rows], self.alpha[rows])


class Speller(nn.Module):
    """Chan et al. (2016), section 3.2: units so far and what was heard to the next unit.

    s_u = LSTM(s_{u-1}, [y_{u-1}; context_{u-1}]), context_u = Attention(s_u, h), and logits
    are linear in [s_u; context_u].

    Args:
        vocabulary: V, the units that can be said, the end symbol among them.
        heard: the size of h.
        units: how many the LSTMs have, and the attention.
        layers: how many LSTMs.
        norm: makes the normalizers inside the LSTMs.
        location: kernels of the attention, see :class:`Attention`.
        swapped: whether h and c change places from each step to the next, as in the study's
            published code: ``h, c = state`` there, and ``(new_c, new_h)`` given back.
        dropout: the probability with which a number is dropped that an LSTM gives to the
            next, or the last one to the readout.
        sampling: how often, while training, the unit before is the speller's own instead of
            the right one (Bengio et al. 2015): drawn from what it holds likely.
        settings: passed on to :class:`lnlab.nn.LSTMCell`.
    """

    def __init__(
        self,
        vocabulary: int,
        heard: int,
        units: int,
        layers: int = 1,
        norm: Norm = Identity,
        *,
        location: int = 0,
        swapped: bool = False,
        dropout: float = 0.0,
        sampling: float = 0.0,
        **settings,
    ) -> None:
        super().__init__()
        if not 0 <= sampling <= 1:
            raise ValueError(f"sampling is {sampling}: give a probability.")
        self.dropout, self.sampling = nn.Dropout(dropout), sampling
        self.embedding = nn.Embedding(vocabulary + 1, units)  # the last: where to begin
        sizes = [units + heard] + [units] * (layers - 1)
        self.cells: Any = nn.ModuleList(LSTMCell(D, units, norm, **settings) for D in sizes)
        self.attention = Attention(units, heard, units, location=location)
        self.readout = Linear(units + heard, vocabulary, Identity, bias_inside=True)
        self.vocabulary, self.swapped = vocabulary, swapped

    def start(self, heard: Annotations) -> SpellerState:
        """The memory before the first unit: nothing is said, and nothing attended to yet."""
        states = tuple(cell.start(heard.h[:, 0]) for cell in self.cells)
        return SpellerState(
            states, torch.zeros_like(heard.h[:, 0]), torch.zeros_like(heard.keys[..., 0])
        )

    def step(
        self, last: Tensor, memory: SpellerState, heard: Annotations, u: int
    ) -> tuple[Tensor, SpellerState]:
        """Logits (B, V) of unit number u after ``last`` (B,), and where the speller is then."""
        s = torch.cat([self.embedding(last), memory.context], dim=-1)
        states = []
        for cell, state in zip(self.cells, memory.states, strict=True):
            h, c = cell(s, state, u)
            states.append((c, h) if self.swapped else (h, c))
            s = self.dropout(h)
        context, alpha = self.attention(s, heard, memory.alpha)
        logits = self.readout(torch.cat([s, context], dim=-1))
        return logits, SpellerState(tuple(states), context, alpha)

    def forward(self, heard: Annotations, y: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, U, V) and alpha (B, U, T) where the right units y (B, U) were said."""
        memory, logits, alphas = self.start(heard), [], []
        begin = torch.full_like(y[:, :1], self.vocabulary)
        for u, last in enumerate(torch.cat([begin, y[:, :-1]], dim=1).T):
            if u and self.training and self.sampling:
                last = self._own(last, logits[-1])
            scores, memory = self.step(last, memory, heard, u)
            logits.append(scores)
            alphas.append(memory.alpha)
        return torch.stack(logits, 1), torch.stack(alphas, 1)

    @torch.no_grad()
    def _own(self, right: Tensor, logits: Tensor) -> Tensor:
        """The right units (B,), some of them exchanged for what the speller would say."""
        own = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        return torch.where(torch.rand_like(logits[:, 0]) < self.sampling, own, right)
