# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""The loop over time: a product and a Triton program for each step, forward and back.

What does not depend on the step before is computed elsewhere: the terms of x by one product
over all steps, the gradients by W_h, gains and biases by one operation each at the end.

A program computes one step of one example: it holds the whole vector that its layer norm runs
over, and waits for no other program. Before it, torch has written the product ``P = W_h h`` of
the step; ``A`` has the terms of x in every step. The backward pass reads the same tensors and
computes the gates again, which costs less than to write and read them. Row ``t B + case`` of a
tensor (T, B, n) is that of a step and an example; ``H`` units stand in a block of ``BLOCK``, a
power of two.

Statistics are one row of four numbers: mu and 1/sigma of two layer norms, 0 at padding.
This file needs the package ``triton``; import it late.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from lnlab.kernels.fused_cells import FusedCell, Kernel, refuse_second_derivative
from lnlab.kernels.gpu import borrow_recorded_pass, copy_tree_
from lnlab.nn import State

GRUS = Kernel.GRU_WRITES, Kernel.GRU_KEEPS


def steps(
    form: FusedCell,
    from_x: Tensor,
    W_h: Tensor,
    rest: tuple[Tensor, ...],
    state: State,
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """Every h (T, B, H), 0 at padding, and the last state: :data:`lnlab.kernels.gpu.Steps`."""
    inputs = [a.to(W_h.dtype) for a in (from_x, W_h, *rest, *state)]
    keep = torch.is_grad_enabled() and any(a.requires_grad for a in inputs)
    given = Fixed(form.kernel, form.eps, len(state), lengths, keep)
    y, *last = TritonRecurrence.apply(given, *inputs)
    return y, tuple(last)


class Fixed(NamedTuple):
    """The arguments of one call that have no gradient."""

    kernel: Kernel
    eps: tuple[float, ...]
    states: int
    lengths: Tensor | None
    keep: bool
    """True if there will be a backward pass."""


class TritonRecurrence(torch.autograd.Function):
    """(A, W_h, gains and biases, h0[, c0]) to (y, h_n[, c_n])."""

    @staticmethod
    def forward(ctx: Any, given: Fixed, *inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast(inputs[0].device.type, enabled=False):
            pass_ = Pass.of(given, [a.detach().contiguous() for a in inputs])
            ctx.runner = borrow_recorded_pass(pass_, given.keep) or pass_
            y, *last = ctx.runner.forward(pass_)
        if given.keep:
            ctx.save_for_backward(y)
        return (y, *last)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *dlast: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        (y,) = ctx.saved_tensors
        with torch.autocast(dy.device.type, enabled=False):
            return None, *ctx.runner.backward(y, dy.contiguous(), dlast)


@dataclass
class Pass:
    """One pass over a sequence: its inputs, and what it saves for the backward pass."""

    kernel: Kernel
    eps: tuple[float, ...]
    A: Tensor
    W_h: Tensor
    rest: tuple[Tensor, ...]
    first: State
    lengths: Tensor | None
    P: Tensor
    stats: Tensor
    C: Tensor | None

    @classmethod
    def of(cls, given: Fixed, inputs: list[Tensor]) -> "Pass":
        """The pass over inputs (T, B, D) that lie in order, with room for what it keeps."""
        A, W_h, *others = inputs
        rest, first = tuple(others[: -given.states]), tuple(others[-given.states :])
        (T, B, _), H = A.shape, W_h.shape[1]
        C = A.new_empty(T, B, H) if given.states == 2 else None
        kept = torch.empty_like(A), A.new_empty(T, B, 4), C
        return cls(given.kernel, given.eps, A, W_h, rest, first, given.lengths, *kept)

    def results(self) -> tuple[Tensor, State]:
        """Room for y (T, B, H), and for the last state, which is the first where no step is."""
        (T, B, _), H = self.A.shape, self.W_h.shape[1]
        return self.A.new_empty(T, B, H), tuple(s.clone() for s in self.first)

    def forward(self, _: "Pass") -> tuple[Tensor, ...]:
        """y (T, B, H) and the last state (B, H)."""
        y, last = self.results()
        self.launch(y, last)
        return (y, *last)

    def backward(self, y: Tensor, dy: Tensor, dlast: State) -> tuple[Tensor, ...]:
        """The grads of A (T, B, n), W_h, ``rest`` and ``first``."""
        grads = self.grads(dy)
        copy_tree_(grads.dstate, dlast)
        grads.launch(self, y)
        return grads.dA, *grads.of_weights(self, y), *grads.dstate

    def grads(self, dy: Tensor) -> "Grads":
        """Room for the grads of this pass, given that of y (T, B, H)."""
        dA = torch.empty_like(self.A)
        # where no norm stands between, that of the products is that of A
        dP = torch.empty_like(dA) if self.kernel in (Kernel.LSTM, *GRUS) else dA
        dstate = tuple(torch.empty_like(s) for s in self.first)
        return Grads(dy, dstate, dA, dP, torch.empty_like(dy))

    def launch(self, y: Tensor, last: State) -> None:
        """Every step of y (T, B, H), whose last state goes into ``last``."""
        W = self.W_h.t()
        before = [self.first[0], *y.unbind(0)[:-1]]
        program, arguments, eps, flag = self._program(y, last)
        for t, (h, P) in enumerate(zip(before, self.P.unbind(0), strict=True)):
            torch.mm(h, W, out=P)
            self.run(program, *arguments, self.lengths, t, len(h), *eps, **flag)

    def _program(self, y: Tensor, last: State) -> tuple[Any, tuple, tuple, dict[str, bool]]:
        eps, out = (self.eps[0], self.eps[2]), (self.stats, y, *last)
        if self.kernel is Kernel.RNN:
            return rnn, (self.A, self.P, *out, *self.rest), eps[:1], {}
        if self.kernel in GRUS:
            arguments = self.A, self.P, *out, *self.first, *self.rest
            return gru, arguments, eps, {"KEEPS": self.kernel is Kernel.GRU_KEEPS}
        arguments = self.A, self.P, self.C, *out, self.first[1], *self.rest
        return lstm, arguments, eps, {"NORMED": self.kernel is Kernel.LSTM}

    def run(self, program: Any, *arguments: Any, **flag: bool) -> None:
        """One program a case."""
        B, H = self.first[0].shape
        program[(B,)](*arguments, RAGGED=self.lengths is not None, **flag, **shape(H))


def shape(H: int) -> dict[str, int]:
    """Units, the power of two that holds them, and warps: four units a thread, eight of 2,048.
    With sixteen warps the compiler leaves each thread too few registers, and spills."""
    BLOCK = max(16, 1 << (H - 1).bit_length())
    return {"H": H, "BLOCK": BLOCK, "num_warps": min(8, max(1, BLOCK // 128))}


@dataclass
class Grads:
    """The gradients that the backward pass is given, and those that it computes."""

    dy: Tensor
    dstate: State
    """The gradients by the last state; after the backward pass, by the first."""
    dA: Tensor
    dP: Tensor
    """The grads of the products W_h h."""
    dN: Tensor
    """The grads of the layer norm that has a bias of its own: LN(c), LN(U h), LN(a)."""

    def launch(self, pass_: Pass, y: Tensor) -> None:
        """Every step of the backward pass, grads (B, n) of each, the last one first."""
        program, arguments, flag = self._program(pass_, y)
        dh = self.dstate[0]
        for t, dP in reversed(list(enumerate(self.dP.unbind(0)))):
            pass_.run(program, *arguments, pass_.lengths, t, len(dh), **flag)
            dh.addmm_(dP, pass_.W_h)

    def _program(self, pass_: Pass, y: Tensor) -> tuple[Any, tuple, dict[str, bool]]:
        p, own = pass_, (self.dA, self.dP, self.dN)
        if p.kernel is Kernel.RNN:
            own = self.dP, self.dN, p.rest[0]
            return rnn_back, (p.P, p.stats, y, self.dy, *self.dstate, *own), {}
        if p.kernel in GRUS:
            begin = p.A, p.P, p.stats, y, self.dy, *self.dstate, *p.first
            return gru_back, (*begin, *own, *p.rest), {"KEEPS": p.kernel is GRUS[1]}
        begin = p.A, p.P, p.C, p.stats, self.dy, *self.dstate, p.first[1]
        return lstm_back, (*begin, *own, *p.rest), {"NORMED": p.kernel is Kernel.LSTM}

    def of_weights(self, pass_: Pass, y: Tensor) -> tuple[Tensor, ...]:
        """The grads of W_h (n, H) and of ``rest``, given y (T, B, H): all steps added up."""
        H, (one, other) = self.dN.shape[2], pass_.stats.split(2, -1)
        dW = self.dP[0].t() @ pass_.first[0]
        dW.addmm_(self.dP[1:].flatten(0, 1).t(), y[:-1].flatten(0, 1))
        if pass_.kernel is Kernel.RNN:
            return dW, *affine(self.dN, pass_.P, one)
        if pass_.kernel in GRUS:
            dg, _ = affine(self.dA[..., : 2 * H], pass_.P[..., : 2 * H], one)
            return dW, dg, *affine(self.dN, pass_.P[..., 2 * H :], other)
        dg = torch.zeros_like(pass_.rest[0])
        if pass_.kernel is Kernel.LSTM:
            dg, _ = affine(self.dA, pass_.P, one)
        assert pass_.C is not None
        return dW, dg, *affine(self.dN, pass_.C, other)


def affine(slope: Tensor, a: Tensor, stats: Tensor) -> tuple[Tensor, Tensor]:
    """The grads of g and b of g (a - mu) / sigma + b, from those of it (T, B, n)."""
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
def centre(a, i, H):
    """H numbers less their mean, 0 beyond them, and the mean."""
    # first the mean, then the squares of what is left: E[a²] - mu² would cancel in float32
    mu = tl.sum(tl.where(i < H, a, 0.0)) / H
    return tl.where(i < H, a - mu, 0.0), mu


@triton.jit
def normalize(a, i, H, eps):
    """(a - mu) / sigma of H numbers, mu, and 1/sigma."""
    d, mu = centre(a, i, H)
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
def load_gates(p, i, m, H):
    """The four gates of a row, H numbers each."""
    return (
        tl.load(p + i, m, 0.0), tl.load(p + H + i, m, 0.0),
        tl.load(p + 2 * H + i, m, 0.0), tl.load(p + 3 * H + i, m, 0.0),
    )  # fmt: skip


@triton.jit
def store_gates(p, i, m, H, f, w, o, g):
    """Write the four gates of a row."""
    tl.store(p + i, f, m)
    tl.store(p + H + i, w, m)
    tl.store(p + 2 * H + i, o, m)
    tl.store(p + 3 * H + i, g, m)


@triton.jit
def sum_gates(f, w, o, g):
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
def is_inside(lengths, case, t, RAGGED: tl.constexpr):
    """True if step t lies inside the sequence of a case."""
    return t < tl.load(lengths + case) if RAGGED else t >= 0


@triton.jit
def lstm(
    A, P, C, stats, y, last, c_last, c_first, g_h, g_c, b_c, lengths,
    t, B, eps_h, eps_c,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Eq. 20 to 22; with NORMED false eq. 29 to 31, where c alone is normalized."""
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
    p_f, p_i, p_o, p_g = load_gates(P + row * 4 * H, i, m, H)
    mu_h, r_h = 0.0, 1.0
    if NORMED:
        mu_h = sum_gates(p_f, p_i, p_o, p_g) / (4 * H)
        p_f, p_i = tl.where(m, p_f - mu_h, 0.0), tl.where(m, p_i - mu_h, 0.0)
        p_o, p_g = tl.where(m, p_o - mu_h, 0.0), tl.where(m, p_g - mu_h, 0.0)
        squares = sum_gates(p_f * p_f, p_i * p_i, p_o * p_o, p_g * p_g)
        r_h = 1.0 / tl.sqrt(squares / (4 * H) + eps_h)
        g_f, g_i, g_o, g_g = load_gates(g_h, i, m, H)
        p_f, p_i = p_f * r_h * g_f, p_i * r_h * g_i
        p_o, p_g = p_o * r_h * g_o, p_g * r_h * g_g
    a_f, a_i, a_o, a_g = load_gates(A + row * 4 * H, i, m, H)
    f, w = tl.sigmoid(p_f + a_f), tl.sigmoid(p_i + a_i)
    o, g = tl.sigmoid(p_o + a_o), tanh(p_g + a_g)
    # c_(t-1): at t = 0 the first state, later what the step before has kept
    old = tl.load(c_first + case * H + i, m & (t == 0), 0.0)
    old += tl.load(C + (row - B) * H + i, m & (t > 0), 0.0)
    c = tl.where(going, f * old + w * g, old)
    n, mu_c, r_c = normalize(c, i, H, eps_c)
    h = o * tanh(n * tl.load(g_c + i, m, 0.0) + tl.load(b_c + i, m, 0.0))
    tl.store(C + row * H + i, c, m)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + case * H + i, h, m & going)
    tl.store(c_last + case * H + i, c, m & going)
    save_stats(stats, row, mu_h, r_h, mu_c, r_c, going)


@triton.jit
def lstm_back(
    A, P, C, stats, dy, dh, dc, c_first, dA, dP, dN, g_h, g_c, b_c, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`lstm`.

    It reads and writes dh and dc (B, H), the grads of the state behind the step and then,
    of h without its share by way of P, before it; dN (T, B, H) is the slope of LN(c).
    """
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
    s = stats + row * 4
    n_f, n_i, n_o, n_g = load_gates(P + row * 4 * H, i, m, H)
    g_f, g_i, g_o, g_g = 1.0, 1.0, 1.0, 1.0
    if NORMED:
        mu, r = tl.load(s), tl.load(s + 1)
        n_f, n_i = tl.where(m, (n_f - mu) * r, 0.0), tl.where(m, (n_i - mu) * r, 0.0)
        n_o, n_g = tl.where(m, (n_o - mu) * r, 0.0), tl.where(m, (n_g - mu) * r, 0.0)
        g_f, g_i, g_o, g_g = load_gates(g_h, i, m, H)
    a_f, a_i, a_o, a_g = load_gates(A + row * 4 * H, i, m, H)
    f, w = tl.sigmoid(n_f * g_f + a_f), tl.sigmoid(n_i * g_i + a_i)
    o, g = tl.sigmoid(n_o * g_o + a_o), tanh(n_g * g_g + a_g)
    old = tl.load(c_first + case * H + i, m & (t == 0), 0.0)
    old += tl.load(C + (row - B) * H + i, m & (t > 0), 0.0)
    c = tl.load(C + row * H + i, m, 0.0)
    r_c, gain_c = tl.load(s + 3), tl.load(g_c + i, m, 0.0)
    n_c = tl.where(m, (c - tl.load(s + 2)) * r_c, 0.0)
    v = tanh(n_c * gain_c + tl.load(b_c + i, m, 0.0))
    slope_h, slope_c = tl.load(dh + case * H + i, m, 0.0), tl.load(dc + case * H + i, m, 0.0)
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
    if NORMED:
        d_f, d_i, d_o, d_g = d_f * g_f, d_i * g_i, d_o * g_o, d_g * g_g
        # LN_1 of eq. 20 runs over the four gates at once: so do both means of `norm_backward`
        mean = sum_gates(d_f, d_i, d_o, d_g) / (4 * H)
        slant = sum_gates(d_f * n_f, d_i * n_i, d_o * n_o, d_g * n_g) / (4 * H)
        store_gates(
            dP + row * 4 * H, i, m, H,
            norm_backward(d_f, n_f, mean, slant, r), norm_backward(d_i, n_i, mean, slant, r),
            norm_backward(d_o, n_o, mean, slant, r), norm_backward(d_g, n_g, mean, slant, r),
        )  # fmt: skip
    tl.store(dh + case * H + i, tl.where(going, 0.0, slope_h), m)
    tl.store(dc + case * H + i, tl.where(going, d_c * f, slope_c), m)


@triton.jit
def gru(
    A, P, stats, y, last, first, g_h, g_U, b_U, lengths,
    t, B, eps_h, eps_U,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, KEEPS: tl.constexpr,
):  # fmt: skip
    """Eq. 26 to 28; with KEEPS an open gate z keeps what there is."""
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
    p, a = P + row * 3 * H, A + row * 3 * H
    p_z, p_r = tl.load(p + i, m, 0.0), tl.load(p + H + i, m, 0.0)
    mu_h = (tl.sum(p_z) + tl.sum(p_r)) / (2 * H)
    p_z, p_r = tl.where(m, p_z - mu_h, 0.0), tl.where(m, p_r - mu_h, 0.0)
    r_h = 1.0 / tl.sqrt((tl.sum(p_z * p_z) + tl.sum(p_r * p_r)) / (2 * H) + eps_h)
    z = p_z * r_h * tl.load(g_h + i, m, 0.0) + tl.load(a + i, m, 0.0)
    r = p_r * r_h * tl.load(g_h + H + i, m, 0.0) + tl.load(a + H + i, m, 0.0)
    z, r = tl.sigmoid(z), tl.sigmoid(r)
    n, mu_U, r_U = normalize(tl.load(p + 2 * H + i, m, 0.0), i, H, eps_U)
    u = n * tl.load(g_U + i, m, 0.0) + tl.load(b_U + i, m, 0.0)
    new = tanh(tl.load(a + 2 * H + i, m, 0.0) + r * u)
    old = tl.load(first + case * H + i, m & (t == 0), 0.0)
    old += tl.load(y + (row - B) * H + i, m & (t > 0), 0.0)
    # eq. 28, (1 - z) h + z ĥ, with one product
    h = new + z * (old - new) if KEEPS else old + z * (new - old)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + case * H + i, h, m & going)
    save_stats(stats, row, mu_h, r_h, mu_U, r_U, going)


@triton.jit
def gru_back(
    A, P, stats, y, dy, dh, first, dA, dP, dN, g_h, g_U, b_U, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr, KEEPS: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`gru`; dN is the slope of LN(U h)."""
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
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
    old = tl.load(first + case * H + i, m & (t == 0), 0.0)
    old += tl.load(y + (row - B) * H + i, m & (t > 0), 0.0)
    slope = tl.load(dh + case * H + i, m, 0.0)
    d = tl.where(going, slope + tl.load(dy + row * H + i, m, 0.0), 0.0)
    # h_t is linear in z, in ĥ and in h_(t-1), whose share by way of P is added later
    d_z = (d * (old - new) if KEEPS else d * (new - old)) * z * (1.0 - z)
    d_new = (d * (1.0 - z) if KEEPS else d * z) * (1.0 - new * new)
    d_old = d * z if KEEPS else d * (1.0 - z)
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
    tl.store(dh + case * H + i, tl.where(going, d_old, slope), m)


@triton.jit
def rnn(
    A, P, stats, y, last, g, b, lengths,
    t, B, eps,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Eq. 4 with f = tanh; leaves the summed inputs where the product was."""
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
    a = tl.load(A + row * H + i, m, 0.0) + tl.load(P + row * H + i, m, 0.0)
    n, mu, r = normalize(a, i, H, eps)
    h = tanh(n * tl.load(g + i, m, 0.0) + tl.load(b + i, m, 0.0))
    tl.store(P + row * H + i, a, m)
    tl.store(y + row * H + i, tl.where(going, h, 0.0), m)
    tl.store(last + case * H + i, h, m & going)
    save_stats(stats, row, mu, r, 0.0, 0.0, going)


@triton.jit
def rnn_back(
    P, stats, y, dy, dh, dP, dN, g, lengths,
    t, B,
    H: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """The backward pass of one step of :func:`rnn`; dN is the slope of LN(a)."""
    case = tl.program_id(0).to(tl.int64)
    row = t * B + case
    i = tl.arange(0, BLOCK)
    m = i < H
    going = is_inside(lengths, case, t, RAGGED)
    r = tl.load(stats + row * 4 + 1)
    n = tl.where(m, (tl.load(P + row * H + i, m, 0.0) - tl.load(stats + row * 4)) * r, 0.0)
    h = tl.load(y + row * H + i, m, 0.0)
    slope = tl.load(dh + case * H + i, m, 0.0)
    d = tl.where(going, slope + tl.load(dy + row * H + i, m, 0.0), 0.0) * (1.0 - h * h)
    tl.store(dN + row * H + i, d, m)
    d = d * tl.load(g + i, m, 0.0)
    tl.store(dP + row * H + i, norm_backward(d, n, tl.sum(d) / H, tl.sum(d * n) / H, r), m)
    tl.store(dh + case * H + i, tl.where(going, 0.0, slope), m)
