"""Handwriting with its window in one compiled loop: the same function in less time."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lnlab.kernels.compilation import KernelLibrary, ctypes_fields
from lnlab.kernels.compiled_loop import (
    CompiledLoop,
    DifferentiableAndOthers,
    Tensors,
    is_plain_linear_with_bias,
    library_for,
    require_bias,
    require_cell_kernel_arguments,
)
from lnlab.kernels.fused_cells import (
    CellKind,
    cell_kernel_arguments_or_none,
    has_hooks,
    is_unmodified,
)
from lnlab.papers.handwriting.model import HandwritingNet, WindowSequence, WriterState
from lnlab.papers.models import fused_net_sharing_tensors


class WriteProblem(ctypes.Structure):
    """``struct WriteProblem`` of writing.h: sizes, and pointers that may be null."""

    PARAMETERS = 5
    _fields_ = [
        *ctypes_fields("kernel is_double T B D V U H K threads", ctypes.c_int64),
        *ctypes_fields("eps char_ids x h0 c0 kappa0 w0", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p * PARAMETERS),
        *ctypes_fields("h w phi c_n kappa_n saved", ctypes.c_void_p),
        *ctypes_fields("dh dw dphi dc_n dkappa_n", ctypes.c_void_p),
        *ctypes_fields("dx dh0 dc0 dkappa0 dw0", ctypes.c_void_p),
        ("grads", ctypes.c_void_p * PARAMETERS),
    ]


WRITING = KernelLibrary("writing", "handwriting", WriteProblem, Path(__file__).parent)
CELLS = CellKind.LSTM, CellKind.PLAIN_LSTM
LEAST = 2
"""Points from which on a loop pays: written one by one, weights would be packed for each."""


@dataclass
class WindowLoop(CompiledLoop):
    """The first LSTM and the window along points x (T, B, D), from a state.

    The outputs are h (T, B, H) of the LSTM, the window w (T, B, V), phi (T, B, U + 1), how much
    of each character is seen and of what is behind them, the last cell c_n (B, H), and where
    the window is in the end, kappa_n (B, K).
    """

    inputs = ("x", "h0", "c0", "kappa0", "w0")

    char_ids: Tensor  # characters by number (B, U), below 0 where there is none; contiguous

    def _c_struct_with_sizes(
        self, inputs: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> WriteProblem:
        """Return the C structure with its sizes alone."""
        x, h0, _, kappa0, w0 = inputs
        (T, B, D), U = x.shape, self.char_ids.shape[1]
        sizes = T, B, D, w0.shape[1], U, h0.shape[1], kappa0.shape[1], self.threads
        return WriteProblem(self.cell_kind, x.dtype == torch.float64, *sizes)

    def _non_differentiable_inputs(self) -> Tensors:
        """Return the texts."""
        return {"char_ids": self.char_ids}

    def _empty_outputs(self, inputs: Sequence[Tensor]) -> DifferentiableAndOthers:
        """Return empty tensors for the outputs: those that have gradients, and others."""
        x, h0, c0, kappa0, w0 = inputs
        T, B, _ = x.shape
        return {
            "h": x.new_empty(T, *h0.shape),
            "w": x.new_empty(T, *w0.shape),
            "phi": x.new_empty(T, B, self.char_ids.shape[1] + 1),
            "c_n": torch.empty_like(c0),
            "kappa_n": torch.empty_like(kappa0),
        }, {}


class FusedHandwriting(HandwritingNet):
    """:class:`HandwritingNet` as a compiled loop computes it, with the same parameters.

    The reference serves whatever the loop has no form for: hooks, a user's own method or
    module, other normalizers, other devices and dtypes, single points, and a machine without a
    compiler. There is no second derivative.
    """

    def _run_window(self, x: Tensor, char_ids: Tensor, memory: WriterState) -> WindowSequence:
        loop = self.make_loop_if_supported(char_ids) if len(x) >= LEAST else None
        # texts are looked into only where there is a loop: not on a GPU
        if loop is None or not self._inputs_fit_compiled_loop(x, char_ids, memory):
            return super()._run_window(x, char_ids, memory)
        inputs = [x, *memory.lstm_states[0], memory.kappa, memory.w]
        h, w, phi, c, kappa = loop(inputs, self.loop_parameters())
        return WindowSequence(h, w, phi, (h[-1], c), kappa)

    def _inputs_fit_compiled_loop(
        self, x: Tensor, char_ids: Tensor, memory: WriterState
    ) -> bool:
        """Return True if the loop has a form for points x (T, B, 3) of these texts."""
        W, start = self.move.W, self.initial_state(len(char_ids))
        states = zip(
            (*memory.lstm_states[0], memory.kappa, memory.w),
            (*start.lstm_states[0], start.kappa, start.w),
            strict=True,
        )
        return (
            x.dim() == 3
            and x.shape[1:] == (len(char_ids), 3)
            and char_ids.dim() == 2
            and char_ids.numel() > 0
            and (char_ids.dtype, char_ids.device) == (torch.int64, W.device)
            and int(char_ids.max()) < len(self.alphabet)
            and (x.dtype, x.device) == (W.dtype, W.device)
            and all(
                (a.shape, a.dtype, a.device) == (b.shape, W.dtype, W.device) for a, b in states
            )
        )

    def make_loop_if_supported(self, char_ids: Tensor) -> WindowLoop | None:
        """Return the loop for these texts (B, U); None if this model has no form."""
        if not is_unmodified(self, FusedHandwriting):
            return None
        if has_hooks(self.move) or not is_plain_linear_with_bias(self.move):
            return None
        cell = cell_kernel_arguments_or_none(self.lstms[0].cells[0])
        if cell is None or cell.cell_kind not in CELLS:
            return None
        if len({(a.dtype, a.device) for a in self.loop_parameters()}) > 1:
            return None
        lib = library_for(WRITING, self.move.W)
        if lib is None:
            return None
        char_ids = char_ids.clone(memory_format=torch.contiguous_format)
        return WindowLoop(lib, cell.cell_kind, cell.eps, torch.get_num_threads(), char_ids)

    def loop_parameters(self) -> list[Tensor]:
        """Return the parameters as the loop takes them: of the cell, then of the window."""
        cell = self.lstms[0].cells[0]
        return [
            cell.W_x,
            cell.W_h,
            require_cell_kernel_arguments(cell).gains_and_biases,
            self.move.W,
            require_bias(self.move),
        ]


def fused_handwriting_net_sharing_tensors(net: HandwritingNet) -> HandwritingNet:
    """Return ``net`` again, with its tensors: fused, and its loop compiled."""
    return fused_net_sharing_tensors(net, HandwritingNet, FusedHandwriting)
