# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""The loop over time: a product and a Triton program for each step, forward and back.

What does not depend on the step before is computed elsewhere: the terms of x by one product
over all steps, the gradients by W_h, gains and biases by one operation each at the end.

A program computes one step of one example: it holds the whole vector that its layer norm runs
over, and waits for no other program. Before it, torch has written the product ``P = W_h h`` of
the step; ``A`` has the terms of x in every step. The backward pass reads the same tensors and
computes the gates again, which costs less than to write and read them. Row ``t B + example`` of
a tensor (T, B, n) is that of a step and an example; ``H`` units stand in a block of ``BLOCK``,
a power of two.

Statistics are one row of four numbers: mu and 1/sigma of two layer norms, 0 at padding.
This file needs the package ``triton``; import it late.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from lnlab.kernels.fused_cells import CellKernelArguments, CellKind, refuse_second_derivative
from lnlab.nn import Cell, State
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import reverse_sequences

GRUS = CellKind.GRU_WRITES, CellKind.GRU_KEEPS


def unroll_triton(
    cell: Cell,
    fused: CellKernelArguments,
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, State]:
    """Return every h (T, B, H), 0 at padding, and the last state."""
    if lengths is not None:
        # padding may be NaN, and in the backward pass 0 times NaN is NaN
        x = torch.where(length_mask(lengths, len(x)).T[:, :, None], x, 0.0)
    x = reverse_sequences(x, lengths) if reverse else x
    A, rest = input_terms_and_parameters(cell, fused, x)
    inputs = [a.to(cell.W_h.dtype) for a in (A, cell.W_h, *rest, *state)]
    keep = torch.is_grad_enabled() and any(a.requires_grad for a in inputs)
    y, *last = TritonRecurrence.apply(fused, lengths, len(state), keep, *inputs)
    return reverse_sequences(y, lengths) if reverse else y, tuple(last)


def input_terms_and_parameters(
    cell: Cell, fused: CellKernelArguments, x: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the terms of x in all steps (T, B, G H), and a step's gains and biases.

    Those of the gates come first.
    """
    H, eps, p = cell.hidden_size, fused.eps, fused.gains_and_biases.to(cell.W_h)
    # W_x x does not depend on h: one product for all T steps, and one layer norm if it has its
    # own. Each step then computes W_h h alone.
    a = F.linear(x, cell.W_x)
    if fused.cell_kind is CellKind.LSTM:
        g_h, g_x, b, g_c, b_c = p.split([4 * H, 4 * H, 4 * H, H, H])
        return layer_norm_over_last_axis(a, g_x, b, eps[1]), (g_h, g_c, b_c)
    if fused.cell_kind in GRUS:
        g_h, g_U, g_x, g_W, b, b_W, b_U = p.split([2 * H, H, 2 * H, H, 2 * H, H, H])
        zr, candidate = a.split([2 * H, H], -1)
        from_x = (
            layer_norm_over_last_axis(zr, g_x, b, eps[1]),
            layer_norm_over_last_axis(candidate, g_W, b_W, eps[3]),
        )
        return torch.cat(from_x, -1), (g_h, g_U, b_U)
    return a, tuple(p.chunk(2))


def layer_norm_over_last_axis(a: Tensor, g: Tensor, b: Tensor, eps: float) -> Tensor:
    """Normalize a (..., n) over the last axis."""
    return F.layer_norm(a, a.shape[-1:], g, b, eps)


class TritonRecurrence(torch.autograd.Function):
    """(A, W_h, gains and biases, h0[, c0]) to (y, h_n[, c_n])."""

    @staticmethod
    def forward(
        ctx: Any,
        fused: CellKernelArguments,
        lengths: Tensor | None,
        states: int,
        keep: bool,
        *inputs,
    ):
        A, W_h, *others = (a.detach().contiguous() for a in inputs)
        with torch.autocast(A.device.type, enabled=False):
            pass_ = TritonLoop(fused, lengths, A, W_h, others[:-states], others[-states:])
            y, *last = pass_.forward()
        if keep:
            ctx.pass_ = pass_
            ctx.save_for_backward(y)
        return (y, *last)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *dlast: Tensor):
        refuse_second_derivative()
        (y,) = ctx.saved_tensors
        with torch.autocast(dy.device.type, enabled=False):
            return None, None, None, None, *ctx.pass_.backward(y, dy.contiguous(), dlast)


class TritonLoop:
    """One pass over a sequence: its inputs, and what it keeps for the backward pass."""

    def __init__(
        self,
        fused: CellKernelArguments,
        lengths: Tensor | None,
        A: Tensor,
        W_h: Tensor,
        rest: list[Tensor],
        first: list[Tensor],
    ) -> None:
        self.cell_kind, self.eps, self.lengths = fused.cell_kind, fused.eps, lengths
        self.A, self.W_h, self.rest, self.first = A, W_h, rest, first
        (T, B, _), H = A.shape, W_h.shape[1]
        self.P, self.stats = torch.empty_like(A), A.new_empty(T, B, 4)
        self.C = A.new_empty(T, B, H) if len(first) == 2 else None

    def forward(self) -> tuple[Tensor, ...]:
        """Return y (T, B, H) and the last state (B, H), which without a step is the first."""
        A, P, C, rest, eps = self.A, self.P, self.C, self.rest, (self.eps[0], self.eps[2])
        y, last = A.new_empty(*A.shape[:2], self.W_h.shape[1]), [s.clone() for s in self.first]
        out = self.stats, y, *last
        if self.cell_kind is CellKind.RNN:
            program, arguments, eps = rnn_step_forward, (A, P, *out, *rest), eps[:1]
        elif self.cell_kind in GRUS:
            program, arguments = gru_step_forward, (A, P, *out, *self.first, *rest)
        else:
            program, arguments = lstm_step_forward, (A, P, C, *out, self.first[1], *rest)
        W = self.W_h.t()
        for t, h in enumerate([self.first[0], *y.unbind(0)[:-1]]):
            torch.mm(h, W, out=P[t])
            self.launch_step(program, *arguments, self.lengths, t, len(h), *eps)
        return (y, *last)

    def launch_step(self, step_program: Any, *arguments: Any) -> None:
        """Launch the program of one time step, once for each example."""
        B, H = self.first[0].shape
        keeps = self.cell_kind is CellKind.GRU_KEEPS
        flag = {"OPEN_GATE_KEEPS": keeps} if self.cell_kind in GRUS else {}
        step_program[(B,)](
            *arguments, RAGGED=self.lengths is not None, **flag, **launch_settings(H)
        )

    def backward(self, y: Tensor, dy: Tensor, dlast: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the gradients of A (T, B, n), W_h, ``rest`` and ``first``."""
        A, P, C, stats, rest = self.A, self.P, self.C, self.stats, self.rest
        # gradients of the state behind a step; after the last step, of the first state
        dstate = [a.clone(memory_format=torch.contiguous_format) for a in dlast]
        dA = torch.empty_like(A)
        # of the products W_h h; an RNN has no norm between them and A
        dP = dA if self.cell_kind is CellKind.RNN else torch.empty_like(A)
        # of the layer norm that has a bias of its own: LN(c), LN(U h), LN(a)
        dN = torch.empty_like(dy)
        if self.cell_kind is CellKind.RNN:
            program, arguments = rnn_step_backward, (P, stats, y, dy, *dstate, dP, dN, rest[0])
        elif self.cell_kind in GRUS:
            given = A, P, stats, y, dy, *dstate, *self.first
            program, arguments = gru_step_backward, (*given, dA, dP, dN, *rest)
        else:
            given = A, P, C, stats, dy, *dstate, self.first[1]
            program, arguments = lstm_step_backward, (*given, dA, dP, dN, *rest)
        for t in reversed(range(len(A))):
            self.launch_step(program, *arguments, self.lengths, t, A.shape[1])
            dstate[0].addmm_(dP[t], self.W_h)
        # the gradients of the weights: one operation each over all steps
        dW = dP[0].t() @ self.first[0]
        dW.addmm_(dP[1:].flatten(0, 1).t(), y[:-1].flatten(0, 1))
        H, (gates, other) = dN.shape[2], stats.split(2, -1)
        if self.cell_kind is CellKind.RNN:
            return dA, dW, *affine_grads(dN, P, gates), *dstate
        if self.cell_kind in GRUS:
            dg, _ = affine_grads(dA[..., : 2 * H], P[..., : 2 * H], gates)
            return dA, dW, dg, *affine_grads(dN, P[..., 2 * H :], other), *dstate
        assert C is not None
        dg, _ = affine_grads(dA, P, gates)
        return dA, dW, dg, *affine_grads(dN, C, other), *dstate


def launch_settings(H: int) -> dict[str, int]:
    """Return the units, the power of two that holds them, and warps.

    Four units a thread, eight of 2,048: with sixteen warps the compiler leaves each thread too
    few registers, and spills.
    """
    BLOCK = max(16, 1 << (H - 1).bit_length())
    return {"H": H, "BLOCK": BLOCK, "num_warps": min(8, max(1, BLOCK // 128))}


def affine_grads(slope: Tensor, a: Tensor, stats: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of g and b of g (a - mu) / sigma + b, given its own (T, B, n)."""
    mu, r = stats.split(1, -1)
    # the difference first: a r - mu r, which torch's operator has, cancels where sigma is small
    return (slope * ((a - mu) * r)).sum((0, 1)), slope.sum((0, 1))


# --- the programs of a time step, one for each kernel ---


@triton.jit
def tanh(x):
    """tanh of float32, off by at most 3 units in the last place."""
    # near 0 the quotient below would cancel: there it is x times a polynomial in x^2, fitted
    s = x * x
    p = 2.218362135e-03 * s - 8.276125077e-03
    p = ((p * s + 2.174755011e-02) * s - 5.395655646e-02) * s + 1.333329185e-01
    near = x + x * s * (p * s - 3.333333309e-01)
    q = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - q) / (1.0 + q)
    return tl.where(s < 0.4225, near, tl.where(x < 0, -far, far))


@triton.jit
def centred_and_mean(a, i, H):
    """H numbers less their mean, 0 beyond them, and the mean."""
    # first the mean, then the squares of what is left: E[a²] - mu² would cancel in float32
    mu = tl.sum(tl.where(i < H, a, 0.0)) / H
    return tl.where(i < H, a - mu, 0.0), mu


@triton.jit
def normalized_mean_and_rstd(a, i, H, eps):
    """(a - mu) / sigma of H numbers, mu, and 1/sigma."""
    d, mu = centred_and_mean(a, i, H)
    r = 1.0 / tl.sqrt(tl.sum(d * d) / H + eps)
    return d * r, mu, r


@triton.jit
def norm_backward(slope, n, mean, slant, r):
    """Return the gradient by a of n = (a - mu) r, given that of n and its two means."""
    # Of n_j = (a_j - mu) r by a_i: r (1[i = j] - 1/H - n_i n_j / H), the summands by way of
    # a_j, mu and r. Summed over j with the grads s_j of n_j: r (s_i - mean s - n_i mean(s n));
    # eps is in r alone.
    return r * (slope - mean - n * slant)


@triton.jit
def load_four_gates(p, i, mask, H):
    """The four gates of a row, H numbers each."""
    return (
        tl.load(p + i, mask, 0.0), tl.load(p + H + i, mask, 0.0),
        tl.load(p + 2 * H + i, mask, 0.0), tl.load(p + 3 * H + i, mask, 0.0),
    )  # fmt: skip


@triton.jit
def store_gates(p, i, m, H, f, w, o, g):
    """Write the four gates of a row."""
    tl.store(p + i, f, m)
    tl.store(p + H + i, w, m)
    tl.store(p + 2 * H + i, o, m)
    tl.store(p + 3 * H + i, g, m)


@triton.jit
def sum_over_gates_and_units(f, w, o, g):
    """The sum over all units of the four gates."""
    return tl.sum(f) + tl.sum(w) + tl.sum(o) + tl.sum(g)


@triton.jit
def save_stats(stats, row, mu_1, r_1, mu_2, r_2, going):
    """Keep the statistics of one row."""
    tl.store(stats + row * 4, tl.where(going, mu_1, 0.0))
    tl.store(stats + row * 4 + 1, tl.where(going, r_1, 0.0))
    tl.store(stats + row * 4 + 2, tl.where(going, mu_2, 0.0))
    tl.store(stats + row * 4 + 3, tl.where(going, r_2, 0.0))


@triton.jit
def is_inside(lengths, example, t, RAGGED: tl.constexpr):
    """True if step t lies inside the sequence of an example."""
    return t < tl.load(lengths + example) if RAGGED else t >= 0


@triton.jit
def lstm_step_forward(
    A, P, C, stats, y, last, c_last, c_first, g_h, g_c, b_c, lengths,
    t, B, eps_h, eps_c,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Eq. 20 to 22."""
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    p_f, p_i, p_o, p_g = load_four_gates(P + row * 4 * H, i, m, H)
    mu_h = sum_over_gates_and_units(p_f, p_i, p_o, p_g) / (4 * H)
    p_f, p_i = tl.where(m, p_f - mu_h, 0.0), tl.where(m, p_i - mu_h, 0.0)
    p_o, p_g = tl.where(m, p_o - mu_h, 0.0), tl.where(m, p_g - mu_h, 0.0)
    squares = sum_over_gates_and_units(p_f * p_f, p_i * p_i, p_o * p_o, p_g * p_g)
    r_h = 1.0 / tl.sqrt(squares / (4 * H) + eps_h)
    g_f, g_i, g_o, g_g = load_four_gates(g_h, i, m, H)
    p_f, p_i = p_f * r_h * g_f, p_i * r_h * g_i
    p_o, p_g = p_o * r_h * g_o, p_g * r_h * g_g
    a_f, a_i, a_o, a_g = load_four_gates(A + row * 4 * H, i, m, H)
    f, w = tl.sigmoid(p_f + a_f), tl.sigmoid(p_i + a_i)
    o, g = tl.sigmoid(p_o + a_o), tanh(p_g + a_g)
    # c_(t-1): at t = 0 the first state, later what the step before has kept
    old = tl.load(c_first + example * H + i, m & (t == 0), 0.0)
    old += tl.load(C + (row - B) * H + i, m & (t > 0), 0.0)
    c = tl.where(going, f * old + w * g, old)
    n, mu_c, r_c = normalized_mean_and_rstd(c, i, H, eps_c)
    h = o * tanh(n * tl.load(g_c + i, m, 0.0) + tl.load(b_c + i, m, 0.0))
    tl.store(C + row * H + i, c, m)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + example * H + i, h, m & going)
    tl.store(c_last + example * H + i, c, m & going)
    save_stats(stats, row, mu_h, r_h, mu_c, r_c, going)


@triton.jit
def lstm_step_backward(
    A, P, C, stats, dy, dh, dc, c_first, dA, dP, dN, g_h, g_c, b_c, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`lstm_step_forward`.

    It reads and writes dh and dc (B, H), the grads of the state behind the step and then,
    of h without its share by way of P, before it; dN (T, B, H) is the slope of LN(c).
    """
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    s = stats + row * 4
    n_f, n_i, n_o, n_g = load_four_gates(P + row * 4 * H, i, m, H)
    mu, r = tl.load(s), tl.load(s + 1)
    n_f, n_i = tl.where(m, (n_f - mu) * r, 0.0), tl.where(m, (n_i - mu) * r, 0.0)
    n_o, n_g = tl.where(m, (n_o - mu) * r, 0.0), tl.where(m, (n_g - mu) * r, 0.0)
    g_f, g_i, g_o, g_g = load_four_gates(g_h, i, m, H)
    a_f, a_i, a_o, a_g = load_four_gates(A + row * 4 * H, i, m, H)
    f, w = tl.sigmoid(n_f * g_f + a_f), tl.sigmoid(n_i * g_i + a_i)
    o, g = tl.sigmoid(n_o * g_o + a_o), tanh(n_g * g_g + a_g)
    old = tl.load(c_first + example * H + i, m & (t == 0), 0.0)
    old += tl.load(C + (row - B) * H + i, m & (t > 0), 0.0)
    c = tl.load(C + row * H + i, m, 0.0)
    r_c, gain_c = tl.load(s + 3), tl.load(g_c + i, m, 0.0)
    n_c = tl.where(m, (c - tl.load(s + 2)) * r_c, 0.0)
    v = tanh(n_c * gain_c + tl.load(b_c + i, m, 0.0))
    slope_h = tl.load(dh + example * H + i, m, 0.0)
    slope_c = tl.load(dc + example * H + i, m, 0.0)
    d = tl.where(going, slope_h + tl.load(dy + row * H + i, m, 0.0), 0.0)
    d_n = d * o * (1.0 - v * v)
    tl.store(dN + row * H + i, d_n, m)
    d_n = d_n * gain_c
    # c_t goes two ways: on to step t + 1, and by LN into h_t
    d_c = tl.where(going, slope_c, 0.0)
    d_c += norm_backward(d_n, n_c, tl.sum(d_n) / H, tl.sum(d_n * n_c) / H, r_c)
    # c_t = f c_(t-1) + w g and h_t = o v; the slope of sigmoid is f (1 - f), of tanh 1 - g²
    d_f, d_i = d_c * old * f * (1.0 - f), d_c * g * w * (1.0 - w)
    d_o, d_g = d * v * o * (1.0 - o), d_c * w * (1.0 - g * g)
    store_gates(dA + row * 4 * H, i, m, H, d_f, d_i, d_o, d_g)
    d_f, d_i, d_o, d_g = d_f * g_f, d_i * g_i, d_o * g_o, d_g * g_g
    # LN_1 of eq. 20 runs over the four gates at once: so do both means of `norm_backward`
    mean = sum_over_gates_and_units(d_f, d_i, d_o, d_g) / (4 * H)
    slant = sum_over_gates_and_units(d_f * n_f, d_i * n_i, d_o * n_o, d_g * n_g) / (4 * H)
    store_gates(
        dP + row * 4 * H, i, m, H,
        norm_backward(d_f, n_f, mean, slant, r), norm_backward(d_i, n_i, mean, slant, r),
        norm_backward(d_o, n_o, mean, slant, r), norm_backward(d_g, n_g, mean, slant, r),
    )  # fmt: skip
    tl.store(dh + example * H + i, tl.where(going, 0.0, slope_h), m)
    tl.store(dc + example * H + i, tl.where(going, d_c * f, slope_c), m)


@triton.jit
def gru_step_forward(
    A, P, stats, y, last, first, g_h, g_U, b_U, lengths,
    t, B, eps_h, eps_U,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, OPEN_GATE_KEEPS: tl.constexpr,
):  # fmt: skip
    """Eq. 26 to 28; with OPEN_GATE_KEEPS an open gate z keeps what there is."""
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    p, a = P + row * 3 * H, A + row * 3 * H
    p_z, p_r = tl.load(p + i, m, 0.0), tl.load(p + H + i, m, 0.0)
    mu_h = (tl.sum(p_z) + tl.sum(p_r)) / (2 * H)
    p_z, p_r = tl.where(m, p_z - mu_h, 0.0), tl.where(m, p_r - mu_h, 0.0)
    r_h = 1.0 / tl.sqrt((tl.sum(p_z * p_z) + tl.sum(p_r * p_r)) / (2 * H) + eps_h)
    z = p_z * r_h * tl.load(g_h + i, m, 0.0) + tl.load(a + i, m, 0.0)
    r = p_r * r_h * tl.load(g_h + H + i, m, 0.0) + tl.load(a + H + i, m, 0.0)
    z, r = tl.sigmoid(z), tl.sigmoid(r)
    n, mu_U, r_U = normalized_mean_and_rstd(tl.load(p + 2 * H + i, m, 0.0), i, H, eps_U)
    u = n * tl.load(g_U + i, m, 0.0) + tl.load(b_U + i, m, 0.0)
    new = tanh(tl.load(a + 2 * H + i, m, 0.0) + r * u)
    old = tl.load(first + example * H + i, m & (t == 0), 0.0)
    old += tl.load(y + (row - B) * H + i, m & (t > 0), 0.0)
    # eq. 28, (1 - z) h + z ĥ, with one product
    h = new + z * (old - new) if OPEN_GATE_KEEPS else old + z * (new - old)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + example * H + i, h, m & going)
    save_stats(stats, row, mu_h, r_h, mu_U, r_U, going)


@triton.jit
def gru_step_backward(
    A, P, stats, y, dy, dh, first, dA, dP, dN, g_h, g_U, b_U, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, OPEN_GATE_KEEPS: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`gru_step_forward`; dN is the slope of LN(U h)."""
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    p, a, s = P + row * 3 * H, A + row * 3 * H, stats + row * 4
    mu, r_h, r_U = tl.load(s), tl.load(s + 1), tl.load(s + 3)
    n_z = tl.where(m, (tl.load(p + i, m, 0.0) - mu) * r_h, 0.0)
    n_r = tl.where(m, (tl.load(p + H + i, m, 0.0) - mu) * r_h, 0.0)
    n_U = tl.where(m, (tl.load(p + 2 * H + i, m, 0.0) - tl.load(s + 2)) * r_U, 0.0)
    g_z, g_r = tl.load(g_h + i, m, 0.0), tl.load(g_h + H + i, m, 0.0)
    gain_U = tl.load(g_U + i, m, 0.0)
    z = tl.sigmoid(n_z * g_z + tl.load(a + i, m, 0.0))
    r = tl.sigmoid(n_r * g_r + tl.load(a + H + i, m, 0.0))
    u = n_U * gain_U + tl.load(b_U + i, m, 0.0)
    new = tanh(tl.load(a + 2 * H + i, m, 0.0) + r * u)
    old = tl.load(first + example * H + i, m & (t == 0), 0.0)
    old += tl.load(y + (row - B) * H + i, m & (t > 0), 0.0)
    slope = tl.load(dh + example * H + i, m, 0.0)
    d = tl.where(going, slope + tl.load(dy + row * H + i, m, 0.0), 0.0)
    # h_t is linear in z, in ĥ and in h_(t-1), whose share by way of P is added later
    d_z = (d * (old - new) if OPEN_GATE_KEEPS else d * (new - old)) * z * (1.0 - z)
    d_new = (d * (1.0 - z) if OPEN_GATE_KEEPS else d * z) * (1.0 - new * new)
    d_old = d * z if OPEN_GATE_KEEPS else d * (1.0 - z)
    d_r, d_u = d_new * u * r * (1.0 - r), d_new * r
    tl.store(dN + row * H + i, d_u, m)
    q = dA + row * 3 * H
    tl.store(q + i, d_z, m)
    tl.store(q + H + i, d_r, m)
    tl.store(q + 2 * H + i, d_new, m)
    d_z, d_r, d_u = d_z * g_z, d_r * g_r, d_u * gain_U
    mean = (tl.sum(d_z) + tl.sum(d_r)) / (2 * H)
    slant = (tl.sum(d_z * n_z) + tl.sum(d_r * n_r)) / (2 * H)
    q = dP + row * 3 * H
    tl.store(q + i, norm_backward(d_z, n_z, mean, slant, r_h), m)
    tl.store(q + H + i, norm_backward(d_r, n_r, mean, slant, r_h), m)
    d_U = norm_backward(d_u, n_U, tl.sum(d_u) / H, tl.sum(d_u * n_U) / H, r_U)
    tl.store(q + 2 * H + i, d_U, m)
    tl.store(dh + example * H + i, tl.where(going, d_old, slope), m)


@triton.jit
def rnn_step_forward(
    A, P, stats, y, last, g, b, lengths,
    t, B, eps,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Eq. 4 with f = tanh; leaves the summed inputs where the product was."""
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    a = tl.load(A + row * H + i, m, 0.0) + tl.load(P + row * H + i, m, 0.0)
    n, mu, r = normalized_mean_and_rstd(a, i, H, eps)
    h = tanh(n * tl.load(g + i, m, 0.0) + tl.load(b + i, m, 0.0))
    tl.store(P + row * H + i, a, m)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + example * H + i, h, m & going)
    save_stats(stats, row, mu, r, 0.0, 0.0, going)


@triton.jit
def rnn_step_backward(
    P, stats, y, dy, dh, dP, dN, g, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`rnn_step_forward`; dN is the slope of LN(a)."""
    example = tl.program_id(0).to(tl.int64)
    row = t * B + example
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, example, t, RAGGED)
    r = tl.load(stats + row * 4 + 1)
    n = tl.where(m, (tl.load(P + row * H + i, m, 0.0) - tl.load(stats + row * 4)) * r, 0.0)
    h = tl.load(y + row * H + i, m, 0.0)
    slope = tl.load(dh + example * H + i, m, 0.0)
    d = tl.where(going, slope + tl.load(dy + row * H + i, m, 0.0), 0.0) * (1.0 - h * h)
    tl.store(dN + row * H + i, d, m)
    d = d * tl.load(g + i, m, 0.0)
    tl.store(dP + row * H + i, norm_backward(d, n, tl.sum(d) / H, tl.sum(d * n) / H, r), m)
    tl.store(dh + example * H + i, tl.where(going, 0.0, slope), m)
