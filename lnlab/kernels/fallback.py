"""Fused forms for other devices than the CPU: the share of x is computed for all steps at once.

The steps themselves are on torch's own operators here, normalization being one of them, for
devices and machines without a kernel; :mod:`lnlab.kernels.triton` has others.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.kernels.forms import Form, Kernel
from lnlab.nn import Cell, State
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import flip

Steps = Callable[
    [Form, Tensor, Tensor, tuple[Tensor, ...], State, Tensor | None], tuple[Tensor, State]
]
"""A loop over time: from a form, the share of x (T, B, G H), W_h, what else a step reads (see
:func:`shares`), the first state and the lengths to every h (T, B, H), 0 at padding, and the
last state."""


def unroll_hoisted(
    cell: Cell,
    form: Form,
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    reverse: bool,
    steps: Steps | None = None,
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, given lengths (B,) that were checked.

    Args:
        steps: another loop over time than :func:`in_torch`.
    """
    if lengths is not None:
        # what stands at padding may be NaN, and on the way back 0 times NaN is NaN
        x = torch.where(inside(lengths, x), x, 0.0)
    x = flip(x, lengths) if reverse else x
    from_x, rest = shares(cell, form, x)
    y, last = (steps or in_torch)(form, from_x, cell.W_h, rest, state, lengths)
    return flip(y, lengths) if reverse else y, last


def inside(lengths: Tensor, x: Tensor) -> Tensor:
    """True where a step of ``x`` (T, B, n) is inside its sequence: (T, B, 1)."""
    return length_mask(lengths, len(x)).T[:, :, None]


def shares(cell: Cell, form: Form, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The share of x in all steps (T, B, G H), and the parameters of a step beside W_h: gains
    and biases, those of the sum of products first."""
    H, eps, p = cell.hidden_size, form.eps, form.parameters.to(cell.W_h)
    # W_x x waits for no h: one product for all T steps, and where it has a layer norm of its
    # own that as well. Every step is left with W_h h.
    a = F.linear(x, cell.W_x)
    if form.kernel in (Kernel.LSTM, Kernel.DRAW):
        g_h, g_x, b, g_c, b_c = p.split([4 * H, 4 * H, 4 * H, H, H])
        return a + b if form.kernel is Kernel.DRAW else LN(a, g_x, b, eps[1]), (g_h, g_c, b_c)
    if form.kernel in (Kernel.GRU_WRITES, Kernel.GRU_KEEPS):
        g_h, g_U, g_x, g_W, b, b_W, b_U = p.split([2 * H, H, 2 * H, H, 2 * H, H, H])
        zr, candidate = a.split([2 * H, H], -1)
        from_x = [LN(zr, g_x, b, eps[1]), LN(candidate, g_W, b_W, eps[3])]
        return torch.cat(from_x, -1), (g_h, g_U, b_U)
    return a, tuple(p.chunk(2))


def LN(a: Tensor, g: Tensor, b: Tensor | None, eps: float) -> Tensor:
    """Layer norm of a (B, n) over the last axis, by torch's operator."""
    return F.layer_norm(a, a.shape[-1:], g, b, eps)


def in_torch(
    form: Form,
    from_x: Tensor,
    W_h: Tensor,
    rest: tuple[Tensor, ...],
    state: State,
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """The loop over x (T, B, n) on torch's operators."""
    going = None if lengths is None else inside(lengths, from_x)
    known = {Kernel.LSTM: lstm, Kernel.DRAW: lstm, Kernel.RNN: rnn}
    step: Callable[..., State] = known.get(form.kernel, gru)
    hs = []
    for t, a_x in enumerate(from_x):
        new = step(form, a_x, F.linear(state[0], W_h), rest, state)
        if going is not None:
            new = tuple(torch.where(going[t], n, s) for n, s in zip(new, state, strict=True))
        state = new
        hs.append(state[0])
    y = torch.stack(hs)
    return y if going is None else torch.where(going, y, 0.0), state


def lstm(form: Form, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], state: State) -> State:
    """One step of eq. 20-22 or 29-31, given the share of x (B, 4 H) and W_h h."""
    g_h, g_c, b_c = rest
    a = a_x + (a_h if form.kernel is Kernel.DRAW else LN(a_h, g_h, None, form.eps[0]))
    f, i, o, g = a.chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * LN(c, g_c, b_c, form.eps[2]).tanh(), c


def gru(form: Form, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], state: State) -> State:
    """One step of eq. 26-28, given the share of x (B, 3 H)."""
    (g_h, g_U, b_U), (h,) = rest, state
    H = h.shape[-1]
    (zr, Uh), (a_zr, Wx) = a_h.split([2 * H, H], -1), a_x.split([2 * H, H], -1)
    z, r = (a_zr + LN(zr, g_h, None, form.eps[0])).sigmoid().chunk(2, -1)
    new = (Wx + r * LN(Uh, g_U, b_U, form.eps[2])).tanh()
    keeps = form.kernel is Kernel.GRU_KEEPS
    # lerp(h, ĥ, z) = h + z (ĥ - h), eq. 28
    return (torch.lerp(new, h, z) if keeps else torch.lerp(h, new, z),)


def rnn(form: Form, a_x: Tensor, a_h: Tensor, rest: tuple[Tensor, ...], _: State) -> State:
    """One step of eq. 4, given the share of x (B, H)."""
    g, b = rest
    return (LN(a_x + a_h, g, b, form.eps[0]).tanh(),)


# LSTM and GRU without normalization, by torch's own operators: where there is no kernel.
#
# Sequences of several lengths go through it piece by piece, from one end to the next: torch
# would pack them, and the backward pass through that takes longer than the reference loop.


def unroll_with_torch(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll` has them."""
    if reverse:
        y, last = unroll_with_torch(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    W = [parameter for parameter in cell.to_torch() if parameter is not None]
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
