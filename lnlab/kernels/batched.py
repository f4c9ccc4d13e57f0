"""LSTMs with batch norm: what the kernel needs of them, and their loop on torch's operators.

The kernel (cpp/over_cases.h) has all cases of a step in one place. It reads the moments of the
steps, or tells of them, and they are remembered once all steps are over.

On torch's operators there is one batch_norm a statistic. Cases are put in the order of their
lengths, the longest first, so that those that still go on are the first of every step: a slice,
over which the statistics run. A step that only one of them has is computed by the reference
rule, which knows what to do.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.kernels.forms import Form, Kernel, exactly, lstm, watched
from lnlab.kernels.normalizers import FusedBatchNorm, FusedRecurrentBatchNorm
from lnlab.nn import (
    BatchNorm,
    Bias,
    Carry,
    Cell,
    LSTMCell,
    RecurrentBatchNorm,
    State,
    inside_root,
)
from lnlab.nn.batch import move
from lnlab.nn.padding import within
from lnlab.nn.recurrent import flip

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
        and not norm.space
        and norm.running_mean.dtype == cell.W_h.dtype
        for norm in norms
    )
    # of one that stands in two places the steps would be remembered in another order
    apart = len(set(norms)) == len(norms)
    return plain and apart and cell.carry is Carry.RAW and cell.bias in (Bias.NONE, Bias.ONCE)


def form(cell: Any) -> Form:
    """The fused form of a cell that :func:`has` is true of."""
    return lstm(cell, Kernel.BATCH_LSTM)


class Moments:
    """The moments of a cell's steps over their cases, which the kernel writes, or reads.

    Args:
        cell: its norms say which of them are the batch's, and which remembered.
        x: inputs (T, B, D).
        lengths: of the sequences (B,); None: all T.

    Raises:
        ValueError: in training, for a step that a norm has no statistics for.
    """

    def __init__(self, cell: Any, x: Tensor, lengths: Tensor | None) -> None:
        T, B = x.shape[:2]
        n = torch.full((T,), B) if lengths is None else within(lengths, T).sum(0)
        self.n = n[n > 0]
        """The cases of each step that has any, (steps,)."""
        self.norms: tuple[BatchNorm, ...] = (cell.norm_h, cell.norm_x, cell.norm_c)
        self.from_batch = sum(norm.from_batch << i for i, norm in enumerate(self.norms))
        """A bit each for W_h h, W_x x, c."""
        steps = len(self.n)
        self.all = cell.W_h.new_empty(steps, 2, sum(norm.units for norm in self.norms))
        """The mean and the biased variance of the units of all three."""
        for norm, own in self._each() if steps else ():
            norm.recalled(steps - 1)  # says that it has none before anything is computed
            if not norm.from_batch:
                rows = zip(*(norm.recalled(t) for t in range(steps)), strict=True)
                own.copy_(torch.stack([torch.stack(row) for row in rows], dim=1))

    def _each(self) -> Iterator[tuple[BatchNorm, Tensor]]:
        parts = self.all.split([norm.units for norm in self.norms], dim=-1)
        return zip(self.norms, parts, strict=True)

    def remember(self) -> None:
        """Let each norm in training take in its steps: what :meth:`BatchNorm.remember` does."""
        for norm, own in self._each():
            if not (norm.training and norm.from_batch):
                continue
            mean, var = own.unbind(1)
            m = self.n[self.n > 1].to(var)[:, None]  # of one case there is no variance
            _take_in(norm, norm.running_mean, mean)
            _take_in(norm, norm.running_var, var[: len(m)] * (m / (m - 1)))


def _take_in(norm: BatchNorm, running: Tensor, new: Tensor) -> None:
    """Let ``running`` move to the first steps' ``new`` (steps, H), one after the other."""
    if isinstance(norm, RecurrentBatchNorm):  # a row a step
        move(running[: len(new)], new, norm.momentum)
        return
    kept = 1 - norm.momentum
    ages = torch.arange(len(new) - 1, -1, -1, dtype=new.dtype)
    running.mul_(kept ** len(new)).add_((norm.momentum * kept**ages) @ new)


def unroll(
    cell: Any, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll` returns them."""
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
