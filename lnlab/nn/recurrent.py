"""The loop over time, and recurrent layers that are called as torch.nn.LSTM, GRU and RNN.

:func:`unroll` applies one cell to each step of a sequence. :class:`RNN`, :class:`LSTM` and
:class:`GRU` stack layers and directions of it with the arguments of torch.nn's: swapping one
for the other is one line, and the weights of a torch layer load.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from lnlab.nn.cells import Cell, GRUCell, LSTMCell, RNNCell, State
from lnlab.nn.layer import LayerNorm
from lnlab.nn.linear import NormLayer

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
    dropout_mask: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Apply ``cell`` to the steps of ``x`` (T, B, D); return every h (T, B, H), the last state.

    A step after the end of some sequences is computed from the others alone: padding enters
    neither outputs nor gradients nor batch statistics. Outputs at padding are 0, and the last
    state is that at the end of each sequence.

    Args:
        cell: computes one step.
        x: the inputs, time first.
        state: the first state; None is ``cell.initial_state``.
        lengths: whole numbers from 0 to T, in any order; best on the CPU, whatever x is on.
        reverse: read each sequence from its end to its start. The step ``t`` of a normalizer is
            counted from where the reading starts.
        dropout_mask: factors (B, H) of h before each next step, the same at all steps: dropout
            with one draw per sequence (Gal & Ghahramani, 2016). For cells whose h enters W_h h
            alone.
    """
    lengths = check_inputs(cell, x, state, lengths, dropout_mask)
    if reverse:
        y, last = unroll(
            cell, reverse_sequences(x, lengths), state, lengths, dropout_mask=dropout_mask
        )
        # the state after the first step of the sequence, which is read last
        return reverse_sequences(y, lengths), last
    last: State = cell.initial_state(x) if state is None else state
    hs = []
    for t, x_t in enumerate(x):
        before = last if dropout_mask is None else (last[0] * dropout_mask, *last[1:])
        if lengths is None or bool((lengths > t).all()):
            last = cell(x_t, before, t)
            hs.append(last[0])
            continue
        # Some sequences have ended. The others are computed alone, not masked afterwards: batch
        # norm would have read the padding as examples.
        rows = (lengths > t).nonzero().squeeze(1).to(x.device)
        if len(rows):
            new = cell(x_t[rows], tuple(s[rows] for s in before), t)
            pairs = zip(last, new, strict=True)
            last = tuple(s.index_copy(0, rows, n.to(s.dtype)) for s, n in pairs)
        hs.append(torch.where((lengths > t).to(x.device)[:, None], last[0], 0.0))
    y = torch.stack(hs) if hs else x.new_zeros(0, x.shape[1], cell.hidden_size)
    return y, last


def reverse_sequences(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence of ``x`` (T, B, ...) within its own length."""
    if lengths is None:
        return x.flip(0)
    # step t comes from length - 1 - t and padding stays: the backward direction must not begin
    # with padding
    t, lengths = torch.arange(len(x), device=x.device)[:, None], lengths.to(x.device)
    t = torch.where(t < lengths, lengths - 1 - t, t)  # (T, B)
    return x[t, torch.arange(x.shape[1], device=x.device)]


def check_inputs(
    cell: Cell,
    x: Tensor,
    state: State | None,
    lengths: Lengths,
    dropout_mask: Tensor | None = None,
) -> Tensor | None:
    """Check that all fits the cell; return the lengths (B,) as int64, or None.

    Lengths on the CPU, where torch's packed sequences have them, spare a wait for the device of
    ``x``.
    """
    if x.dim() != 3 or x.shape[2] != cell.input_size:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: give (T, B, D) with D = {cell.input_size}."
        )
    if dropout_mask is not None and not isinstance(cell, LSTMCell | RNNCell):
        raise ValueError(
            f"dropout_mask: h of a {type(cell).__name__} does not enter W_h h alone: give none."
        )
    if state is not None and len(state) != cell.states:
        raise ValueError(f"the first state has {len(state)} tensors: give {cell.states}.")
    T, B, _ = x.shape
    given = {f"the first {name}": s for name, s in zip("hc", state or (), strict=False)}
    for name, value in {"x": x, **given, "the mask": dropout_mask}.items():
        if value is None:
            continue
        if value is not x and value.shape != (B, cell.hidden_size):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}: give (B, H) = {(B, cell.hidden_size)}."
            )
        W = cell.W_x
        other = value.dtype != W.dtype and not torch.is_autocast_enabled(W.device.type)
        if other or value.device != W.device:
            raise ValueError(
                f"{name} is {value.dtype} on {value.device}, the weights are {W.dtype} on "
                f"{W.device}: convert one."
            )
    if lengths is None:
        return None
    n = torch.as_tensor(lengths)
    whole = not (n.is_floating_point() or n.is_complex() or n.dtype == torch.bool)
    if not whole or n.shape != (B,) or not bool(((n >= 0) & (n <= T)).all()):
        raise ValueError(
            f"lengths are {n.tolist()}: give whole numbers from 0 to {T}, one for each of the "
            f"{B} sequences."
        )
    return n.to(torch.int64).contiguous()  # the kernels need them contiguous


class Recurrent(nn.Module):
    """Layers and directions of one cell, with the arguments and results of torch.nn.LSTM.

    ``settings`` are the other settings of the cell, by name.
    """

    cell: Callable[..., Cell]
    cells: Any  # an nn.ModuleList of cells: layer by layer, the reverse direction second

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        norm_layer: NormLayer = LayerNorm,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **settings,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bool(bias), batch_first
        self.dropout, self.bidirectional = dropout, bidirectional
        directions = 2 if bidirectional else 1
        sizes = [input_size] + [hidden_size * directions] * (num_layers - 1)
        self.cells = nn.ModuleList(
            self.cell(size, hidden_size, norm_layer, bias=bias, **settings)
            for size in sizes
            for _ in range(directions)
        )
        self.unroll: Unroll = unroll
        self.to(device=device, dtype=dtype)

    @property
    def opaque_to_vmap(self) -> bool:
        """True if the loop over time is not the reference: torch.func cannot look into it."""
        return self.unroll is not unroll

    def forward(
        self, x: Tensor | PackedSequence, state: Any = None, lengths: Lengths = None
    ) -> tuple[Any, Any]:
        """Return (y, last state) in torch's shapes: y (T, B, H), each state (layers, B, H).

        x is (T, B, D), (B, T, D) if batch_first, (T, D) of one sequence, or packed; the state
        h, or (h, c) for an LSTM. ``lengths`` stand for packing; 0 is a length too.
        """
        states = (state,) if isinstance(state, Tensor) else state
        if isinstance(x, PackedSequence):
            if lengths is not None:
                raise ValueError("x is packed, and has its lengths: leave lengths out.")
            y, last = self._run_packed(x, states)
        elif x.dim() == 2:
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
            y, last = self._run_layers(x.unsqueeze(1), self._split_states(states, 1), lengths)
            y, last = y.squeeze(1), tuple(s.squeeze(1) for s in last)
        elif x.dim() == 3:
            x = x.transpose(0, 1) if self.batch_first else x
            y, last = self._run_layers(x, self._split_states(states, x.shape[1]), lengths)
            y = y.transpose(0, 1) if self.batch_first else y
        else:
            raise ValueError(f"x has shape {tuple(x.shape)}: give 2 or 3 dimensions.")
        (h, *c) = last
        return y, (h, *c) if c else h

    def _run_layers(self, x: Tensor, states: list, lengths: Lengths) -> tuple[Tensor, State]:
        """Apply every layer and direction to ``x`` (T, B, D), time first."""
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

    def _split_states(self, states: State | None, B: int) -> list[State | None]:
        """Split torch's (layers, B, H) tensors into a first state for each cell."""
        if states is None:
            return [None] * len(self.cells)
        shape = (len(self.cells), B, self.hidden_size)
        for s in states:
            if s.shape != shape:
                raise ValueError(f"a first state has shape {tuple(s.shape)}: give {shape}.")
        return list(zip(*states, strict=True))

    def _run_packed(
        self, x: PackedSequence, states: State | None
    ) -> tuple[PackedSequence, State]:
        """Apply all layers to packed x; the states have the caller's order, as in torch."""
        padded, lengths = pad_packed_sequence(PackedSequence(x.data, x.batch_sizes))
        if states is not None and x.sorted_indices is not None:
            states = tuple(s.index_select(1, x.sorted_indices) for s in states)
        y, last = self._run_layers(padded, self._split_states(states, padded.shape[1]), lengths)
        if x.unsorted_indices is not None:
            last = tuple(s.index_select(1, x.unsorted_indices) for s in last)
        # sorted by length inside the loop, not for the caller
        y = pack_padded_sequence(y, lengths).data
        return PackedSequence(y, x.batch_sizes, x.sorted_indices, x.unsorted_indices), last

    def flatten_parameters(self) -> None:
        """Do nothing: code for torch's layers calls it."""

    def _torch_suffixes(self) -> list[str]:
        """Return the ends of torch's parameter names, one per cell: "l0", "l0_reverse"."""
        directions = ("", "_reverse") if self.bidirectional else ("",)
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in directions]

    def torch_state_dict(self) -> dict[str, Tensor]:
        """Return the parameters (G H, ...) under torch's names and in its order of gates."""
        state = {}
        for cell, name in zip(self.cells, self._torch_suffixes(), strict=True):
            norms = {type(norm).__name__ for norm in cell.children() if norm is not cell.first}
            if norms != {"Identity"} or len(cell.first) or getattr(cell, "bias", 0) > 1:
                raise ValueError(
                    f"{type(self).__name__} with {', '.join(sorted(norms))} has no equal in "
                    "torch.nn: give norm_layer=Identity, one bias and no learned state."
                )
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            for kind, parameter in zip(kinds, cell.parameters_to_torch(), strict=True):
                if parameter is not None:
                    state[f"{kind}_{name}"] = parameter.detach()
        return state

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        """Also read the parameters of a torch layer."""
        for i, (cell, end) in enumerate(zip(self.cells, self._torch_suffixes(), strict=True)):
            if f"{prefix}weight_ih_{end}" not in state_dict:
                continue
            # torch adds two biases, b_ih + b_hh; a cell here has the one that eq. 20 has
            W_x, W_h = (state_dict.pop(f"{prefix}weight_{p}_{end}") for p in ("ih", "hh"))
            zeros = W_x.new_zeros(len(W_x))
            b_x, b_h = (state_dict.pop(f"{prefix}bias_{p}_{end}", zeros) for p in ("ih", "hh"))
            cell_prefix = f"{prefix}cells.{i}."
            current = cell.state_dict()  # what torch's layer has not stays as it is
            state_dict.update({cell_prefix + name: value for name, value in current.items()})
            for name, value in cell.parameters_from_torch(W_x, W_h, b_x, b_h).items():
                if name in current or value.any():  # a bias that the cell lacks is an error
                    state_dict[cell_prefix + name] = value
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"


class RNN(Recurrent):
    """A simple recurrent layer: Ba et al. (2016), eq. 4.

    As torch.nn.RNN, packed sequences included; no proj_size. ``outputs, h = net(x, h_0)``:
    x is (T, B, D), (B, T, D) if ``batch_first``, (T, D), or packed; ``outputs`` have its
    form and H units for each direction, ``h`` is (num_layers * directions, B, H).

    Args:
        input_size, hidden_size: D and H.
        num_layers, batch_first, dropout, bidirectional, device, dtype: as in torch.nn.
        norm_layer: makes the normalizers of every cell, such as ``lnlab.nn.LayerNorm``.
        nonlinearity: "tanh", "relu" or a function.
        bias: True, a b after the norm, or False; ``BiasPlacement.TWICE`` and ``INSIDE`` put one
            inside the norm.
        norm_scope: ``NormOfProductsOrSum.JOINT``, LN(W_h h + W_x x), or ``SEPARATE``, LN of
            each product.
        initial: the :class:`CellInit`.

    Examples:
        >>> net = lnlab.nn.RNN(8, 16, norm_layer=lnlab.nn.LayerNorm)
        >>> outputs, h = net(torch.randn(10, 4, 8))  # 10 steps, 4 sequences
    """

    cell = RNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Any = "tanh",
        *args: Any,
        **settings: Any,
    ) -> None:
        settings["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, *args, **settings)


class LSTM(Recurrent):
    """A layer of LSTMs: Ba et al. (2016), eq. 20-22.

    As torch.nn.LSTM, packed sequences included; no proj_size. ``lnlab.fuse`` makes it faster.
    Of a packed sequence, h and c are those of the last real step of each example.
    ``outputs, (h, c) = net(x, (h_0, c_0))``: shapes as in :class:`RNN`, that of c as that of h.

    Args:
        input_size, hidden_size: D and H.
        num_layers, batch_first, dropout, bidirectional, device, dtype: as in torch.nn.
        norm_layer: makes the normalizers of every cell, such as ``lnlab.nn.LayerNorm``.
        gate_norm_layer: makes LN_1 and LN_2 of 4H units; None: ``norm_layer`` does.
        bias: where b is added: ``BiasPlacement.ONCE`` (True), after the norm; ``NONE`` (False);
            ``TWICE``, also inside LN(W_x x + b); ``INSIDE``, there alone.
        norm_scope: ``NormOfProductsOrSum.SEPARATE``, LN(W_h h) + LN(W_x x), or ``JOINT``, LN of
            the sum.
        cell_state: the next step\'s c: ``CarriedCellState.RAW``, c, or ``NORMALIZED``, LN(c).
        initial: the :class:`CellInit`.

    Examples:
        >>> class Classifier(nn.Module):
        ...     def __init__(self, inputs, units, classes):
        ...         super().__init__()
        ...         self.lstm = lnlab.nn.LSTM(inputs, units, norm_layer=lnlab.nn.LayerNorm)
        ...         self.out = nn.Linear(units, classes)
        ...
        ...     def forward(self, x):  # (steps, examples, inputs)
        ...         outputs, (h, c) = self.lstm(x)
        ...         return self.out(outputs[-1])
        ...
        >>> model = lnlab.fuse(Classifier(8, 16, 4))
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> sequences, classes = torch.randn(10, 32, 8), torch.arange(32) % 4
        >>> for _ in range(5):
        ...     optimizer.zero_grad()
        ...     F.cross_entropy(model(sequences), classes).backward()
        ...     optimizer.step()
    """

    cell = LSTMCell


class GRU(Recurrent):
    """A layer of GRUs: Ba et al. (2016), eq. 26-28.

    As torch.nn.GRU, packed sequences included. ``outputs, h = net(x, h_0)``: shapes as in
    :class:`RNN`.

    Args:
        input_size, hidden_size: D and H.
        num_layers, batch_first, dropout, bidirectional, device, dtype: as in torch.nn.
        norm_layer: makes the normalizers of every cell, such as ``lnlab.nn.LayerNorm``.
        bias: whether there are biases if the norms have none.
        update_gate: ``UpdateGateConvention.WRITES``, (1 - z) h + z ĥ, or ``KEEPS``, as torch.
        initial: the :class:`CellInit`.

    Examples:
        >>> net = lnlab.nn.GRU(8, 16, norm_layer=lnlab.nn.LayerNorm, batch_first=True)
        >>> outputs, h = net(torch.randn(4, 10, 8))
    """

    cell = GRUCell
