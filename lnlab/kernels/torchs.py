"""The LSTM without normalization, by torch's own operator: the plain arm of a comparison."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lnlab.cells import Bias, Cell, LSTMCell, State
from lnlab.norms import Identity
from lnlab.unroll import flip

ORDER = (1, 0, 3, 2)
"""From the paper's gates f, i, o, g to torch's i, f, g, o."""


def has(cell: Cell) -> bool:
    """Whether torch has an operator for ``cell``, and nobody hooked into it."""
    if not isinstance(cell, LSTMCell) or cell.bias is Bias.TWICE:
        return False
    norms = (cell.norm_h, cell.norm_x, cell.norm_c)
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in cell.modules())
    return not hooked and all(norm is None or isinstance(norm, Identity) for norm in norms)


def unroll(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """What :func:`lnlab.unroll.unroll` returns, given lengths that were checked."""
    x = flip(x, lengths) if reverse else x
    b = getattr(cell, "b", None)
    W = [ordered(cell.W_x), ordered(cell.W_h)]
    b = [] if b is None else [ordered(b), torch.zeros_like(b)]
    first = [s.unsqueeze(0).contiguous() for s in state]
    # biases, layers, dropout, training, bidirectional
    settings = (bool(b), 1, 0.0, False, False)
    if lengths is None or bool((lengths == len(x)).all()):
        y, *last = torch.lstm(x, first, [*W, *b], *settings, False)
        last = [s.squeeze(0) for s in last]
    else:
        # torch packs no empty sequence: one step of it is computed, and thrown away
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
        first = [s.index_select(1, packed.sorted_indices) for s in first]
        data, *last = torch.lstm(packed.data, packed.batch_sizes, first, [*W, *b], *settings)
        y, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(x))
        last = [s.squeeze(0).index_select(0, packed.unsorted_indices) for s in last]
        some = (lengths > 0).unsqueeze(-1)
        y = torch.where(some, y, 0.0)
        last = [torch.where(some, s, was) for s, was in zip(last, state, strict=True)]
    return (flip(y, lengths) if reverse else y), tuple(last)


def ordered(W: Tensor) -> Tensor:
    """The rows of a weight or bias (4 H, ...) in torch's order of gates."""
    gates = W.chunk(4)
    return torch.cat([gates[gate] for gate in ORDER])
