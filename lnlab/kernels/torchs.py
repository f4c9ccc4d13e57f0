"""The LSTM without normalization, by torch's own operator: the plain arm of a comparison.

Of sequences of one length: torch packs the others, and the way back through what is packed
takes longer than through the reference loop.
"""

import torch
from torch import Tensor

from lnlab.cells import Bias, Cell, LSTMCell, State
from lnlab.norms import Identity

ORDER = (1, 0, 3, 2)
"""From the paper's gates f, i, o, g to torch's i, f, g, o."""


def has(cell: Cell) -> bool:
    """Whether torch has an operator for ``cell``, and nobody hooked into it."""
    if not isinstance(cell, LSTMCell) or cell.bias is Bias.TWICE:
        return False
    norms = (cell.norm_h, cell.norm_x, cell.norm_c)
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in cell.modules())
    return not hooked and all(norm is None or isinstance(norm, Identity) for norm in norms)


def unroll(cell: Cell, x: Tensor, state: State, reverse: bool) -> tuple[Tensor, State]:
    """What :func:`lnlab.unroll.unroll` returns of sequences of one length."""
    x = x.flip(0) if reverse else x
    b = getattr(cell, "b", None)
    W = [ordered(cell.W_x), ordered(cell.W_h)]
    b = [] if b is None else [ordered(b), torch.zeros_like(b)]
    first = [s.unsqueeze(0).contiguous() for s in state]
    # biases, layers, dropout, training, bidirectional, batch first
    y, *last = torch.lstm(x, first, [*W, *b], bool(b), 1, 0.0, False, False, False)
    return (y.flip(0) if reverse else y), tuple(s.squeeze(0) for s in last)


def ordered(W: Tensor) -> Tensor:
    """The rows of a weight or bias (4 H, ...) in torch's order of gates."""
    gates = W.chunk(4)
    return torch.cat([gates[gate] for gate in ORDER])
