"""A DRAW net whose glimpses are one compiled loop: the same function in less time."""

import torch
from torch import Tensor

from lnlab.kernels import fuse
from lnlab.kernels.forms import exactly, form, watched
from lnlab.kernels.stepped import affine, bias, formed, kernel
from lnlab.nn import Linear
from lnlab.tasks.draw.loop import DRAWING, Loop
from lnlab.tasks.draw.net import Draw, Drawn
from lnlab.tasks.draw.window import window


class FastDraw(Draw):
    """:class:`Draw` as a compiled loop computes it, with the reference's parameters and noise.

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

    def draw(self, x: Tensor, noise: Tensor) -> Drawn:
        alone = not torch.is_grad_enabled() and self._takes(x) and noise.dtype == x.dtype
        loop = self.loop(whole=True) if alone else None
        if loop is None:
            return super().draw(x, noise)
        looped = loop(x, noise, self.tensors())
        return Drawn(
            looped.canvases, looped.mean, looped.log_sigma, looped.z,
            read=window(looped.reads, self.shape, self.read),
            write=window(looped.writes, self.shape, self.write),
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
        if not exactly(self, FastDraw) or watched(self) or not all(map(affine, self._affine)):
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


def fast(net: Draw) -> Draw:
    """``net`` again, with its tensors: fused, and its loop over glimpses compiled.

    A subclass keeps its own loop, with what :func:`lnlab.kernels.fuse` finds in it.
    """
    fused = fuse(net)
    if exactly(fused, Draw):
        fused.__class__ = FastDraw
    return fused
