"""``fuse``: a copy of a model whose layers and norms are computed faster.

Only what is exactly known is exchanged: a normalizer, cell or loop of lnlab itself, with
settings that the fast form has, and with no method replaced. A subclass may compute anything,
and keeps its own code.
"""

import copy
import warnings
from collections.abc import Iterator
from typing import TypeVar

from torch import nn

from lnlab.kernels.fused_cells import has_hooks, is_unmodified
from lnlab.kernels.normalizers import FUSED, has_torch_operator
from lnlab.kernels.recurrent import is_fusible, unroll
from lnlab.nn import Derf, DyT, Identity, Normalizer, RecurrentBatchNorm
from lnlab.nn.linear import LayerWithNorm
from lnlab.nn.recurrent import Recurrent
from lnlab.nn.recurrent import unroll as reference_unroll

Module = TypeVar("Module", bound=nn.Module)


class NotFusedWarning(UserWarning):
    """Some modules have no fast form and stay as they are; the message names them."""


NOTHING_TO_FUSE = (Identity, DyT, Derf, RecurrentBatchNorm)
"""Elementwise operators of torch already; the last one's steps are those of its cell."""


def fuse(model: Module) -> Module:
    """Return a copy of ``model`` with torch's operators and compiled loops.

    The copy computes the same function, up to rounding, with the very same tensors: an
    optimizer of one trains the other, and both update the same running statistics. Move the
    model to its device first; ``.to`` replaces the buffers of the model that it is called on.

    What has no fast form stays as it is, with one :class:`NotFusedWarning` that names it: other
    rules, subclasses, and the settings ``root``, ``correction``, ``norm_scope=JOINT``, an
    RMSNorm over space. A model without layers of lnlab, such as one of torch's, is returned
    unchanged with that warning.
    Hooks work as without ``fuse``: while one is registered on a cell, inside of it or on all
    modules, its layer runs through the reference loop.

    Raises:
        ValueError: if the model cannot be copied, as where weights are pruned.

    Examples:
        >>> net = lnlab.nn.LSTM(8, 16, norm_layer=lnlab.nn.LayerNorm)
        >>> fast = lnlab.fuse(net)
        >>> outputs, state = fast(torch.randn(30, 4, 8))
    """
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    try:
        fused = copy.deepcopy(model, shared)
    except RuntimeError as error:
        raise ValueError(
            f"{type(model).__name__} cannot be copied: make pruned or reparametrized weights "
            f"plain first, with prune.remove or remove_weight_norm. {error}"
        ) from error
    left = {name for module in fused.modules() for name in _fuse_one_or_yield_name(module)}
    if not any(isinstance(m, Normalizer | Recurrent | LayerWithNorm) for m in fused.modules()):
        message = (
            f"{type(model).__name__} has no layer or norm of lnlab.nn, and was left as it is: "
            "build it with lnlab.nn.LSTM, LayerNorm and so on, which load torch's weights."
        )
        warnings.warn(message, NotFusedWarning, 2)
    if left:
        names = "; ".join(sorted(left))
        warnings.warn(f"no fused form, left on the reference: {names}.", NotFusedWarning, 2)
    return fused


def _fuse_one_or_yield_name(module: nn.Module) -> Iterator[str]:
    """Put the fast form of one module in its place, or yield the name of one without."""
    if isinstance(module, Normalizer):
        kind = type(module)
        if is_unmodified(module, *FUSED) and has_torch_operator(module):
            module.__class__ = FUSED[kind]
        elif not is_unmodified(module, *FUSED.values(), *NOTHING_TO_FUSE):
            yield repr(module) if kind in FUSED else kind.__name__
    elif isinstance(module, Recurrent):
        if module.unroll not in (reference_unroll, unroll):
            yield f"{type(module).__name__} with a loop of its own"
            return
        module.unroll = unroll
        for cell in module.cells:
            if has_hooks(cell):
                yield f"{type(cell).__name__} with hooks"
            elif not is_fusible(cell):
                yield type(cell).__name__
