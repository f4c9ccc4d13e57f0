"""A handwriting net whose window moves in one compiled loop: the same function in less time."""

import torch
from torch import Tensor

from lnlab.kernels import fuse
from lnlab.kernels.forms import Kernel, exactly, form, watched
from lnlab.kernels.stepped import affine, bias, formed, kernel
from lnlab.nn import State
from lnlab.tasks.handwriting.loop import WRITING, TextLoop
from lnlab.tasks.handwriting.net import WINDOWS, HandwritingNet, PenMemory

CELLS = Kernel.LSTM, Kernel.PLAIN_LSTM
LEAST = 2
"""Points from which on a loop pays: written one by one, weights would be packed for each."""


class FastHandwriting(HandwritingNet):
    """:class:`HandwritingNet` as a compiled loop computes it, with the same parameters.

    The reference serves whatever the loop has no form for: the softplus window, peepholes,
    hooks, a method or a part that is somebody else's, other normalizers, other devices and
    dtypes, single points, and a machine without a compiler. There is no second derivative.
    """

    def _windowed(
        self, x: Tensor, text: Tensor, memory: PenMemory
    ) -> tuple[Tensor, Tensor, Tensor, State, Tensor]:
        loop = self.loop(text) if len(x) >= LEAST else None
        # texts are looked into only where there is a loop: not on a GPU
        if loop is None or not self._takes(x, text, memory):
            return super()._windowed(x, text, memory)
        traced = loop(x, [*memory.states[0], memory.kappa, memory.w], self.tensors())
        return traced.h, traced.w, traced.phi, (traced.h[-1], traced.c), traced.kappa

    def _takes(self, x: Tensor, text: Tensor, memory: PenMemory) -> bool:
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
        if not exactly(self, FastHandwriting) or self.form != WINDOWS["exp"]:
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


def fast(net: HandwritingNet) -> HandwritingNet:
    """``net`` again, with its tensors: fused, and its window moved by a compiled loop.

    A subclass keeps its own loop, with what :func:`lnlab.kernels.fuse` finds in it.
    """
    fused = fuse(net)
    if exactly(fused, HandwritingNet):
        fused.__class__ = FastHandwriting
    return fused
