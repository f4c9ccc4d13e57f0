"""Fused forms on torch's own operators: for devices and machines without the kernel.

What does not depend on the step before, W_x x and its normalization, is computed for all
steps at once, and normalization is torch's one operator. Not measured on a GPU.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.cells import Cell, State
from lnlab.unroll import flip

from .forms import Form, Kernel


def unroll(
    cell: Cell,
    form: Form,
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, given lengths (B,) that were checked."""
    T = len(x)
    steps = torch.arange(T, device=x.device)[:, None]
    going = None if lengths is None else (steps < lengths)[:, :, None]  # (T, B, 1)
    if going is not None:
        x = torch.where(going, x, 0.0)
    x = flip(x, lengths) if reverse else x
    from_x, step = prepared(cell, form, x)
    hs = []
    for t in range(T):
        new = step(from_x[t], state)
        if going is not None:
            new = tuple(torch.where(going[t], n, s) for n, s in zip(new, state, strict=True))
        state = new
        hs.append(state[0])
    y = torch.stack(hs)
    y = y if going is None else torch.where(going, y, 0.0)
    return flip(y, lengths) if reverse else y, state


def prepared(cell: Cell, form: Form, x: Tensor):
    """The share of x in all steps (T, B, G H), and the function of one step."""
    H, eps, p = cell.units, form.eps, form.parameters.to(cell.W_h)
    a_x, W_h = F.linear(x, cell.W_x), cell.W_h

    def LN(a: Tensor, g: Tensor, b: Tensor | None, eps: float) -> Tensor:
        return F.layer_norm(a, a.shape[-1:], g, b, eps)

    if form.kernel in (Kernel.LSTM, Kernel.DRAW):
        draw = form.kernel is Kernel.DRAW
        g_h, g_x, b, g_c, b_c = p.split([4 * H, 4 * H, 4 * H, H, H])

        def lstm(a_x: Tensor, state: State) -> State:
            h, c = state
            a_h = F.linear(h, W_h)
            a = a_x + (a_h if draw else LN(a_h, g_h, None, eps[0]))
            f, i, o, g = a.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            return o.sigmoid() * LN(c, g_c, b_c, eps[2]).tanh(), c

        return a_x + b if draw else LN(a_x, g_x, b, eps[1]), lstm
    if form.kernel in (Kernel.GRU_WRITES, Kernel.GRU_KEEPS):
        keeps = form.kernel is Kernel.GRU_KEEPS
        g_h, g_U, g_x, g_W, b, b_W, b_U = p.split([2 * H, H, 2 * H, H, 2 * H, H, H])
        zr, candidate = a_x.split([2 * H, H], -1)
        from_x = torch.cat([LN(zr, g_x, b, eps[1]), LN(candidate, g_W, b_W, eps[3])], -1)

        def gru(a_x: Tensor, state: State) -> State:
            (h,) = state
            zr, Uh = F.linear(h, W_h).split([2 * H, H], -1)
            a_zr, Wx = a_x.split([2 * H, H], -1)
            z, r = (a_zr + LN(zr, g_h, None, eps[0])).sigmoid().chunk(2, -1)
            new = (Wx + r * LN(Uh, g_U, b_U, eps[2])).tanh()
            return (torch.lerp(new, h, z) if keeps else torch.lerp(h, new, z),)

        return from_x, gru
    g, b = p.chunk(2)
    return a_x, lambda a_x, state: (LN(a_x + F.linear(state[0], W_h), g, b, eps[0]).tanh(),)
