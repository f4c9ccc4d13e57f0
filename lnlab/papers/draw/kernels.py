"""A DRAW net whose glimpses are one compiled loop: the same function in less time."""

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
from lnlab.nn import Linear
from lnlab.papers.draw.model import DRAW, Drawing, make_window

# All glimpses of a DRAW net in one call forward and one back: glimpses.h from Python.


class DrawProblem(ctypes.Structure):
    """``struct DrawProblem`` of glimpses.h: sizes, and pointers that may be null."""

    PARAMETERS = 17
    _fields_ = [
        *fields(
            "kernel is_double T B height width H Z read write first threads", ctypes.c_int64
        ),
        *fields("eps x noise", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p * PARAMETERS),
        *fields("canvas mean log_sigma saved canvases z reads writes", ctypes.c_void_p),
        *fields("dcanvas dmean dlog_sigma", ctypes.c_void_p),
        ("slopes", ctypes.c_void_p * PARAMETERS),
    ]


DRAWING = KernelLibrary("drawing", "DRAW", DrawProblem, Path(__file__).parent)


class Looped(NamedTuple):
    """A drawing of B pictures in T glimpses, as the kernel returns it.

    Attributes:
        canvas: logits of the pixels after the last glimpse (B, D).
        mean, log_sigma: of q, each (T, B, Z).
        canvases: those after each glimpse (T, B, D); empty unless asked for, as the rest.
        z: drawn (T, B, Z).
        reads, writes: what is linear in h_dec of the windows (T, B, 5).
    """

    canvas: Tensor
    mean: Tensor
    log_sigma: Tensor
    canvases: Tensor
    z: Tensor
    reads: Tensor
    writes: Tensor


@dataclass
class Loop:
    """One call of the kernel, its tensors apart."""

    lib: ctypes.CDLL
    kernel: Kernel
    eps: tuple[float, ...]
    """That of each norm, first the encoder (4), then the decoder (4)."""
    shape: tuple[int, int]
    """Height and width of the pictures."""
    read: int
    write: int
    """N of the two windows."""
    first: int
    """The number of the first filter of a window: 1."""
    threads: int
    whole: bool
    """True if the canvases and windows of all glimpses are wanted."""
    keep: bool = False
    """True if there will be a way back."""

    def drawing(
        self, x: Tensor, noise: Tensor, parameters: Sequence[Tensor], **tensors: Tensor
    ) -> DrawProblem:
        """The C structure for x (B, D) and the other tensors, which must outlive it."""
        T, B, Z = noise.shape
        H, wide = parameters[3].shape[0], x.dtype == torch.float64
        self.eps_array = (ctypes.c_double * 8)(*self.eps)
        drawing = DrawProblem(
            self.kernel, wide, T, B, *self.shape, H, Z, self.read, self.write, self.first,
            self.threads,
        )  # fmt: skip
        drawing.eps = ctypes.addressof(self.eps_array)
        drawing.parameters[:] = [p.data_ptr() for p in parameters]
        for name, tensor in {"x": x, "noise": noise, **tensors}.items():
            setattr(drawing, name, tensor.data_ptr() or None)
        return drawing

    def run(self, name: str, drawing: DrawProblem) -> int:
        """As :func:`lnlab.kernels.stepped.run`."""
        return run(self.lib, name, drawing)

    def __call__(self, x: Tensor, noise: Tensor, parameters: Sequence[Tensor]) -> Looped:
        """Pictures x (B, D) with noise (T, B, Z) and the parameters of ``DrawProblem``."""
        self.keep = torch.is_grad_enabled() and any(p.requires_grad for p in parameters)
        return Looped(*Glimpses.apply(self, x, noise, *parameters))


class Glimpses(torch.autograd.Function):
    """(x (B, D), noise (T, B, Z), the parameters of ``DrawProblem``) to :class:`Looped`.

    Nothing goes back to x and the noise, and nothing comes back from what only ``whole`` asks.
    """

    @staticmethod
    def forward(ctx: Any, loop: Loop, x, noise, *parameters):
        x, noise, *parameters = (a.detach().contiguous() for a in (x, noise, *parameters))
        (_, B, Z), many = noise.shape, len(noise) if loop.whole else 0
        few = {
            "canvas": torch.empty_like(x),
            "mean": torch.empty_like(noise),
            "log_sigma": torch.empty_like(noise),
        }
        more = {
            "canvases": x.new_empty(many, *x.shape),
            "z": x.new_empty(many, B, Z),
            "reads": x.new_empty(many, B, 5),
            "writes": x.new_empty(many, B, 5),
        }
        drawing = loop.drawing(x, noise, parameters, **few, **more)
        if loop.keep:
            ctx.saved = Pooled(loop.lib, loop.run("saved_bytes", drawing))
            drawing.saved = ctx.saved.pointer
            ctx.loop = loop
            ctx.save_for_backward(x, noise, *parameters)
        loop.run("forward", drawing)
        ctx.mark_non_differentiable(*more.values())
        return *few.values(), *more.values()

    @staticmethod
    def backward(ctx: Any, dcanvas, dmean, dlog_sigma, *_):
        refuse_second()
        x, noise, *parameters = ctx.saved_tensors
        given = {"dcanvas": dcanvas, "dmean": dmean, "dlog_sigma": dlog_sigma}
        given = {name: a.contiguous() for name, a in given.items()}
        slopes = [torch.empty_like(p) for p in parameters]
        drawing = ctx.loop.drawing(x, noise, parameters, **given)
        drawing.saved = ctx.saved.pointer
        drawing.slopes[:] = [a.data_ptr() for a in slopes]
        ctx.loop.run("backward", drawing)
        return None, None, None, *slopes


class FusedDRAW(DRAW):
    """:class:`DRAW` as a compiled loop computes it, with the reference's parameters and noise.

    The reference serves whatever the loop has no form for: hooks, a method or a part that is
    somebody else's, other normalizers, other devices and dtypes, pictures that want a gradient,
    a drawing (:meth:`draw`) that does, and a machine without a compiler. There is no second
    derivative.
    """

    @property
    def opaque(self) -> bool:
        """True where there is the loop, into which vmap cannot look: nets come in turn then."""
        return kernel(DRAWING, self.first.device, self.first.dtype) is not None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        loop = self.loop() if self._takes(x) else None
        if loop is None:
            return super().forward(x)
        looped = loop(x, self.noise(x), self.tensors())
        return self.nats(x, looped.canvas), self.kl(looped.mean, looped.log_sigma).sum(0)

    def draw(self, x: Tensor, noise: Tensor) -> Drawing:
        alone = not torch.is_grad_enabled() and self._takes(x) and noise.dtype == x.dtype
        loop = self.loop(whole=True) if alone else None
        if loop is None:
            return super().draw(x, noise)
        looped = loop(x, noise, self.tensors())
        return Drawing(
            looped.canvases, looped.mean, looped.log_sigma, looped.z,
            read=make_window(looped.reads, self.shape, self.read),
            write=make_window(looped.writes, self.shape, self.write),
        )  # fmt: skip

    def _takes(self, x: Tensor) -> bool:
        """True if the loop has a form for pictures x."""
        own = self.first
        alike = (x.dtype, x.device) == (own.dtype, own.device)
        return alike and x.dim() == 2 and x.shape[1:] == own.shape and not x.requires_grad

    def loop(self, whole: bool = False) -> Loop | None:
        """The call of the loop for this net; None if it has no form.

        Args:
            whole: whether canvases and windows of all glimpses are wanted.
        """
        if not exactly(self, FusedDRAW) or watched(self) or not all(map(affine, self._affine)):
            return None
        encoder, decoder = form(self.encoder), form(self.decoder)
        if encoder is None or decoder is None or encoder.kernel != decoder.kernel:
            return None
        if len({(p.dtype, p.device) for p in self.parameters()}) > 1:
            return None
        lib = kernel(DRAWING, self.first.device, self.first.dtype)
        if lib is None:
            return None
        first = 0 if self.mistake == "grid" else 1
        return Loop(
            lib, encoder.kernel, encoder.eps + decoder.eps, self.shape, self.read, self.write,
            first, torch.get_num_threads(), whole,
        )  # fmt: skip

    def tensors(self) -> list[Tensor]:
        """The parameters as the loop takes them: of the cells, the affine maps, the canvas."""
        of_cells = [
            tensor
            for cell in (self.encoder, self.decoder)
            for tensor in (cell.W_x, cell.W_h, formed(cell).parameters, *cell.first)
        ]
        maps = [tensor for layer in self._affine for tensor in (layer.W, bias(layer))]
        return [*of_cells, *maps, self.first]

    @property
    def _affine(self) -> tuple[Linear, Linear, Linear]:
        return self.q, self.reader, self.writer


def fuse_draw(net: DRAW) -> DRAW:
    """``net`` again, with its tensors: fused, and its loop over glimpses compiled.

    A subclass keeps its own loop, with what :func:`lnlab.kernels.fuse` finds in it.
    """
    fused = fuse(net)
    if exactly(fused, DRAW):
        fused.__class__ = FusedDRAW
    return fused
