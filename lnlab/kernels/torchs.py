"""LSTM and GRU without normalization, by torch's own operators: where there is no kernel.

Sequences of several lengths go through it piece by piece, from one end to the next: torch
would pack them, and the way back through what is packed takes longer than the reference loop.
"""

import torch
from torch import Tensor

from lnlab.nn import Cell, GRUCell, State, Update
from lnlab.nn.recurrent import flip

ORDER = (1, 0, 3, 2)
"""The places of torch's gates i, f, g, o among the paper's f, i, o, g."""


def unroll(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll` returns them."""
    if reverse:
        y, last = unroll(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    W = _of_gru(cell) if isinstance(cell, GRUCell) else _of_lstm(cell)
    if lengths is None or bool((lengths == len(x)).all()):
        return _same_length(x, state, W)
    # from one end to the next, the sequences that still go on are all of one length
    ys, begin = [], 0
    for end in lengths.unique().tolist():
        rows = (lengths >= end).nonzero().squeeze(1).to(x.device)
        if end > begin:
            y, new = _same_length(x[begin:end, rows], tuple(s[rows] for s in state), W)
            ys.append(y.new_zeros(end - begin, *state[0].shape).index_copy(1, rows, y))
            state = tuple(s.index_copy(0, rows, n) for s, n in zip(state, new, strict=True))
        begin = end
    ys.append(x.new_zeros(len(x) - begin, *state[0].shape))
    return torch.cat(ys), state


def _same_length(x: Tensor, state: State, W: list[Tensor]) -> tuple[Tensor, State]:
    first = [s.unsqueeze(0).contiguous() for s in state]
    # biases, layers, dropout, training, bidirectional, batch first
    settings = len(W) > 2, 1, 0.0, False, False, False
    if len(first) == 1:
        y, *last = torch.gru(x, first[0], W, *settings)
    else:
        y, *last = torch.lstm(x, first, W, *settings)
    return y, tuple(s.squeeze(0) for s in last)


def _of_lstm(cell: Cell) -> list[Tensor]:
    b = getattr(cell, "b", None)
    W = [ordered(cell.W_x), ordered(cell.W_h)]
    return W if b is None else [*W, ordered(b), torch.zeros_like(b)]


def _of_gru(cell: GRUCell) -> list[Tensor]:
    """The parameters in torch's order of gates r, z, n; an open z of torch's keeps."""
    sign = 1 if cell.update is Update.KEEPS else -1  # 1 - sigma(z) = sigma(-z)

    def reordered(rows: Tensor) -> Tensor:
        z, r, candidate = rows.chunk(3)
        return torch.cat([r, sign * z, candidate])

    W = [reordered(cell.W_x), reordered(cell.W_h)]
    if cell.b_x is None or cell.b_h is None:
        return W
    # r scales U h and its bias, so this one stays apart; for z and r two would add up to one
    b_h = torch.cat([torch.zeros_like(cell.b_h).repeat(2), cell.b_h])
    return [*W, reordered(cell.b_x), b_h]


def ordered(W: Tensor) -> Tensor:
    """The rows of a weight or bias (4 H, ...) in torch's order of gates."""
    gates = W.chunk(4)
    return torch.cat([gates[gate] for gate in ORDER])
