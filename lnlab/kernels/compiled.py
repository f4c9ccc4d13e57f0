"""The compiled loop over time: :func:`lnlab.nn.recurrent.unroll` in one call forward, one back."""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lnlab.kernels import batched, hoisted, torchs, triton
from lnlab.kernels.forms import Kernel, form, refuse_second
from lnlab.kernels.library import Problem, library, own_cache
from lnlab.nn import Cell, State
from lnlab.nn import recurrent as reference


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
    over_cases = fused is None and batched.has(cell)
    if (fused is None and not over_cases) or x.numel() == 0:
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    lengths = reference.checked(cell, x, state, lengths, mask)
    state = state or cell.start(x)
    dtype = cell.W_h.dtype
    lib = library() if x.device.type == "cpu" and dtype in KERNEL_DTYPES else None
    if mask is not None and (lib is None or over_cases or mask.requires_grad):
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    if over_cases and lib is None:
        return batched.unroll(cell, x.to(cell.W_h), state, lengths, reverse)
    fused = fused or batched.form(cell)
    if lib is None and fused.unnormalized:
        return torchs.unroll(cell, x.to(cell.W_h), state, lengths, reverse)
    if lib is None:
        steps = triton.steps(x.device, dtype, cell.units)
        lengths = None if lengths is None else lengths.to(x.device)
        return hoisted.unroll(cell, fused, x, state, lengths, reverse, steps)
    products = x.numel() // cell.inputs * len(cell.W_h) * (cell.inputs + cell.units)
    # a second thread changes no byte, and for little work costs more than it saves
    threads = torch.get_num_threads() if products > 2_000_000 else 1
    moments = batched.Moments(cell, x, lengths) if over_cases else None
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
    return form(cell) is not None or batched.has(cell)


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
    moments: batched.Moments | None = None
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
            problem.from_batch = self.moments.from_batch
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
