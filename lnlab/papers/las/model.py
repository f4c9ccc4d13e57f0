"""Listen, attend and spell: the listener, the speller, and the batches that they read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from lnlab.nn import (
    MODERN_INIT,
    Annotations,
    Attention,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    LSTMCell,
    NormOfProductsOrSum,
    State,
)
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import LSTM
from lnlab.papers.las.recordings import Utterance
from lnlab.papers.models import cell_init

if TYPE_CHECKING:
    from lnlab.papers.las.experiment import Experiment

ARMS: dict[str, tuple[bool, bool]] = {
    "none": (False, False),
    "encoder": (True, False),
    "decoder": (False, True),
    "both": (True, True),
}
"""The four columns of the study: whether the listener and the speller are normalized."""

PUBLISHED: dict[str, Any] = {
    "norm_layer": partial(LayerNorm, elementwise_affine=False, eps=1e-3),
    "gate_norm_layer": partial(GroupNorm, 4, affine=False, eps=1e-3),
    "norm_scope": NormOfProductsOrSum.JOINT,
    "initial": replace(MODERN_INIT, forget_bias=1.0),
}
"""The speller's cell in the study's published code, after hardmaru/supercell: each gate is
normalized by itself, without gain or bias. Its weights are drawn as ours."""

# The listener: a pyramid of bidirectional LSTMs that halves time from layer to layer.


class Listener(nn.Module):
    """Chan et al. (2016), section 3.1: x (B, T, D) to h (B, T', 2 H), and its lengths.

    Two frames are joined to one before each layer but the last, so that T' is
    T / 2^(layers - 1), rounded up. Padding enters no output, no statistic over features and no
    later layer.

    Args:
        config: sizes, normalizers and their places, initialisation, dropout and noise.
        inputs: D.
    """

    def __init__(self, config: "Experiment", inputs: int) -> None:
        super().__init__()
        normalized, _ = ARMS[config.norm]
        in_cells = normalized and config.encoder_norm == "cell"
        after = ENCODER_NORMS[config.encoder_norm] if normalized else None
        norm = LayerNorm if in_cells else Identity
        settings: Any = {"norm_layer": norm, "initial": cell_init(config, norm)}
        (units, _), layers = config.units, config.encoder_layers
        self.dropout, self.noise = nn.Dropout(config.dropout), config.input_noise
        self.joined = 2 ** (layers - 1)  # frames of one step of h
        # a layer but the last reads two steps of the layer below at once
        steps = [2] * (layers - 1) + [1]
        widths = [inputs] + [2 * units] * (layers - 1)
        self.layers = nn.ModuleList(
            LSTM(count * width, units, bidirectional=True, **settings)
            for count, width in zip(steps, widths, strict=True)
        )
        self.after = nn.ModuleList(after(2 * units) for _ in steps) if after else None

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return h (B, T', 2 H), 0 at padding, and its lengths (B,)."""
        h = x.transpose(0, 1)  # (T, B, D)
        if self.training and self.noise:
            h = h + self.noise * torch.randn_like(h) * time_first_non_padding_mask(h, lengths)
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            if index < last:
                h, lengths = join_step_pairs(h, lengths)
            h, _ = layer(h, lengths=lengths)
            if self.after is not None:
                h = self.after[index](h.transpose(0, 1)).transpose(0, 1)
                h = h * time_first_non_padding_mask(h, lengths)
            h = self.dropout(h)
        return h.transpose(0, 1), lengths


def time_first_non_padding_mask(h: Tensor, lengths: Tensor) -> Tensor:
    """Return True for the steps of h (T, B, D) that are no padding (T, B, 1)."""
    return length_mask(lengths, len(h), h.device).T.unsqueeze(-1)


def join_step_pairs(h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Join every two steps (T, B, D) to one (T / 2, B, 2 D); an odd last one gets zeros."""
    T, B, D = h.shape
    if T % 2:
        h = torch.cat([h, h.new_zeros(1, B, D)])
    joined = h.view(-1, 2, B, D).transpose(1, 2).reshape(-1, B, 2 * D)
    return joined, (lengths + 1) // 2


class ListenerOutputNorm(nn.Module):
    """A normalizer of the outputs (B, T, H) of a layer, with gain and bias for each unit."""

    eps = 1e-5

    def __init__(self, units: int) -> None:
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))


class LayerNormOverFeatures(ListenerOutputNorm):
    """Layer norm of the outputs: statistics over the units of one time step."""

    def forward(self, h: Tensor) -> Tensor:
        return nn.functional.layer_norm(h, h.shape[-1:], self.g, self.b, self.eps)


class InstanceNormOverPaddedTime(ListenerOutputNorm):
    """Statistics of one unit over time, as the study's published code has in its listener.

    Its axes [1] of (B, T, H) are time, not features (commit 2d31ae8 of its repository), and
    padding counts.
    """

    def forward(self, h: Tensor) -> Tensor:
        var, mu = torch.var_mean(h, dim=1, correction=0, keepdim=True)
        return self.g * (h - mu) / (var + self.eps).sqrt() + self.b


ENCODER_NORMS = {
    "cell": None,
    "features": LayerNormOverFeatures,
    "time": InstanceNormOverPaddedTime,
}
"""The places where the listener is normalized: its LSTMs, eq. 7-9 of the study, or outputs over
features; over time, as the study's published code does."""

# The speller: an LSTM that attends to the listener's h and gives one unit after the other.


class SpellerState(NamedTuple):
    """The state of a speller: the states of its cells, the context, and the attention."""

    cell_states: tuple[State, ...]
    context: Tensor
    alpha: Tensor

    def select_examples(self, rows: Tensor) -> "SpellerState":
        """Return the state of some rows of the batch."""
        states = tuple(tuple(s[rows] for s in state) for state in self.cell_states)
        return SpellerState(states, self.context[rows], self.alpha[rows])


class Speller(nn.Module):
    """Chan et al. (2016), section 3.2: the next unit, from the units before it and h.

    s_u = LSTM(s_{u-1}, [y_{u-1}; context_{u-1}]), context_u = Attention(s_u, h), and logits
    are linear in [s_u; context_u].

    Args:
        config: sizes, normalizers, initialisation, dropout, and the mistake of the study's
            published code, by which h and c change places from each step to the next:
            ``h, c = state`` there, and ``(new_c, new_h)`` given back.
        vocabulary: V, the number of units, the end symbol included.
    """

    def __init__(self, config: "Experiment", vocabulary: int) -> None:
        super().__init__()
        _, normalized = ARMS[config.norm]
        norm = LayerNorm if normalized else Identity
        settings: Any = {"norm_layer": norm, "initial": cell_init(config, norm)}
        if normalized and config.published_cell:
            settings = PUBLISHED
        (half, units), layers = config.units, config.decoder_layers
        annotations = 2 * half
        self.dropout, self.sampling = nn.Dropout(config.dropout), config.scheduled_sampling
        self.embedding = nn.Embedding(vocabulary + 1, units)  # the last one begins
        sizes = [units + annotations] + [units] * (layers - 1)
        self.cells: Any = nn.ModuleList(LSTMCell(D, units, **settings) for D in sizes)
        self.attention = Attention(units, annotations, units)
        self.readout = Linear(units + annotations, vocabulary, Identity, bias=True)
        self.vocabulary, self.swapped = vocabulary, config.swap_states

    def initial_state(self, annotations: Annotations) -> SpellerState:
        """Return the state before the first unit."""
        first = annotations.h[:, 0]
        states = tuple(cell.initial_state(first) for cell in self.cells)
        alpha = torch.zeros_like(annotations.keys[..., 0])
        return SpellerState(states, torch.zeros_like(first), alpha)

    def step(
        self, last_units: Tensor, state: SpellerState, annotations: Annotations, u: int
    ) -> tuple[Tensor, SpellerState]:
        """Return the logits (B, V) of unit u after ``last_units`` (B,), and the new state."""
        s = torch.cat([self.embedding(last_units), state.context], dim=-1)
        states = []
        for cell, before in zip(self.cells, state.cell_states, strict=True):
            h, c = cell(s, before, u)
            states.append((c, h) if self.swapped else (h, c))
            s = self.dropout(h)
        context, alpha = self.attention(s, annotations, state.alpha)
        logits = self.readout(torch.cat([s, context], dim=-1))
        return logits, SpellerState(tuple(states), context, alpha)

    def forward(self, annotations: Annotations, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, U, V) and alpha (B, U, T) after the right units y (B, U)."""
        state, logits, alphas = self.initial_state(annotations), [], []
        begin = torch.full_like(y[:, :1], self.vocabulary)
        for u, last in enumerate(torch.cat([begin, y[:, :-1]], dim=1).T):
            if u and self.training and self.sampling:
                last = self._replace_some_by_samples(last, logits[-1])
            scores, state = self.step(last, state, annotations, u)
            logits.append(scores)
            alphas.append(state.alpha)
        return torch.stack(logits, 1), torch.stack(alphas, 1)

    @torch.no_grad()
    def _replace_some_by_samples(self, correct_units: Tensor, logits: Tensor) -> Tensor:
        """Return the right units (B,), some replaced by units drawn from the logits."""
        drawn = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        return torch.where(torch.rand_like(logits[:, 0]) < self.sampling, drawn, correct_units)


class SpeechBatch(NamedTuple):
    """A batch of utterances."""

    features: Tensor  # (B, T, D), zeros at padding
    lengths: Tensor  # frames of each (B,), on the CPU
    units: Tensor  # the right units and the end symbol, which is also the padding (B, U)
    on_cpu = ("lengths",)


class ListenAttendSpell(nn.Module):
    """A :class:`SpeechBatch` to logits (B, U, V), each unit after the right ones before."""

    opaque_to_vmap = True  # how long utterances are decides what is computed

    def __init__(self, listener: Listener, speller: Speller) -> None:
        super().__init__()
        self.listener, self.speller = listener, speller

    def forward(self, batch: SpeechBatch) -> Tensor:
        return self.logits_and_attention(batch)[0]

    def logits_and_attention(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Return logits (B, U, V) and alpha (B, U, T')."""
        return self.speller(self.listen(batch), batch.units)

    def listen(self, batch: SpeechBatch) -> Annotations:
        """Return the annotations to which the speller attends."""
        return self.speller.attention.annotate(*self.listener(batch.features, batch.lengths))


def make_batch_and_unit_counts(
    utterances: Sequence[Utterance],
    unit_ids: Mapping[str, int],
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> tuple[SpeechBatch, Tensor]:
    """Return a batch of utterances, and the number of units of each, the end included (B,).

    ``unit_ids`` has the number of each unit; the end symbol has the one behind the last.
    """
    end = len(unit_ids)
    features = [utterance.features for utterance in utterances]
    units = [torch.tensor([*(unit_ids[unit] for unit in u.units), end]) for u in utterances]
    lengths, counts = (torch.tensor([*map(len, rows)]) for rows in (features, units))
    batch = SpeechBatch(
        pad_sequence(features, batch_first=True).to(device, dtype),
        lengths,
        pad_sequence(units, batch_first=True, padding_value=end).to(device),
    )
    return batch, counts.to(device)
