"""LSTMs with recurrent batch norm on torch's own operators, one batch_norm a statistic.

Cases are put in the order of their lengths, the longest first, so that those that still go on
are the first of every step: a slice, over which the statistics run. A step that only one of
them has is computed by the reference rule, which knows what to do.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.cells import Bias, Carry, Cell, LSTMCell, State
from lnlab.norms import BatchNorm, RecurrentBatchNorm, inside_root
from lnlab.padding import within
from lnlab.unroll import flip

from .forms import exactly, watched
from .normalizers import FusedBatchNorm, FusedRecurrentBatchNorm

KINDS = (BatchNorm, FusedBatchNorm, RecurrentBatchNorm, FusedRecurrentBatchNorm)


def has(cell: Cell) -> bool:
    """True if ``cell`` is eq. 20-22 with batch norm in the three places, and nobody listens."""
    if watched(cell) or not exactly(cell, LSTMCell):
        return False
    norms = (cell.norm_h, cell.norm_x, cell.norm_c)
    plain = all(
        exactly(norm, *KINDS)
        and norm.root is inside_root
        and not norm.correction
        and norm.eps > 0
        and norm.running_mean.dtype == cell.W_h.dtype
        for norm in norms
    )
    return plain and cell.carry is Carry.RAW and cell.bias in (Bias.NONE, Bias.ONCE)


def unroll(
    cell: Any, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, as :func:`lnlab.unroll.unroll` returns them."""
    if reverse:
        y, last = unroll(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    if lengths is None:
        hs, cs = _steps(cell, x, state, [x.shape[1]] * len(x))
        return torch.stack(hs), (hs[-1], cs[-1])
    going = within(lengths, len(x)).sum(0).tolist()
    lengths, order = (v.to(x.device) for v in lengths.sort(descending=True, stable=True))
    back = order.argsort()
    state = tuple(s[order] for s in state)
    hs, cs = _steps(cell, x[:, order], state, [n for n in going if n])
    y, memory = (_whole(parts, x) for parts in (hs, cs))
    # the last state of each is that of its own last step; of an empty one, the first
    ends = (lengths - 1).clamp(min=0)
    rows = torch.arange(x.shape[1], device=x.device)
    begun = (lengths > 0)[:, None]
    last = tuple(
        torch.where(begun, all_[ends, rows], s)[back]
        for all_, s in zip((y, memory), state, strict=True)
    )
    return y[:, back], last


def _whole(parts: list[Tensor], x: Tensor) -> Tensor:
    """Steps of so many cases each (n, H) as one tensor (T, B, H), 0 behind them."""
    T, B = x.shape[:2]
    rows = [F.pad(part, (0, 0, 0, B - len(part))) for part in parts]
    whole = torch.stack(rows) if rows else x.new_zeros(0, B, 0)
    return F.pad(whole, (0, 0, 0, 0, 0, T - len(parts)))


def _steps(
    cell: Any, x: Tensor, state: State, going: list[int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Every h and c (n, H), of the first n cases at each step."""
    norm_x, norm_h, norm_c = cell.norm_x, cell.norm_h, cell.norm_c
    # W_x x of all steps at once; its statistics wait, as they are of the cases of one step
    shares = F.linear(x[: len(going)], cell.W_x).unbind()
    (h, c), hs, cs, H = state, [], [], cell.units
    for t, (a_x, n) in enumerate(zip(shares, going, strict=True)):
        if n < len(h):
            h, c = h[:n], c[:n]
        a_x = a_x if n == len(a_x) else a_x[:n]
        a = norm_h(F.linear(h, cell.W_h), cell.W_h, t) + norm_x(a_x, cell.W_x, t)
        a = a if cell.b is None else a + cell.b
        gates, g = a.split([3 * H, H], -1)
        f, i, o = gates.sigmoid().chunk(3, -1)
        c = f * c + i * g.tanh()
        h = o * norm_c(c, cell.I, t).tanh()
        hs.append(h)
        cs.append(c)
    return hs, cs
