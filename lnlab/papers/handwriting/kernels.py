"""A handwriting net whose window moves in one compiled loop: the same function in less time."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlab.kernels import fuse
from lnlab.kernels.forms import Kernel, exactly, form, refuse_second, watched
from lnlab.kernels.library import KernelLibrary, fields
from lnlab.kernels.recurrent import Pooled
from lnlab.kernels.stepped import affine, bias, formed, kernel, run
from lnlab.nn import State
from lnlab.papers.handwriting.model import WINDOWS, HandwritingNet, WriterState

# The window of a handwriting net over all points in one call: writing.h from Python.


class WriteProblem(ctypes.Structure):
    """``struct WriteProblem`` of writing.h: sizes, and pointers that may be null."""

    PARAMETERS = 5
    _fields_ = [
        *fields("kernel is_double T B D V U H K threads", ctypes.c_int64),
        *fields("eps text x h0 c0 kappa0 w0", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p * PARAMETERS),
        *fields("h w phi c_n kappa_n saved", ctypes.c_void_p),
        *fields("dh dw dphi dc_n dkappa_n", ctypes.c_void_p),
        *fields("dx dh0 dc0 dkappa0 dw0", ctypes.c_void_p),
        ("slopes", ctypes.c_void_p * PARAMETERS),
    ]


WRITING = KernelLibrary("writing", "handwriting", WriteProblem, Path(__file__).parent)


class Traced(NamedTuple):
    """The first LSTM and the window along T points of B lines.

    Attributes:
        h: of the LSTM (T, B, H).
        w: the window, a soft character (T, B, V).
        phi: how much of each of the U characters is seen, and of what is behind them
            (T, B, U + 1).
        c: the last cell (B, H).
        kappa: where the window is in the end (B, K).
    """

    h: Tensor
    w: Tensor
    phi: Tensor
    c: Tensor
    kappa: Tensor


STARTS = "h0", "c0", "kappa0", "w0"
"""The memory before the first point."""
PARAMETERS = "W_x", "W_h", "parameters of the cell", "W", "b"


@dataclass
class TextLoop:
    """One call of the kernel, its tensors apart."""

    lib: ctypes.CDLL
    kernel: Kernel
    eps: tuple[float, ...]
    """That of each norm of the cell (4)."""
    text: Tensor
    """Characters by number (B, U), below 0 where there is none; contiguous."""
    threads: int
    keep: bool = False
    """True if there will be a way back."""

    def problem(
        self, x: Tensor, start: Sequence[Tensor], parameters: Sequence[Tensor],
        **tensors: Tensor | None,
    ) -> WriteProblem:  # fmt: skip
        """The C structure for x (T, B, D) and the other tensors, which must outlive it."""
        (T, B, D), U, (h0, _, kappa0, w0) = x.shape, self.text.shape[1], start
        self.eps_array = (ctypes.c_double * 4)(*self.eps)
        problem = WriteProblem(
            self.kernel, x.dtype == torch.float64, T, B, D, w0.shape[1], U, h0.shape[1],
            kappa0.shape[1], self.threads,
        )  # fmt: skip
        problem.eps = ctypes.addressof(self.eps_array)
        problem.parameters[:] = [p.data_ptr() for p in parameters]
        named = dict(zip(STARTS, start, strict=True))
        for name, tensor in {"text": self.text, "x": x, **named, **tensors}.items():
            setattr(problem, name, None if tensor is None else tensor.data_ptr() or None)
        return problem

    def run(self, name: str, problem: WriteProblem) -> int:
        """As :func:`lnlab.kernels.stepped.run`."""
        return run(self.lib, name, problem)

    def __call__(
        self, x: Tensor, start: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> Traced:
        """Points x (T, B, D) from a memory of :data:`STARTS`, with :data:`PARAMETERS`."""
        tensors = [x, *start, *parameters]
        self.keep = torch.is_grad_enabled() and any(a.requires_grad for a in tensors)
        return Traced(*Points.apply(self, *tensors))


class Points(torch.autograd.Function):
    """(x (T, B, D), the four of the memory, the five parameters) to :class:`Traced`."""

    @staticmethod
    def forward(ctx: Any, loop: TextLoop, *tensors):
        x, *others = tensors = [a.detach().contiguous() for a in tensors]
        start, parameters = others[:4], others[4:]
        (T, B, _), places = x.shape, loop.text.shape[1] + 1
        traced = Traced(
            h=x.new_empty(T, *start[0].shape),
            w=x.new_empty(T, *start[3].shape),
            phi=x.new_empty(T, B, places),
            c=torch.empty_like(start[1]),
            kappa=torch.empty_like(start[2]),
        )
        results = {"h": traced.h, "w": traced.w, "phi": traced.phi}
        ends = {"c_n": traced.c, "kappa_n": traced.kappa}
        problem = loop.problem(x, start, parameters, **results, **ends)
        if loop.keep:
            ctx.saved = Pooled(loop.lib, loop.run("saved_bytes", problem))
            problem.saved = ctx.saved.pointer
            ctx.loop = loop
            ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        loop.run("forward", problem)
        return tuple(traced)

    @staticmethod
    def backward(ctx: Any, *slopes):
        refuse_second()
        x, *others = ctx.saved_tensors
        start, parameters = others[:4], others[4:]
        given = [None if a is None else a.contiguous() for a in slopes]
        names = "dh", "dw", "dphi", "dc_n", "dkappa_n"
        inputs = {
            f"d{name}": torch.empty_like(a) if asked else None
            for name, a, asked in zip(
                ("x", *STARTS), (x, *start), ctx.needs_input_grad[1:], strict=False
            )
        }
        of_parameters = [torch.empty_like(p) for p in parameters]
        named = dict(zip(names, given, strict=True))
        problem = ctx.loop.problem(x, start, parameters, **named, **inputs)
        problem.saved = ctx.saved.pointer
        problem.slopes[:] = [a.data_ptr() for a in of_parameters]
        ctx.loop.run("backward", problem)
        return None, *inputs.values(), *of_parameters


CELLS = Kernel.LSTM, Kernel.PLAIN_LSTM
LEAST = 2
"""Points from which on a loop pays: written one by one, weights would be packed for each."""


class FusedHandwriting(HandwritingNet):
    """:class:`HandwritingNet` as a compiled loop computes it, with the same parameters.

    The reference serves whatever the loop has no form for: the softplus window, peepholes,
    hooks, a method or a part that is somebody else's, other normalizers, other devices and
    dtypes, single points, and a machine without a compiler. There is no second derivative.
    """

    def _run_window(
        self, x: Tensor, text: Tensor, memory: WriterState
    ) -> tuple[Tensor, Tensor, Tensor, State, Tensor]:
        loop = self.loop(text) if len(x) >= LEAST else None
        # texts are looked into only where there is a loop: not on a GPU
        if loop is None or not self._takes(x, text, memory):
            return super()._run_window(x, text, memory)
        traced = loop(x, [*memory.states[0], memory.kappa, memory.w], self.tensors())
        return traced.h, traced.w, traced.phi, (traced.h[-1], traced.c), traced.kappa

    def _takes(self, x: Tensor, text: Tensor, memory: WriterState) -> bool:
        """True if the loop has a form for points x (T, B, 3) of these texts."""
        W, start = self.move.W, self.start(len(text))
        states = zip(
            (*memory.states[0], memory.kappa, memory.w),
            (*start.states[0], start.kappa, start.w),
            strict=True,
        )
        return (
            x.dim() == 3
            and x.shape[1:] == (len(text), 3)
            and text.dim() == 2
            and text.numel() > 0
            and (text.dtype, text.device) == (torch.int64, W.device)
            and int(text.max()) < len(self.alphabet)
            and (x.dtype, x.device) == (W.dtype, W.device)
            and all(a.shape == b.shape and a.dtype == W.dtype for a, b in states)
            and all(a.device == W.device for a in (*memory.states[0], memory.kappa, memory.w))
        )

    def loop(self, text: Tensor) -> TextLoop | None:
        """The call of the loop for these texts (B, U); None if this net has no form."""
        cell = self.lstms[0].cells[0]
        if not exactly(self, FusedHandwriting) or self.form != WINDOWS["exp"]:
            return None
        if watched(self.move) or not affine(self.move):
            return None
        fused = form(cell)
        if fused is None or fused.kernel not in CELLS:
            return None
        if len({(a.dtype, a.device) for a in self.tensors()}) > 1:
            return None
        lib = kernel(WRITING, self.move.W.device, self.move.W.dtype)
        if lib is None:
            return None
        return TextLoop(
            lib,
            fused.kernel,
            fused.eps,
            text.clone(memory_format=torch.contiguous_format),
            torch.get_num_threads(),
        )

    def tensors(self) -> list[Tensor]:
        """The parameters as the loop takes them: of the cell, then of the window."""
        cell = self.lstms[0].cells[0]
        return [cell.W_x, cell.W_h, formed(cell).parameters, self.move.W, bias(self.move)]


def fuse_handwriting(net: HandwritingNet) -> HandwritingNet:
    """``net`` again, with its tensors: fused, and its window moved by a compiled loop.

    A subclass keeps its own loop, with what :func:`lnlab.kernels.fuse` finds in it.
    """
    fused = fuse(net)
    if exactly(fused, HandwritingNet):
        fused.__class__ = FusedHandwriting
    return fused
