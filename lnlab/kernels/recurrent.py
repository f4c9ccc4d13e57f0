"""The compiled loop over time: :func:`lnlab.nn.recurrent.unroll` in one call forward, one
back."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.kernels import fallback, triton
from lnlab.kernels.forms import Form, Kernel, exactly, form, lstm, refuse_second, watched
from lnlab.kernels.library import Problem, library, own_cache
from lnlab.kernels.normalizers import FusedBatchNorm, FusedRecurrentBatchNorm
from lnlab.nn import (
    BatchNorm,
    Bias,
    Cell,
    CellState,
    LSTMCell,
    RecurrentBatchNorm,
    State,
    inside_root,
)
from lnlab.nn import recurrent as reference
from lnlab.nn.batch import update_average
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import flip

# LSTMs with batch norm: what the kernel needs of them, and their loop on torch's operators.
#
# The kernel (cpp/over_cases.h) has all cases of a step in one place. It reads the moments of
# the
# steps, or tells of them, and they are remembered once all steps are over.
#
# On torch's operators there is one batch_norm a statistic. Cases are put in the order of their
# lengths, the longest first, so that those that still go on are the first of every step: a
# slice,
# over which the statistics run. A step that only one of them has is computed by the reference
# rule, which knows what to do.


KINDS = (BatchNorm, FusedBatchNorm, RecurrentBatchNorm, FusedRecurrentBatchNorm)


def has_batched(cell: Cell) -> bool:
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
    return (
        plain
        and apart
        and cell.cell_state is CellState.RAW
        and cell.bias in (Bias.NONE, Bias.ONCE)
    )


def batched_form(cell: Any) -> Form:
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
        n = torch.full((T,), B) if lengths is None else length_mask(lengths, T).sum(0)
        self.n = n[n > 0]
        """The cases of each step that has any, (steps,)."""
        self.norms: tuple[BatchNorm, ...] = (cell.norm_h, cell.norm_x, cell.norm_c)
        self.uses_batch = sum(norm.uses_batch << i for i, norm in enumerate(self.norms))
        """A bit each for W_h h, W_x x, c."""
        steps = len(self.n)
        self.all = cell.W_h.new_empty(steps, 2, sum(norm.units for norm in self.norms))
        """The mean and the biased variance of the units of all three."""
        for norm, own in self._each() if steps else ():
            norm.running_stats(steps - 1)  # says that it has none before anything is computed
            if not norm.uses_batch:
                rows = zip(*(norm.running_stats(t) for t in range(steps)), strict=True)
                own.copy_(torch.stack([torch.stack(row) for row in rows], dim=1))

    def _each(self) -> Iterator[tuple[BatchNorm, Tensor]]:
        parts = self.all.split([norm.units for norm in self.norms], dim=-1)
        return zip(self.norms, parts, strict=True)

    def remember(self) -> None:
        """Update the running statistics of each norm in training, as the norm itself does."""
        for norm, own in self._each():
            if not (norm.training and norm.uses_batch):
                continue
            mean, var = own.unbind(1)
            m = self.n[self.n > 1].to(var)[:, None]  # of one case there is no variance
            _take_in(norm, norm.running_mean, mean)
            _take_in(norm, norm.running_var, var[: len(m)] * (m / (m - 1)))


def _take_in(norm: BatchNorm, running: Tensor, new: Tensor) -> None:
    """Let ``running`` move to the first steps' ``new`` (steps, H), one after the other."""
    if isinstance(norm, RecurrentBatchNorm):  # a row a step
        update_average(running[: len(new)], new, norm.momentum)
        return
    kept = 1 - norm.momentum
    ages = torch.arange(len(new) - 1, -1, -1, dtype=new.dtype)
    running.mul_(kept ** len(new)).add_((norm.momentum * kept**ages) @ new)


def unroll_batched(
    cell: Any, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll` has them."""
    if reverse:
        y, last = unroll_batched(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    if lengths is None:
        hs, cs = _steps(cell, x, state, [x.shape[1]] * len(x))
        return torch.stack(hs), (hs[-1], cs[-1])
    going = length_mask(lengths, len(x)).sum(0).tolist()
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
    (h, c), hs, cs, H = state, [], [], cell.hidden_size
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


def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    lengths: reference.Lengths = None,
    reverse: bool = False,
    mask: Tensor | None = None,
) -> tuple[Tensor, State]:
    """``cell`` over the steps of x (T, B, D), as the reference loop, in its parameters' dtype.

    A cell without a fused form, or with hooks on it, runs through the reference loop. On a GPU
    one runs through Triton's programs, or with batch norm through torch's operators, as do all
    of another device or dtype and without a compiler; an LSTM or GRU without normalization is
    torch's own there; with a mask all of these run through the reference loop, as everything
    does with one that wants a gradient. Under autocast
    the kernels compute in the dtype of the parameters. There is no second derivative.

    In float32 the squares of the numbers that are normalized together, a - mu, must add up
    to less than 3.4e38: beyond a norm of 1.8e19 they come out as their ``b``.
    """
    fused = form(cell)
    over_cases = fused is None and has_batched(cell)
    if (fused is None and not over_cases) or x.numel() == 0:
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    lengths = reference.check_inputs(cell, x, state, lengths, mask)
    state = state or cell.initial_state(x)
    dtype = cell.W_h.dtype
    lib = library() if x.device.type == "cpu" and dtype in KERNEL_DTYPES else None
    if mask is not None and (lib is None or over_cases or mask.requires_grad):
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    if over_cases and lib is None:
        return unroll_batched(cell, x.to(cell.W_h), state, lengths, reverse)
    fused = fused or batched_form(cell)
    if lib is None and fused.unnormalized:
        return fallback.unroll_with_torch(cell, x.to(cell.W_h), state, lengths, reverse)
    if lib is None:
        steps = triton.steps(x.device, dtype, cell.hidden_size)
        lengths = None if lengths is None else lengths.to(x.device)
        return fallback.unroll_hoisted(cell, fused, x, state, lengths, reverse, steps)
    products = (
        x.numel() // cell.input_size * len(cell.W_h) * (cell.input_size + cell.hidden_size)
    )
    # a second thread changes no byte, and for little work costs more than it saves
    threads = torch.get_num_threads() if products > 2_000_000 else 1
    moments = Moments(cell, x, lengths) if over_cases else None
    mask = None if mask is None else mask.to(dtype).contiguous()
    # the way back reads them again, whatever the caller does with these meanwhile
    lengths = None if lengths is None else lengths.clone()
    task = Task(lib, fused.kernel, fused.eps, lengths, reverse, threads, moments, mask)
    inputs = [x, cell.W_x, cell.W_h, fused.parameters, *state]
    inputs = [a.to(dtype) for a in inputs]
    task.keep = torch.is_grad_enabled() and any(a.requires_grad for a in inputs)
    y, *last = Recurrence.apply(task, *inputs)
    if moments is not None:
        moments.remember()
    return y, tuple(last)


def has(cell: Cell) -> bool:
    """True if ``cell`` has a form here; else the reference loop serves it."""
    return form(cell) is not None or has_batched(cell)


KERNEL_DTYPES = torch.float32, torch.float64


@dataclass
class Task:
    """One call of the kernel, its tensors apart."""

    lib: ctypes.CDLL
    kernel: Kernel
    eps: tuple[float, ...]
    lengths: Tensor | None
    """Lengths of the sequences (B), whole numbers; contiguous, and a copy of its own."""
    reverse: bool
    threads: int
    moments: Moments | None = None
    """Those over cases, if there are any."""
    mask: Tensor | None = None
    """Factors (B, H) of h, if there are any."""
    keep: bool = False
    """True if there will be a way back."""

    def problem(self, x: Tensor, **tensors: Tensor | None) -> Problem:
        """The C structure for x (T, B, D) and the other tensors, which must outlive it."""
        T, B, D = x.shape
        H = tensors["h0"].shape[1]  # pyright: ignore[reportOptionalMemberAccess]
        self.eps_array = (ctypes.c_double * 4)(*self.eps)
        problem = Problem(
            self.kernel, x.dtype == torch.float64, T, B, D, H, self.reverse, self.threads
        )
        problem.own_cache = own_cache()
        problem.eps = ctypes.addressof(self.eps_array)
        if self.moments is not None:
            problem.from_batch = self.moments.uses_batch
            problem.statistics = self.moments.all.data_ptr()
        tensors |= {"x": x, "lengths": self.lengths, "mask": self.mask}
        for name, tensor in tensors.items():
            setattr(problem, name, None if tensor is None else tensor.data_ptr())
        return problem

    def run(self, name: str, problem: Problem) -> int:
        """The result of the function ``name`` of the library: bytes, or 0.

        Raises:
            MemoryError: if there is too little memory.
        """
        result = getattr(self.lib, name)(ctypes.byref(problem))
        if result < 0:
            raise MemoryError(f"no memory for {problem.T} steps of {problem.B} sequences.")
        return result


class Pooled:
    """Memory of the library's pool, given back when nobody needs it any more.

    Raises:
        MemoryError: where there is too little.
    """

    # torch.compile makes an object without calling __init__, and __del__ reads this of it, too
    pointer: Any = None

    def __init__(self, lib: ctypes.CDLL, size: int) -> None:
        self.give, self.pointer = lib.give, lib.take(size)
        if self.pointer is None:
            raise MemoryError(f"no memory for {size} bytes of the recurrence.")

    def __del__(self) -> None:
        if self.pointer is not None:
            self.give(self.pointer)


def pooled(lib: ctypes.CDLL, like: Tensor, shape: torch.Size | None = None) -> Tensor:
    """An empty tensor of the ``shape`` of ``like``, or of another, in the library's pool.

    Fresh pages would cost up to a tenth more.
    """
    shape = like.shape if shape is None else shape
    size = shape.numel() * like.element_size()
    if size < FRESH_PAGES:
        return like.new_empty(shape)
    memory = Pooled(lib, size)
    buffer = (ctypes.c_char * size).from_address(memory.pointer)
    # as long as the storage of the tensor, which holds the buffer
    buffer.memory = memory  # pyright: ignore[reportAttributeAccessIssue]
    return torch.frombuffer(buffer, dtype=like.dtype).view(shape)


FRESH_PAGES = 128 * 1024
"""Bytes from which on malloc may ask the system for pages each time."""


class Recurrence(torch.autograd.Function):
    """(x, W_x, W_h, parameters, h0[, c0]) to (y, h_n[, c_n])."""

    @staticmethod
    def forward(ctx: Any, task: Task, x, W_x, W_h, parameters, *first):
        x, W_x, W_h, parameters, *first = (
            a.contiguous() for a in (x, W_x, W_h, parameters, *first)
        )
        named = {"W_x": W_x, "W_h": W_h, "parameters": parameters}
        named.update(zip(("h0", "c0"), first, strict=False))
        y = pooled(task.lib, x, torch.Size([*x.shape[:2], W_h.shape[1]]))
        last = [torch.empty_like(s) for s in first]
        results = {"y": y, **dict(zip(("h_n", "c_n"), last, strict=False))}
        problem = task.problem(x, **named, **results)
        if task.keep:
            ctx.saved = Pooled(task.lib, task.run("saved_bytes", problem))
            problem.saved = ctx.saved.pointer
            ctx.task, ctx.names = task, list(named)
            ctx.set_materialize_grads(False)  # of a last state nobody used, none
            ctx.save_for_backward(y, x, *named.values())
        task.run("forward", problem)
        return (y, *last)

    @staticmethod
    def backward(ctx: Any, dy, *dlast):
        refuse_second()
        y, x, *tensors = ctx.saved_tensors
        named = dict(zip(ctx.names, tensors, strict=True))
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dlast = [None if a is None else a.contiguous() for a in dlast]
        given = {"y": y, "dy": dy, **dict(zip(("dh_n", "dc_n"), dlast, strict=False))}
        lib = ctx.task.lib
        slopes = {f"d{name}": pooled(lib, a) for name, a in named.items()}
        dx = pooled(lib, x) if ctx.needs_input_grad[1] else None
        problem = ctx.task.problem(x, **named, **given, **slopes, dx=dx)
        problem.saved = ctx.saved.pointer
        ctx.task.run("backward", problem)
        return (None, dx, *slopes.values())
