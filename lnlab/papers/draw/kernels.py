"""DRAW with its glimpses in one compiled loop: the same function in less time."""

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
    is_plain_linear_with_bias,
    library_for,
    require_bias,
    require_cell_kernel_arguments,
)
from lnlab.kernels.fused_cells import cell_kernel_arguments_or_none, has_hooks, is_unmodified
from lnlab.nn import Linear
from lnlab.papers.draw.model import (
    DRAW,
    WINDOW,
    Drawing,
    KLNats,
    ReconstructionNats,
    window_from_linear_outputs,
)
from lnlab.papers.models import fused_net_sharing_tensors


class DrawProblem(ctypes.Structure):
    """``struct DrawProblem`` of glimpses.h: sizes, and pointers that may be null."""

    PARAMETERS = 17
    _fields_ = [
        *ctypes_fields(
            "kernel is_double T B height width H Z read write first threads", ctypes.c_int64
        ),
        *ctypes_fields("eps x noise", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p * PARAMETERS),
        *ctypes_fields("canvas mean log_sigma saved canvases z reads writes", ctypes.c_void_p),
        *ctypes_fields("dcanvas dmean dlog_sigma", ctypes.c_void_p),
        ("grads", ctypes.c_void_p * PARAMETERS),
    ]


DRAWING = KernelLibrary("drawing", "DRAW", DrawProblem, Path(__file__).parent)


@dataclass
class DrawLoop(CompiledLoop):
    """All glimpses at images x (B, D) with noise (T, B, Z); neither gets a gradient.

    The outputs are the last canvas (B, D), mean and log_sigma of q (T, B, Z); and, if they are
    wanted, canvases (T, B, D), z (T, B, Z), and what is linear in h_dec of the windows of
    reading and of writing (T, B, 5).
    """

    inputs = ("x", "noise")

    net: DRAW
    return_every_glimpse: bool  # True if the canvases and windows of all glimpses are wanted

    def _c_struct_with_sizes(
        self, inputs: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> DrawProblem:
        """Return the C structure with its sizes alone."""
        (x, noise), net = inputs, self.net
        T, B, Z = noise.shape
        H, first = parameters[3].shape[0], 0 if net.mistake == "grid" else 1
        sizes = T, B, *net.shape, H, Z, net.read, net.write, first, self.threads
        return DrawProblem(self.cell_kind, x.dtype == torch.float64, *sizes)

    def _empty_outputs(self, inputs: Sequence[Tensor]) -> DifferentiableAndOthers:
        """Return empty tensors for the outputs: those that have gradients, and others."""
        x, noise = inputs
        T, B = len(noise) if self.return_every_glimpse else 0, len(x)
        return {
            "canvas": torch.empty_like(x),
            "mean": torch.empty_like(noise),
            "log_sigma": torch.empty_like(noise),
        }, {
            "canvases": x.new_empty(T, *x.shape),
            "z": x.new_empty(T, *noise.shape[1:]),
            "reads": x.new_empty(T, B, WINDOW),
            "writes": x.new_empty(T, B, WINDOW),
        }


class FusedDRAW(DRAW):
    """:class:`DRAW` as a compiled loop computes it, with the reference's parameters and noise.

    The reference serves whatever the loop has no form for: hooks, a user's own method or
    module, other normalizers, other devices and dtypes, images that want a gradient, a drawing
    (:meth:`draw`) that does, and a machine without a compiler. There is no second derivative.
    """

    @property
    def opaque_to_vmap(self) -> bool:
        """True where there is the loop, into which vmap cannot look: models come in turn."""
        return library_for(DRAWING, self.first) is not None

    def forward(self, x: Tensor) -> tuple[ReconstructionNats, KLNats]:
        loop = self.make_loop_if_supported() if self._inputs_fit_compiled_loop(x) else None
        if loop is None:
            return super().forward(x)
        canvas, mean, log_sigma, *_ = loop([x, self.sample_noise(x)], self.loop_parameters())
        return self.reconstruction_nats(x, canvas), self.kl_per_glimpse(mean, log_sigma).sum(0)

    def draw(self, x: Tensor, noise: Tensor) -> Drawing:
        takes = (
            not torch.is_grad_enabled()
            and self._inputs_fit_compiled_loop(x)
            and noise.dtype == x.dtype
        )
        loop = self.make_loop_if_supported(return_every_glimpse=True) if takes else None
        if loop is None:
            return super().draw(x, noise)
        _, mean, log_sigma, canvases, z, reads, writes = loop(
            [x, noise], self.loop_parameters()
        )
        read = window_from_linear_outputs(reads, self.shape, self.read)
        write = window_from_linear_outputs(writes, self.shape, self.write)
        return Drawing(canvases, mean, log_sigma, z, read, write)

    def _inputs_fit_compiled_loop(self, x: Tensor) -> bool:
        """Return True if the loop has a form for images x."""
        like = self.first
        same = (x.dtype, x.device) == (like.dtype, like.device)
        return same and x.dim() == 2 and x.shape[1:] == like.shape and not x.requires_grad

    def make_loop_if_supported(self, return_every_glimpse: bool = False) -> DrawLoop | None:
        """Return the loop for this model; None if it has no form."""
        if (
            not is_unmodified(self, FusedDRAW)
            or has_hooks(self)
            or not all(map(is_plain_linear_with_bias, self._q_reader_and_writer))
        ):
            return None
        encoder, decoder = (
            cell_kernel_arguments_or_none(self.encoder),
            cell_kernel_arguments_or_none(self.decoder),
        )
        if encoder is None or decoder is None or encoder.cell_kind != decoder.cell_kind:
            return None
        if len({(p.dtype, p.device) for p in self.parameters()}) > 1:
            return None
        lib = library_for(DRAWING, self.first)
        if lib is None:
            return None
        eps, threads = encoder.eps + decoder.eps, torch.get_num_threads()
        return DrawLoop(lib, encoder.cell_kind, eps, threads, self, return_every_glimpse)

    def loop_parameters(self) -> list[Tensor]:
        """Return the parameters as the loop takes them: of the cells, the maps, the canvas."""
        of_cells = [
            tensor
            for cell in (self.encoder, self.decoder)
            for tensor in (
                cell.W_x,
                cell.W_h,
                require_cell_kernel_arguments(cell).gains_and_biases,
                *cell.first,
            )
        ]
        of_maps = [
            tensor
            for layer in self._q_reader_and_writer
            for tensor in (layer.W, require_bias(layer))
        ]
        return [*of_cells, *of_maps, self.first]

    @property
    def _q_reader_and_writer(self) -> tuple[Linear, Linear, Linear]:
        return self.q, self.reader, self.writer


def fused_draw_sharing_tensors(net: DRAW) -> DRAW:
    """Return ``net`` again, with its tensors: fused, and its loop compiled."""
    return fused_net_sharing_tensors(net, DRAW, FusedDRAW)
