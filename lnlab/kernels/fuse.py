"""A model again, with fast equivalents in the places of the reference.

Only what is exactly known is exchanged: a normalizer, cell or loop of lnlab itself, with
settings that the equivalent has, and with no method replaced. A subclass may do anything,
and keeps doing it.
"""

import copy
import warnings
from collections.abc import Iterator
from typing import TypeVar

from torch import nn

import lnlab.kernels.recurrent
from lnlab.kernels.forms import exactly, watched
from lnlab.kernels.normalizers import FUSED, in_torch
from lnlab.nn import DyT, Identity, Normalizer, recurrent

Module = TypeVar("Module", bound=nn.Module)


class LeftOnReference(UserWarning):
    """Some modules have no fused form and stay as they are; the message names them."""


NOTHING_TO_FUSE = (Identity, DyT)
"""Without a statistic they are elementwise, and torch's own operators already."""


def fuse(model: Module) -> Module:
    """``model`` again, with torch's operators and compiled loops; its tensors are the same.

    The very same tensors: an optimizer of one trains the other, and both remember the same
    statistics. So fuse a model when it is where it should be; ``.to`` replaces the buffers
    of the one that it is called on.

    What has no equivalent stays on the reference, with one :class:`LeftOnReference` warning
    that names it: other rules, subclasses, and the settings ``root``, ``correction``, an
    RMSNorm over space. Hooks are served as on the reference:
    one on a cell, inside of it or on all modules sends its layer through the reference loop
    for as long as it is registered, also when it is registered later.

    Examples:
        >>> net = lnlab.nn.LSTM(8, 16, norm_layer=lnlab.nn.LayerNorm)
        >>> fast = lnlab.fuse(net)
        >>> outputs, state = fast(torch.randn(30, 4, 8))
    """
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    fused = copy.deepcopy(model, shared)
    left = {name for module in fused.modules() for name in _exchange(module)}
    if left:
        names = "; ".join(sorted(left))
        warnings.warn(f"no fused form, left on the reference: {names}.", LeftOnReference, 2)
    return fused


def _exchange(module: nn.Module) -> Iterator[str]:
    """Put the fused form of one module in its place, or name what has none."""
    if isinstance(module, Normalizer):
        kind = type(module)
        if exactly(module, *FUSED) and in_torch(module):
            module.__class__ = FUSED[kind]
        elif not exactly(module, *FUSED.values(), *NOTHING_TO_FUSE):
            yield repr(module) if kind in FUSED else kind.__name__
    elif isinstance(module, recurrent.Recurrent):
        if module.unroll not in (recurrent.unroll, lnlab.kernels.recurrent.unroll):
            yield f"{type(module).__name__} with a loop of its own"
            return
        module.unroll = lnlab.kernels.recurrent.unroll
        for cell in module.cells:
            if watched(cell):
                yield f"{type(cell).__name__} with hooks"
            elif not lnlab.kernels.recurrent.has(cell):
                yield type(cell).__name__
