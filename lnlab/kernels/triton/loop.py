"""The loop over time: a product and a Triton program for each step, forward and back.

What does not depend on the step before is not done here: the share of x came from one product
over all steps, and the slopes of W_h and of gains and biases are one operation each at the end.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlab.cells import State
from lnlab.kernels.compiled import refuse_second
from lnlab.kernels.forms import Form, Kernel
from lnlab.kernels.triton import graphs, programs

GRUS = Kernel.GRU_WRITES, Kernel.GRU_KEEPS


def steps(
    form: Form,
    from_x: Tensor,
    W_h: Tensor,
    rest: tuple[Tensor, ...],
    state: State,
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """Every h (T, B, H), 0 at padding, and the last state: a :data:`hoisted.Steps`."""
    inputs = [a.to(W_h.dtype) for a in (from_x, W_h, *rest, *state)]
    keep = torch.is_grad_enabled() and any(a.requires_grad for a in inputs)
    given = Fixed(form.kernel, form.eps, len(state), lengths, keep)
    y, *last = TritonRecurrence.apply(given, *inputs)
    return y, tuple(last)


class Fixed(NamedTuple):
    """The arguments of one call that have no slope."""

    kernel: Kernel
    eps: tuple[float, ...]
    states: int
    lengths: Tensor | None
    keep: bool
    """True if there will be a way back."""


class TritonRecurrence(torch.autograd.Function):
    """(A, W_h, gains and biases, h0[, c0]) to (y, h_n[, c_n])."""

    @staticmethod
    def forward(ctx: Any, given: Fixed, *inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast(inputs[0].device.type, enabled=False):
            told = Pass.of(given, [a.detach().contiguous() for a in inputs])
            ctx.way = graphs.borrowed(told, given.keep) or told
            y, *last = ctx.way.forward(told)
        if given.keep:
            ctx.save_for_backward(y)
        return (y, *last)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *dlast: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        (y,) = ctx.saved_tensors
        with torch.autocast(dy.device.type, enabled=False):
            return None, *ctx.way.backward(y, dy.contiguous(), dlast)


@dataclass
class Pass:
    """One pass over a sequence: what it reads, and what it keeps for the way back."""

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
        """The slopes of A (T, B, n), W_h, ``rest`` and ``first``."""
        slopes = self.slopes(dy)
        graphs.fill(slopes.dstate, dlast)
        slopes.launch(self, y)
        return slopes.dA, *slopes.of_weights(self, y), *slopes.dstate

    def slopes(self, dy: Tensor) -> "Slopes":
        """Room for the slopes of this pass, given that of y (T, B, H)."""
        dA = torch.empty_like(self.A)
        # where no norm stands between, that of the products is that of A
        dP = torch.empty_like(dA) if self.kernel in (Kernel.LSTM, *GRUS) else dA
        dstate = tuple(torch.empty_like(s) for s in self.first)
        return Slopes(dy, dstate, dA, dP, torch.empty_like(dy))

    def launch(self, y: Tensor, last: State) -> None:
        """Every step of y (T, B, H), whose last state goes into ``last``."""
        W = self.W_h.t()
        before = [self.first[0], *y.unbind(0)[:-1]]
        program, told, eps, flag = self._program(y, last)
        for t, (h, P) in enumerate(zip(before, self.P.unbind(0), strict=True)):
            torch.mm(h, W, out=P)
            self.run(program, *told, self.lengths, t, len(h), *eps, **flag)

    def _program(self, y: Tensor, last: State) -> tuple[Any, tuple, tuple, dict[str, bool]]:
        eps, out = (self.eps[0], self.eps[2]), (self.stats, y, *last)
        if self.kernel is Kernel.RNN:
            return programs.rnn, (self.A, self.P, *out, *self.rest), eps[:1], {}
        if self.kernel in GRUS:
            told = self.A, self.P, *out, *self.first, *self.rest
            return programs.gru, told, eps, {"KEEPS": self.kernel is Kernel.GRU_KEEPS}
        told = self.A, self.P, self.C, *out, self.first[1], *self.rest
        return programs.lstm, told, eps, {"NORMED": self.kernel is Kernel.LSTM}

    def run(self, program: Any, *told: Any, **flag: bool) -> None:
        """One program a case."""
        B, H = self.first[0].shape
        program[(B,)](*told, RAGGED=self.lengths is not None, **flag, **shape(H))


def shape(H: int) -> dict[str, int]:
    """Units, the power of two that holds them, and warps: four units a thread, eight of 2,048.
    With sixteen warps the compiler leaves each thread too few registers, and spills."""
    BLOCK = max(16, 1 << (H - 1).bit_length())
    return {"H": H, "BLOCK": BLOCK, "num_warps": min(8, max(1, BLOCK // 128))}


@dataclass
class Slopes:
    """The slopes that the way back is given, and those that it finds."""

    dy: Tensor
    dstate: State
    """The slopes of the last state; behind the way back, of the first."""
    dA: Tensor
    dP: Tensor
    """The slopes of the products W_h h."""
    dN: Tensor
    """The slopes of the layer norm that has a bias of its own: LN(c), LN(U h), LN(a)."""

    def launch(self, way: Pass, y: Tensor) -> None:
        """Every step of the way back, slopes (B, n) of each, the last one first."""
        program, told, flag = self._program(way, y)
        dh = self.dstate[0]
        for t, dP in reversed(list(enumerate(self.dP.unbind(0)))):
            way.run(program, *told, way.lengths, t, len(dh), **flag)
            dh.addmm_(dP, way.W_h)

    def _program(self, way: Pass, y: Tensor) -> tuple[Any, tuple, dict[str, bool]]:
        own = self.dA, self.dP, self.dN
        if way.kernel is Kernel.RNN:
            told = way.P, way.stats, y, self.dy, *self.dstate, self.dP, self.dN, way.rest[0]
            return programs.rnn_back, told, {}
        if way.kernel in GRUS:
            told = way.A, way.P, way.stats, y, self.dy, *self.dstate, *way.first, *own
            return programs.gru_back, (*told, *way.rest), {"KEEPS": way.kernel is GRUS[1]}
        told = way.A, way.P, way.C, way.stats, self.dy, *self.dstate, way.first[1], *own
        return programs.lstm_back, (*told, *way.rest), {"NORMED": way.kernel is Kernel.LSTM}

    def of_weights(self, way: Pass, y: Tensor) -> tuple[Tensor, ...]:
        """The slopes of W_h (n, H) and of ``rest``, given y (T, B, H): all steps added up."""
        H, (one, other) = self.dN.shape[2], way.stats.split(2, -1)
        dW = self.dP[0].t() @ way.first[0]
        dW.addmm_(self.dP[1:].flatten(0, 1).t(), y[:-1].flatten(0, 1))
        if way.kernel is Kernel.RNN:
            return dW, *affine(self.dN, way.P, one)
        if way.kernel in GRUS:
            dg, _ = affine(self.dA[..., : 2 * H], way.P[..., : 2 * H], one)
            return dW, dg, *affine(self.dN, way.P[..., 2 * H :], other)
        dg = torch.zeros_like(way.rest[0])
        if way.kernel is Kernel.LSTM:
            dg, _ = affine(self.dA, way.P, one)
        assert way.C is not None
        return dW, dg, *affine(self.dN, way.C, other)


def affine(slope: Tensor, a: Tensor, stats: Tensor) -> tuple[Tensor, Tensor]:
    """The slopes of g and b of g (a - mu) / sigma + b, from those of it (T, B, n)."""
    mu, r = stats.split(1, -1)
    # the difference first: a r - mu r, which torch's operator has, cancels where sigma is small
    return (slope * ((a - mu) * r)).sum((0, 1)), slope.sum((0, 1))
