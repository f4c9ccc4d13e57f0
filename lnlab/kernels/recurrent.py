"""The loop over time in C++: one call forward and one backward, and LSTMs with batch norm."""

import ctypes
import functools
import importlib.util
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.kernels import gpu
from lnlab.kernels.compilation import (
    NoKernelWarning,
    Problem,
    call_library,
    l2_cache_bytes,
    library,
)
from lnlab.kernels.fused_cells import (
    Kernel,
    fused_cell,
    fused_lstm,
    has_hooks,
    has_inner_bias,
    is_exactly,
    refuse_second_derivative,
)
from lnlab.kernels.normalizers import FusedBatchNorm, FusedRecurrentBatchNorm
from lnlab.nn import (
    BatchNorm,
    CarriedCellState,
    Cell,
    LSTMCell,
    RecurrentBatchNorm,
    State,
    inside_root,
)
from lnlab.nn import recurrent as reference
from lnlab.nn.batch import update_average
from lnlab.nn.padding import length_mask
from lnlab.nn.recurrent import flip

# LSTMs with batch norm. The kernel (cpp/batch_norm.h) computes all examples of a step together.
# It reads the moments of the steps, or writes them, and running statistics are updated once,
# after all steps.
#
# On torch's operators there is one batch_norm per statistic. Sequences are sorted by length,
# longest first: those that have not ended are then the first rows of every step, a slice over
# which the statistics run. A step of a single sequence is left to the reference rule.

BATCH_NORMS = (BatchNorm, FusedBatchNorm, RecurrentBatchNorm, FusedRecurrentBatchNorm)


def has_batch_norms(cell: Cell) -> bool:
    """Return True for eq. 20-22 with batch norm in all three places and no hooks."""
    if has_hooks(cell) or not is_exactly(cell, LSTMCell):
        return False
    norms = (cell.norm_h, cell.norm_x, cell.norm_c)
    plain = all(
        is_exactly(norm, *BATCH_NORMS)
        and norm.root is inside_root
        and not norm.correction
        and norm.eps > 0
        and not norm.space
        and norm.running_mean.dtype == cell.W_h.dtype
        for norm in norms
    )
    # a norm that is used twice would be updated in another order of steps
    apart = len(set(norms)) == len(norms)
    return (
        plain and apart and cell.cell_state is CarriedCellState.RAW and not has_inner_bias(cell)
    )


class StepMoments:
    """Mean and variance over the examples of each step, which the kernel writes or reads.

    The norms of the cell choose between the batch's statistics and running ones; in training
    there is a ValueError for a step that a norm has no statistics for. x is (T, B, D).
    """

    def __init__(self, cell: Any, x: Tensor, lengths: Tensor | None) -> None:
        T, B = x.shape[:2]
        n = torch.full((T,), B) if lengths is None else length_mask(lengths, T).sum(0)
        self.n = n[n > 0]
        """The number of examples of each step that has any, (steps,)."""
        self.norms: tuple[BatchNorm, ...] = (cell.norm_h, cell.norm_x, cell.norm_c)
        self.uses_batch = sum(norm.uses_batch << i for i, norm in enumerate(self.norms))
        """A bit each for W_h h, W_x x, c."""
        steps = len(self.n)
        self.all = cell.W_h.new_empty(steps, 2, sum(norm.units for norm in self.norms))
        """The mean and the biased variance of the units of all three."""
        for norm, own in self._each() if steps else ():
            norm.running_stats(steps - 1)  # raises before anything is computed
            if not norm.uses_batch:
                rows = zip(*(norm.running_stats(t) for t in range(steps)), strict=True)
                own.copy_(torch.stack([torch.stack(row) for row in rows], dim=1))

    def _each(self) -> Iterator[tuple[BatchNorm, Tensor]]:
        parts = self.all.split([norm.units for norm in self.norms], dim=-1)
        return zip(self.norms, parts, strict=True)

    def update_running(self) -> None:
        """Update the running statistics of each norm in training, as the norm itself does."""
        for norm, own in self._each():
            if not (norm.training and norm.uses_batch):
                continue
            mean, var = own.unbind(1)
            m = self.n[self.n > 1].to(var)[:, None]  # of one case there is no variance
            _update_running(norm, norm.running_mean, mean)
            _update_running(norm, norm.running_var, var[: len(m)] * (m / (m - 1)))


def _update_running(norm: BatchNorm, running: Tensor, new: Tensor) -> None:
    """Update ``running`` by the statistics ``new`` (steps, H) of one step after the other."""
    if isinstance(norm, RecurrentBatchNorm):  # a row a step
        update_average(running[: len(new)], new, norm.momentum)
        return
    # n updates at once: the newest weighs momentum, one k steps older momentum (1 - momentum)^k
    decay = 1 - norm.momentum
    ages = torch.arange(len(new) - 1, -1, -1, dtype=new.dtype)
    running.mul_(decay ** len(new)).add_((norm.momentum * decay**ages) @ new)


def unroll_batch_lstm(
    cell: Any, x: Tensor, state: State, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Return every h (T, B, H) and the last state, as :func:`lnlab.nn.recurrent.unroll`."""
    if reverse:
        y, last = unroll_batch_lstm(cell, flip(x, lengths), state, lengths, False)
        return flip(y, lengths), last
    if lengths is None:
        hs, cs = _steps(cell, x, state, [x.shape[1]] * len(x))
        return torch.stack(hs), (hs[-1], cs[-1])
    going = length_mask(lengths, len(x)).sum(0).tolist()
    lengths, order = (v.to(x.device) for v in lengths.sort(descending=True, stable=True))
    back = order.argsort()
    state = tuple(s[order] for s in state)
    hs, cs = _steps(cell, x[:, order], state, [n for n in going if n])
    y, c = (_pad_steps(steps, x) for steps in (hs, cs))
    # the last state is that of the last step of each sequence; of an empty one, the first
    ends = (lengths - 1).clamp(min=0)
    rows = torch.arange(x.shape[1], device=x.device)
    begun = (lengths > 0)[:, None]
    last = tuple(
        torch.where(begun, all_[ends, rows], s)[back]
        for all_, s in zip((y, c), state, strict=True)
    )
    return y[:, back], last


def _pad_steps(steps: list[Tensor], x: Tensor) -> Tensor:
    """Stack steps of n examples each (n, H) to (T, B, H), padded with 0."""
    T, B = x.shape[:2]
    rows = [F.pad(step, (0, 0, 0, B - len(step))) for step in steps]
    stacked = torch.stack(rows) if rows else x.new_zeros(0, B, 0)
    return F.pad(stacked, (0, 0, 0, 0, 0, T - len(steps)))


def _steps(
    cell: Any, x: Tensor, state: State, going: list[int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return every h and c (n, H), of the first n examples at each step."""
    norm_x, norm_h, norm_c = cell.norm_x, cell.norm_h, cell.norm_c
    # W_x x of all steps at once; its statistics are those of one step and come later
    products = F.linear(x[: len(going)], cell.W_x).unbind()
    (h, c), hs, cs, H = state, [], [], cell.hidden_size
    for t, (a_x, n) in enumerate(zip(products, going, strict=True)):
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
    """Apply ``cell`` to the steps of x (T, B, D), as the reference loop does.

    What computes it: the C++ library on a CPU in float32 or float64; else (:mod:`.gpu`) Triton
    on a GPU, torch's own layer for an LSTM or GRU without norms, torch's operators otherwise.
    The reference loop runs cells without a fast form or with hooks, a mask that needs a
    gradient, and all masks without the library. Under autocast the kernels compute in the dtype
    of the parameters. There is no second derivative.

    In float32 the squares of the numbers that are normalized together, a - mu, must add up
    to less than 3.4e38: beyond a norm of 1.8e19 they come out as their ``b``.
    """
    fused = fused_cell(cell)
    over_cases = fused is None and has_batch_norms(cell)
    if (fused is None and not over_cases) or x.numel() == 0:
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    lengths = reference.check_inputs(cell, x, state, lengths, mask)
    state = state or cell.initial_state(x)
    dtype = cell.W_h.dtype
    lib = library() if x.device.type == "cpu" and dtype in KERNEL_DTYPES else None
    if mask is not None and (lib is None or over_cases or mask.requires_grad):
        return reference.unroll(cell, x, state, lengths, reverse, mask)
    if over_cases and lib is None:
        return unroll_batch_lstm(cell, x.to(cell.W_h), state, lengths, reverse)
    fused = fused or fused_lstm(cell, Kernel.BATCH_LSTM)  # pyright: ignore[reportArgumentType]
    if lib is None and fused.unnormalized:
        return gpu.unroll_torch_layer(cell, x.to(cell.W_h), state, lengths, reverse)
    if lib is None:
        steps = triton_steps(x.device, dtype, cell.hidden_size)
        lengths = None if lengths is None else lengths.to(x.device)
        return gpu.unroll_with_steps(cell, fused, x, state, lengths, reverse, steps)
    products = len(x) * x.shape[1] * len(cell.W_h) * (cell.input_size + cell.hidden_size)
    # a second thread changes no byte, and for little work costs more than it saves
    threads = torch.get_num_threads() if products > 2_000_000 else 1
    moments = StepMoments(cell, x, lengths) if over_cases else None
    mask = None if mask is None else mask.to(dtype).contiguous()
    # a copy: the backward pass reads them again, and the caller may change theirs
    lengths = None if lengths is None else lengths.clone()
    call = KernelCall(lib, fused.kernel, fused.eps, lengths, reverse, threads, moments, mask)
    inputs = [x, cell.W_x, cell.W_h, fused.parameters, *state]
    inputs = [a.to(dtype) for a in inputs]
    call.keep = torch.is_grad_enabled() and any(a.requires_grad for a in inputs)
    y, *last = Recurrence.apply(call, *inputs)
    if moments is not None:
        moments.update_running()
    return y, tuple(last)


def is_fused(cell: Cell) -> bool:
    """Return True if ``cell`` has a fast form; else the reference loop computes it."""
    return fused_cell(cell) is not None or has_batch_norms(cell)


MAX_UNITS = 2048
"""Units up to which a program keeps its example in registers, which a test checks."""


def triton_steps(device: torch.device, dtype: torch.dtype, units: int) -> gpu.Steps | None:
    """Return Triton's loop over time of a layer with H units; None if there is none.

    There is one in float32, on a GPU that torch calls "cuda", for at most ``MAX_UNITS`` units.
    """
    if device.type != "cuda" or dtype != torch.float32 or units > MAX_UNITS or not has_triton():
        return None
    from lnlab.kernels.triton_programs import steps

    return steps


@functools.cache
def has_triton() -> bool:
    """Return True if Triton is installed; warn once (:class:`NoKernelWarning`) if not."""
    if importlib.util.find_spec("triton"):
        return True
    warnings.warn(
        "Triton is not installed. Recurrent layers run on torch's operators instead: the same "
        'results, more slowly. pip install "lnlab[triton]"',
        NoKernelWarning,
        stacklevel=3,
    )
    return False


KERNEL_DTYPES = torch.float32, torch.float64


@dataclass
class KernelCall:
    """One call of the kernel, without its tensors."""

    lib: ctypes.CDLL
    kernel: Kernel
    eps: tuple[float, ...]
    lengths: Tensor | None  # of the sequences (B,), int64, not shared with the caller
    reverse: bool
    threads: int
    moments: StepMoments | None = None  # statistics over examples, for batch norm
    mask: Tensor | None = None  # factors (B, H) of h, or None
    keep: bool = False  # True if there will be a backward pass

    def problem(self, x: Tensor, **tensors: Tensor | None) -> Problem:
        """Return the C structure for x (T, B, D) and other tensors, which must outlive it."""
        T, B, D = x.shape
        H = tensors["h0"].shape[1]  # pyright: ignore[reportOptionalMemberAccess]
        self.eps_array = (ctypes.c_double * 4)(*self.eps)
        problem = Problem(
            self.kernel, x.dtype == torch.float64, T, B, D, H, self.reverse, self.threads
        )
        problem.own_cache = l2_cache_bytes()
        problem.eps = ctypes.addressof(self.eps_array)
        if self.moments is not None:
            problem.from_batch = self.moments.uses_batch
            problem.statistics = self.moments.all.data_ptr()
        tensors |= {"x": x, "lengths": self.lengths, "mask": self.mask}
        for name, tensor in tensors.items():
            setattr(problem, name, None if tensor is None else tensor.data_ptr())
        return problem


class PooledMemory:
    """Memory of the library's pool, given back when the object is deleted."""

    # torch.compile creates objects without __init__, and __del__ reads this attribute
    pointer: Any = None

    def __init__(self, lib: ctypes.CDLL, size: int) -> None:
        self.give, self.pointer = lib.give, lib.take(size)
        if self.pointer is None:
            raise MemoryError(f"no memory for {size} bytes of the recurrence.")

    def __del__(self) -> None:
        if self.pointer is not None:
            self.give(self.pointer)


def empty_in_pool(lib: ctypes.CDLL, like: Tensor, shape: torch.Size | None = None) -> Tensor:
    """Return an empty tensor shaped as ``like``, or of ``shape``, in the library's pool.

    Fresh pages from the system would cost up to a tenth more time.
    """
    shape = like.shape if shape is None else shape
    size = shape.numel() * like.element_size()
    if size < MIN_POOL_BYTES:
        return like.new_empty(shape)
    memory = PooledMemory(lib, size)
    buffer = (ctypes.c_char * size).from_address(memory.pointer)
    # the storage of the tensor holds the buffer, and so the memory
    buffer.memory = memory  # pyright: ignore[reportAttributeAccessIssue]
    return torch.frombuffer(buffer, dtype=like.dtype).view(shape)


MIN_POOL_BYTES = 128 * 1024
"""Size from which malloc may ask the system for fresh pages each time."""


class Recurrence(torch.autograd.Function):
    """(x, W_x, W_h, parameters, h0[, c0]) to (y, h_n[, c_n])."""

    @staticmethod
    def forward(ctx: Any, call: KernelCall, x, W_x, W_h, parameters, *first):
        x, W_x, W_h, parameters, *first = (
            a.contiguous() for a in (x, W_x, W_h, parameters, *first)
        )
        named = {"W_x": W_x, "W_h": W_h, "parameters": parameters}
        named.update(zip(("h0", "c0"), first, strict=False))
        y = empty_in_pool(call.lib, x, torch.Size([*x.shape[:2], W_h.shape[1]]))
        last = [torch.empty_like(s) for s in first]
        results = {"y": y, **dict(zip(("h_n", "c_n"), last, strict=False))}
        problem = call.problem(x, **named, **results)
        if call.keep:
            ctx.saved = PooledMemory(call.lib, call_library(call.lib, "saved_bytes", problem))
            problem.saved = ctx.saved.pointer
            ctx.call, ctx.names = call, list(named)
            ctx.set_materialize_grads(False)  # an unused last state has no gradient
            ctx.save_for_backward(y, x, *named.values())
        call_library(call.lib, "forward", problem)
        return (y, *last)

    @staticmethod
    def backward(ctx: Any, dy, *dlast):
        refuse_second_derivative()
        y, x, *tensors = ctx.saved_tensors
        named = dict(zip(ctx.names, tensors, strict=True))
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dlast = [None if a is None else a.contiguous() for a in dlast]
        given = {"y": y, "dy": dy, **dict(zip(("dh_n", "dc_n"), dlast, strict=False))}
        lib = ctx.call.lib
        grads = {f"d{name}": empty_in_pool(lib, a) for name, a in named.items()}
        dx = empty_in_pool(lib, x) if ctx.needs_input_grad[1] else None
        problem = ctx.call.problem(x, **named, **given, **grads, dx=dx)
        problem.saved = ctx.saved.pointer
        call_library(lib, "backward", problem)
        return (None, dx, *grads.values())
