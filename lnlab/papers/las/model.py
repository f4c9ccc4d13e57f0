"""Listener and speller together, and the batches that they are given."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lnlab.nn import Annotations, Attention, Identity, Linear, LSTMCell, Norm, State
from lnlab.nn.padding import within
from lnlab.nn.recurrent import LSTM
from lnlab.papers.las.recordings import Utterance

# The listener: a pyramid of bidirectional LSTMs that halves time from layer to layer.


class Listener(nn.Module):
    """Chan et al. (2016), section 3.1: x (B, T, D) to h (B, T', 2 H), and how long each is.

    Frames are joined in twos before each layer but the last, so that T' is T / 2^(layers - 1),
    rounded up. Padding enters no output, no statistic over features and no later layer.

    Args:
        inputs: D.
        units: H, of each direction.
        layers: how many LSTMs; the last one reads no pairs.
        norm: makes the normalizers inside the LSTMs: layer norm as in eq. 7-9 of Ben Othman
            (2018) with :class:`lnlab.nn.LayerNorm`.
        after: makes what normalizes the outputs of each layer, of 2 H units; it is called
            with what it normalizes (B, T, 2 H) and the lengths. :class:`OverTime` is what
            the study's published code does.
        dropout: the probability with which an output of a layer is dropped.
        noise: standard deviation of what is added to x while training.
        settings: passed on to :class:`lnlab.nn.LSTMCell`.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int = 3,
        norm: Norm = Identity,
        after: "Callable[[int], After] | None" = None,
        *,
        dropout: float = 0.0,
        noise: float = 0.0,
        **settings,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers is {layers}: a listener has at least one.")
        self.dropout, self.noise = nn.Dropout(dropout), noise
        self.joined = 2 ** (layers - 1)  # frames that one step of h holds
        sizes = [inputs * 2 if layers > 1 else inputs] + [4 * units] * (layers - 1)
        if layers > 1:
            sizes[-1] = 2 * units
        self.layers = nn.ModuleList(
            LSTM(D, units, bidirectional=True, norm=norm, **settings) for D in sizes
        )
        self.after = nn.ModuleList(after(2 * units) for _ in sizes) if after else None

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """h (B, T', 2 H) and its lengths (B,); 0 where nothing is left.

        Raises:
            ValueError: where an utterance has no frames.
        """
        if bool((lengths < 1).any()):
            place = int((lengths < 1).nonzero()[0])
            raise ValueError(f"utterance {place} of the batch has no frames: leave it out.")
        h = x.transpose(0, 1)  # (T, B, D)
        if self.training and self.noise:
            h = h + self.noise * torch.randn_like(h) * heard(h, lengths)
        last = len(self.layers) - 1
        for place, layer in enumerate(self.layers):
            if place < last:
                h, lengths = paired(h, lengths)
            h, _ = layer(h, lengths=lengths)
            if self.after is not None:
                h = self.after[place](h.transpose(0, 1), lengths).transpose(0, 1)
                h = h * heard(h, lengths)
            h = self.dropout(h)
        return h.transpose(0, 1), lengths


def heard(h: Tensor, lengths: Tensor) -> Tensor:
    """The steps of h (T, B, D) that are no padding, a mask (T, B, 1)."""
    return within(lengths, len(h), h.device).T.unsqueeze(-1)


def paired(h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Steps (T, B, D) joined in twos, (T / 2, B, 2 D) rounded up; an odd end gets a 0."""
    T, B, D = h.shape
    if T % 2:
        h = torch.cat([h, h.new_zeros(1, B, D)])
    joined = h.view(-1, 2, B, D).transpose(1, 2).reshape(-1, B, 2 * D)
    return joined, (lengths + 1) // 2


class After(nn.Module):
    """Normalizes the outputs (B, T, H) of a layer, with gain and bias for each unit."""

    def __init__(self, units: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.g, self.b = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        raise NotImplementedError


class OverFeatures(After):
    """Layer norm of the outputs: statistics over the units of one moment."""

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        return nn.functional.layer_norm(h, h.shape[-1:], self.g, self.b, self.eps)


class OverTime(After):
    """Statistics of one unit over time, as the study's published code has in its listener.

    Its axes [1] of (B, T, H) are time, not features (commit 2d31ae8 of its repository), and
    padding counts. ``masked`` leaves the padding out, which the code does not.
    """

    def __init__(self, units: int, *, eps: float = 1e-5, masked: bool = False) -> None:
        super().__init__(units, eps=eps)
        self.masked = masked

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        if self.masked:
            inside = within(lengths, h.shape[1], h.device).unsqueeze(-1)
            count = inside.sum(1, keepdim=True)
            mu = (h * inside).sum(1, keepdim=True) / count
            var = ((h - mu).square() * inside).sum(1, keepdim=True) / count
        else:
            var, mu = torch.var_mean(h, dim=1, correction=0, keepdim=True)
        return self.g * (h - mu) / (var + self.eps).sqrt() + self.b


# The speller: an LSTM that attends to what was heard and says one unit after the other.


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


class Heeded(NamedTuple):
    """A batch of utterances as the net is given it.

    Attributes:
        features: (B, T, D), zeros behind the end.
        lengths: frames of each (B,), on the CPU.
        units: what is said, with the end symbol, which is also the padding (B, U).
    """

    features: Tensor
    lengths: Tensor
    units: Tensor
    on_cpu = ("lengths",)


class ListenAttendSpell(nn.Module):
    """A batch :class:`Heeded` to logits (B, U, V), each unit after the right ones before."""

    opaque = True  # how long utterances are decides what is computed

    def __init__(self, listener: Listener, speller: Speller) -> None:
        super().__init__()
        self.listener, self.speller = listener, speller

    def forward(self, batch: Heeded) -> Tensor:
        logits, _ = self.spell(batch)
        return logits

    def spell(self, batch: Heeded) -> tuple[Tensor, Tensor]:
        """Logits (B, U, V) and alpha (B, U, T')."""
        return self.speller(self.hear(batch), batch.units)

    def hear(self, batch: Heeded) -> Annotations:
        """The annotations of what was heard, to be attended to."""
        return self.speller.attention.annotate(*self.listener(batch.features, batch.lengths))


def gathered(
    utterances: Sequence[Utterance],
    numbers: dict[str, int],
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> tuple[Heeded, Tensor]:
    """A batch, and how many units each has with its end symbol (B,).

    Args:
        numbers: the number of each unit; the end symbol has the one behind the last.
    """
    end = len(numbers)
    heard = [u.features for u in utterances]
    lengths = torch.tensor([len(found) for found in heard])
    counts = torch.tensor([len(u.units) + 1 for u in utterances])
    features = torch.zeros(len(heard), int(lengths.max()), heard[0].shape[1], dtype=dtype)
    units = torch.full((len(utterances), int(counts.max())), end)
    for row, utterance in enumerate(utterances):
        features[row, : lengths[row]] = heard[row]
        said = [numbers[unit] for unit in utterance.units]
        units[row, : len(said)] = torch.tensor(said)
    return Heeded(features.to(device), lengths, units.to(device)), counts.to(device)
