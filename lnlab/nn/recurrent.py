"""The reference loop over time, and layers that are called as torch.nn.LSTM and its kin are.

:func:`unroll` repeats one cell over a sequence. :class:`RNN`, :class:`LSTM` and :class:`GRU`
stack directions and layers of it behind the call signature of their namesakes in torch.nn:
swapping one for the other is one line, and the weights of a plain torch layer load.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from lnlab.nn.cells import Cell, GRUCell, LSTMCell, RNNCell, State
from lnlab.nn.layer import LayerNorm
from lnlab.nn.linear import Norm

Unroll = Callable[..., tuple[Tensor, State]]
"""A loop over time, called as :func:`unroll` is."""

Lengths = Tensor | list[int] | None
"""The number of steps of each of the B sequences, without padding; None: all have T."""


def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    lengths: Lengths = None,
    reverse: bool = False,
    mask: Tensor | None = None,
) -> tuple[Tensor, State]:
    """``cell`` over the time steps of ``x`` (T, B, D): every h (T, B, H), and the last state.

    A step at which some sequences are over is computed from the others alone: padding
    enters neither outputs nor gradients nor anybody's batch statistics. Outputs at padding
    are 0, the state is that of each sequence's own end.

    Args:
        state: the first state; None is ``cell.start``.
        lengths: whole numbers from 0 to T, in any order; best on the CPU, whatever x is on.
        reverse: read each sequence from its own end to its start. The steps that a
            normalizer is told of are counted from where the reading starts.
        mask: factors (B, H) of every h on its way into the next step, the same at all of them:
            what is dropped is drawn once a sequence (Gal & Ghahramani, 2016). Of cells whose h
            enters nothing but W_h h.

    Raises:
        ValueError: what does not fit is named, see :func:`checked`.
    """
    lengths = checked(cell, x, state, lengths, mask)
    if reverse:
        y, last = unroll(cell, flip(x, lengths), state, lengths, mask=mask)
        # the state after the first step of the sequence, which is read last
        return flip(y, lengths), last
    now: State = state or cell.start(x)
    hs = []
    for t, x_t in enumerate(x):
        seen = now if mask is None else (now[0] * mask, *now[1:])
        if lengths is None or bool((lengths > t).all()):
            now = cell(x_t, seen, t)
            hs.append(now[0])
            continue
        # Some are over. The others are computed alone, not masked afterwards: batch norm would
        # have taken the padding for cases.
        rows = (lengths > t).nonzero().squeeze(1).to(x.device)
        if len(rows):
            new = cell(x_t[rows], tuple(s[rows] for s in seen), t)
            pairs = zip(now, new, strict=True)
            now = tuple(s.index_copy(0, rows, n.to(s.dtype)) for s, n in pairs)
        hs.append(torch.where((lengths > t).to(x.device)[:, None], now[0], 0.0))
    y = torch.stack(hs) if hs else x.new_zeros(0, x.shape[1], cell.units)
    return y, now


def flip(x: Tensor, lengths: Tensor | None) -> Tensor:
    """``x`` (T, B, ...) with each sequence reversed inside its own length."""
    if lengths is None:
        return x.flip(0)
    # inside a sequence step t is read from length - 1 - t; padding stays where it is
    # the reversal is within each sequence, or the backward direction would begin with padding
    t, lengths = torch.arange(len(x), device=x.device)[:, None], lengths.to(x.device)
    t = torch.where(t < lengths, lengths - 1 - t, t)  # (T, B)
    return x[t, torch.arange(x.shape[1], device=x.device)]


def checked(
    cell: Cell,
    x: Tensor,
    state: State | None,
    lengths: Lengths,
    mask: Tensor | None = None,
) -> Tensor | None:
    """The lengths (B,) as int64, None if None, once all fits the cell.

    They are looked at here and in some loops, so that lengths on the CPU, where torch's packed
    sequences have theirs, spare a wait for the device of ``x``.

    Raises:
        ValueError: names what does not fit: rank, size, dtype or device of ``x`` (T, B, D),
            of the first state and the mask, each (B, H), or of ``lengths``.
    """
    if x.dim() != 3 or x.shape[2] != cell.inputs:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: give (T, B, D) with D = {cell.inputs} inputs."
        )
    same_kind("x", x, cell.W_x)
    if mask is not None and not isinstance(cell, LSTMCell | RNNCell):
        raise ValueError(
            f"mask: h of a {type(cell).__name__} goes on by itself, too: give none."
        )
    given = {f"the first {name}": s for name, s in zip("hc", state or (), strict=False)}
    for name, s in (given if mask is None else {**given, "the mask": mask}).items():
        if s.shape != (x.shape[1], cell.units):
            raise ValueError(
                f"{name} has shape {tuple(s.shape)}: give (B, H) = {(x.shape[1], cell.units)}."
            )
        same_kind(name, s, cell.W_x)
    if state is not None and len(state) != cell.states:
        raise ValueError(f"the first state has {len(state)} tensors: give {cell.states}.")
    return None if lengths is None else whole_numbers(lengths, x)


def same_kind(name: str, x: Tensor, W: Tensor) -> None:
    """Raise ValueError unless x (T, B, D) is on the device and of the dtype of the weights."""
    if x.device != W.device:
        raise ValueError(f"{name} is on {x.device}, the weights on {W.device}: move one.")
    if x.dtype != W.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"{name} is {x.dtype}, the weights are {W.dtype}: convert one.")


def whole_numbers(lengths: Tensor | list[int], x: Tensor) -> Tensor:
    """``lengths`` as int64; ValueError unless they fit ``x`` (T, B, D)."""
    n = torch.as_tensor(lengths)
    if n.is_floating_point() or n.is_complex() or n.dtype == torch.bool:
        raise ValueError(f"lengths are {n.dtype}: give whole numbers.")
    if n.shape != (x.shape[1],):
        raise ValueError(
            f"lengths have shape {tuple(n.shape)}: give one for each of the "
            f"{x.shape[1]} sequences."
        )
    if len(n) and not 0 <= int(n.min()) <= int(n.max()) <= len(x):
        raise ValueError(
            f"lengths run from {int(n.min())} to {int(n.max())}: give 0 to {len(x)}, the "
            f"number of time steps."
        )
    return n.to(torch.int64).contiguous()  # kernels read them as they lie


class Recurrent(nn.Module):
    """Layers and directions of one cell, called as torch.nn.LSTM is.

    Args:
        bias, batch_first, dropout, bidirectional, device, dtype: as in torch.nn.
        norm: makes the normalizers of every cell.
        settings: the other settings of the cell, by name.

    Raises:
        ValueError: for less than one layer, or a dropout that is no probability.
    """

    cell: Callable[..., Cell]
    cells: Any
    """An nn.ModuleList of cells: layer by layer, the reverse direction second."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        norm: Norm = LayerNorm,
        **settings,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}: give at least 1.")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout is {dropout}: give a probability.")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        directions = 2 if bidirectional else 1
        inputs = [input_size] + [hidden_size * directions] * (num_layers - 1)
        self.cells = nn.ModuleList(
            self.cell(D, hidden_size, norm, bias=bias, **settings)
            for D in inputs
            for _ in range(directions)
        )
        self.unroll: Unroll = unroll
        self.to(device=device, dtype=dtype)

    @property
    def opaque(self) -> bool:
        """True if the loop over time is not the reference: torch.func cannot look into it."""
        return self.unroll is not unroll

    def forward(
        self, x: Tensor | PackedSequence, state: Any = None, lengths: Lengths = None
    ) -> tuple[Any, Any]:
        """(y, last state) in torch's shapes: y (T, B, H), each state (layers, B, H).

        Args:
            x: (T, B, D), (B, T, D) if batch_first, (T, D) of one sequence, or packed.
            state: h, or (h, c) for an LSTM.
            lengths: instead of packing; 0 is a length too.

        Raises:
            ValueError: if x has other dimensions, or states or lengths do not fit.
        """
        parts = (state,) if isinstance(state, Tensor) else state
        if isinstance(x, PackedSequence):
            if lengths is not None:
                raise ValueError("x is packed, and has its lengths: leave lengths out.")
            y, last = self._packed(x, parts)
        elif x.dim() == 2:
            parts = None if parts is None else tuple(s.unsqueeze(1) for s in parts)
            y, last = self._layers(x.unsqueeze(1), self._states(parts, 1), lengths)
            y, last = y.squeeze(1), tuple(s.squeeze(1) for s in last)
        elif x.dim() == 3:
            x = x.transpose(0, 1) if self.batch_first else x
            y, last = self._layers(x, self._states(parts, x.shape[1]), lengths)
            y = y.transpose(0, 1) if self.batch_first else y
        else:
            raise ValueError(f"x has shape {tuple(x.shape)}: give 2 or 3 dimensions.")
        (h, *c) = last
        return y, (h, *c) if c else h

    def _layers(self, x: Tensor, states: list, lengths: Lengths) -> tuple[Tensor, State]:
        """Every layer and direction over ``x`` (T, B, D), time first."""
        last = []
        directions = len(self.cells) // self.num_layers
        for layer in range(self.num_layers):
            if layer:
                # as in torch: between layers, never after the last
                x = F.dropout(x, self.dropout, self.training)
            ys = []
            for direction in range(directions):
                i = layer * directions + direction
                y, state = self.unroll(self.cells[i], x, states[i], lengths, direction == 1)
                ys.append(y)
                last.append(state)
            x = torch.cat(ys, dim=-1) if len(ys) > 1 else ys[0]  # (T, B, directions H)
        return x, tuple(torch.stack(s) for s in zip(*last, strict=True))

    def _states(self, parts: State | None, B: int) -> list[State | None]:
        """torch's (layers, B, H) tensors as one first state a cell."""
        if parts is None:
            return [None] * len(self.cells)
        shape = (len(self.cells), B, self.hidden_size)
        for s in parts:
            if s.shape != shape:
                raise ValueError(f"a first state has shape {tuple(s.shape)}: give {shape}.")
        return list(zip(*parts, strict=True))

    def _packed(self, x: PackedSequence, parts: State | None) -> tuple[PackedSequence, State]:
        """Packed in, packed out, the cases of the states in the caller's order, as in torch."""
        padded, lengths = pad_packed_sequence(PackedSequence(x.data, x.batch_sizes))
        if parts is not None and x.sorted_indices is not None:
            parts = tuple(s.index_select(1, x.sorted_indices) for s in parts)
        y, last = self._layers(padded, self._states(parts, padded.shape[1]), lengths)
        if x.unsorted_indices is not None:
            last = tuple(s.index_select(1, x.unsorted_indices) for s in last)
        # the loop has them sorted by length; the caller has not
        y = pack_padded_sequence(y, lengths).data
        return PackedSequence(y, x.batch_sizes, x.sorted_indices, x.unsorted_indices), last

    def flatten_parameters(self) -> None:
        """Nothing to do: there is so that torch's layer can be swapped for this one."""

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        """Take in the parameters of a torch layer, where ``state_dict`` holds them."""
        directions = ("", "_reverse") if self.bidirectional else ("",)
        ends = [f"l{layer}{way}" for layer in range(self.num_layers) for way in directions]
        for i, (cell, end) in enumerate(zip(self.cells, ends, strict=True)):
            if f"{prefix}weight_ih_{end}" not in state_dict:
                continue
            # torch adds two biases, b_ih + b_hh; a cell here has the one that eq. 20 has
            W_x, W_h = (state_dict.pop(f"{prefix}weight_{p}_{end}") for p in ("ih", "hh"))
            none = W_x.new_zeros(len(W_x))
            b_x, b_h = (state_dict.pop(f"{prefix}bias_{p}_{end}", none) for p in ("ih", "hh"))
            own = f"{prefix}cells.{i}."
            kept = cell.state_dict()  # what torch's layer has not stays as it is
            state_dict.update({own + name: value for name, value in kept.items()})
            for name, value in cell.from_torch(W_x, W_h, b_x, b_h).items():
                if name in kept or value.any():  # a bias without a place is an error
                    state_dict[own + name] = value
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"


class RNN(Recurrent):
    """Eq. 4 over time, in place of torch.nn.RNN; settings are those of :class:`RNNCell`."""

    cell = RNNCell


class LSTM(Recurrent):
    """Eq. 20-22 over time, in place of torch.nn.LSTM; settings of :class:`LSTMCell`."""

    cell = LSTMCell


class GRU(Recurrent):
    """Eq. 26-28 over time, in place of torch.nn.GRU; settings of :class:`GRUCell`."""

    cell = GRUCell
