"""The fused forms of cells, and their parameters in the order that the kernels read.

Biases of one place are added up before they reach a kernel, and a gain or bias that a
normalizer has not is 1 or 0: autograd then gives each parameter its own gradient.
"""

from enum import IntEnum
from functools import cache, reduce
from operator import add
from typing import NamedTuple, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from lnlab.kernels.normalizers import FusedLayerNorm
from lnlab.nn import (
    Bias,
    Cell,
    CellState,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    Normalizer,
    NormScope,
    RNNCell,
    UpdateGate,
    inside_root,
)

Kind = TypeVar("Kind", bound=nn.Module)


class Kernel(IntEnum):
    """The kernels, numbered as in calls.h."""

    LSTM = 0
    """Eq. 20 to 22."""
    DRAW = 1
    """An LSTM that normalizes c alone, on the way out."""
    GRU_WRITES = 2
    """Eq. 26 to 28: the gate z says how much is written."""
    GRU_KEEPS = 3
    """The same, z saying how much is kept."""
    RNN = 4
    """Eq. 4, f = tanh."""
    PLAIN_LSTM = 5
    """An LSTM without normalization."""
    PLAIN_GRU_WRITES = 6
    """A GRU without normalization: the gate z says how much is written."""
    PLAIN_GRU_KEEPS = 7
    """The same, z saying how much is kept."""
    BATCH_LSTM = 8
    """Eq. 20 to 22 with batch norm: :mod:`lnlab.kernels.recurrent`."""


class Form(NamedTuple):
    """One of the kernels, and what it needs of a cell beside ``W_x`` and ``W_h``."""

    kernel: Kernel
    eps: tuple[float, ...]
    parameters: Tensor
    """(blocks H,), see lstm.h, gru.h and rnn.h."""

    @property
    def unnormalized(self) -> bool:
        """True if nothing is normalized; torch has an operator for that."""
        return Kernel.PLAIN_LSTM <= self.kernel <= Kernel.PLAIN_GRU_KEEPS


def form(cell: Cell) -> Form | None:
    """The fused form of ``cell``; None if it has none, or if somebody listens to it."""
    if watched(cell):
        return None
    if exactly(cell, LSTMCell):
        return _plain_lstm(cell) or _lstm(cell)
    if exactly(cell, GRUCell):
        return _plain_gru(cell) or _gru(cell)
    return _rnn(cell) if exactly(cell, RNNCell) else None


def exactly(module: object, *kinds: type[Kind]) -> TypeGuard[Kind]:
    """True if ``module`` is of one of these kinds, no subclass, with no method replaced.

    What a subclass, a parametrization or ``module.forward = ...`` computes, nobody knows.
    """
    kind = type(module)
    return kind in kinds and vars(module).keys().isdisjoint(methods(kind))


@cache
def methods(kind: type) -> frozenset[str]:
    """The names of what can be called of a class."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


def watched(cell: nn.Module) -> bool:
    """True if there are hooks on ``cell``, on anything in it, or on all modules there are.

    Forward or backward, they are called by modules; a fused form calls none.
    """
    return bool(_has_any_global_hook()) or any(
        m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks
        for m in cell.modules()
    )


def plain(norm: Normalizer | None) -> bool:
    """True if ``norm`` is eq. 15 with nothing set otherwise."""
    return (
        norm is not None
        and exactly(norm, LayerNorm, FusedLayerNorm)
        and norm.root is inside_root
        and not norm.correction
        and not norm.space
    )


def unnormalized(*norms: Normalizer | None) -> bool:
    """True if none of them changes anything."""
    return all(norm is None or exactly(norm, Identity) for norm in norms)


def _plain_lstm(cell: LSTMCell) -> Form | None:
    if not unnormalized(cell.norm_h, cell.norm_x, cell.norm_c) or cell.bias is Bias.TWICE:
        return None
    H, W = cell.hidden_size, cell.W_h
    b = W.new_zeros(4 * H) if cell.b is None else cell.b
    # the blocks of Kernel.LSTM, with gains of 1 and a bias of 0 where nothing is normalized
    parameters = torch.cat([W.new_ones(8 * H), b, W.new_ones(H), W.new_zeros(H)])
    return Form(Kernel.PLAIN_LSTM, (0.0,) * 4, parameters)


def _plain_gru(cell: GRUCell) -> Form | None:
    if not unnormalized(cell.norm_h, cell.norm_x, cell.norm_U, cell.norm_W):
        return None
    H, W = cell.hidden_size, cell.W_h
    b_x = W.new_zeros(3 * H) if cell.b_x is None else cell.b_x
    b_U = W.new_zeros(H) if cell.b_h is None else cell.b_h
    keeps = cell.update_gate is UpdateGate.KEEPS
    kernel = Kernel.PLAIN_GRU_KEEPS if keeps else Kernel.PLAIN_GRU_WRITES
    return Form(kernel, (0.0,) * 4, torch.cat([W.new_ones(6 * H), b_x, b_U]))


def _lstm(cell: LSTMCell) -> Form | None:
    if not plain(cell.norm_c) or cell.cell_state is CellState.NORMALIZED or b_inside(cell):
        return None
    norms = [cell.norm_h] if cell.norm_x is None else [cell.norm_h, cell.norm_x]
    draw = unnormalized(*norms)
    if not draw and not (len(norms) == 2 and all(plain(norm) for norm in norms)):
        return None
    return lstm(cell, Kernel.DRAW if draw else Kernel.LSTM)


def lstm(cell: LSTMCell, kernel: Kernel) -> Form:
    """The form of eq. 20-22 or 29-31 by the ``kernel`` that has the statistics of ``cell``."""
    norms = [cell.norm_h] if cell.norm_x is None else [cell.norm_h, cell.norm_x]
    # LN_1(...) + b_1 + LN_2(...) + b_2 + b: three biases of one sum are one
    biases = [bias(norm, cell.W_h) for norm in norms]
    b = reduce(add, biases if cell.b is None else [*biases, cell.b])
    gains = [gain(norm, cell.W_h) for norm in (cell.norm_h, norms[-1])]
    parameters = torch.cat(
        [*gains, b, gain(cell.norm_c, cell.W_h), bias(cell.norm_c, cell.W_h)]
    )
    eps = (cell.norm_h.eps, norms[-1].eps, cell.norm_c.eps, 0.0)
    return Form(kernel, eps, parameters)


def _gru(cell: GRUCell) -> Form | None:
    norms = cell.norm_h, cell.norm_x, cell.norm_U, cell.norm_W
    if not all(plain(norm) for norm in norms):
        return None
    h, x, U, W = norms
    b_x, b_U = (
        torch.cat([bias(h, cell.W_h) + bias(x, cell.W_h), bias(W, cell.W_h)]),
        bias(U, cell.W_h),
    )
    if cell.b_x is not None:  # inside the normalizers, where only Identity has them
        return None
    parameters = torch.cat(
        [gain(h, cell.W_h), gain(U, cell.W_h), gain(x, cell.W_h), gain(W, cell.W_h), b_x, b_U]
    )
    kernel = Kernel.GRU_KEEPS if cell.update_gate is UpdateGate.KEEPS else Kernel.GRU_WRITES
    return Form(kernel, tuple(norm.eps for norm in norms), parameters)


def _rnn(cell: RNNCell) -> Form | None:
    norm = cell.norm_h
    if cell.norm_scope is not NormScope.JOINT or cell.f is not torch.tanh or not plain(norm):
        return None
    if b_inside(cell):
        return None
    b = bias(norm, cell.W_h) if cell.b is None else bias(norm, cell.W_h) + cell.b
    return Form(Kernel.RNN, (norm.eps, 0.0, 0.0, 0.0), torch.cat([gain(norm, cell.W_h), b]))


def b_inside(cell: LSTMCell | RNNCell) -> bool:
    """True if the cell's own b stands inside a normalizer, where the kernels have none."""
    return cell.bias in (Bias.TWICE, Bias.INSIDE)


def gain(norm: Normalizer, W: Tensor) -> Tensor:
    """The gain g (H,), or ones like ``W`` where there is none."""
    g = getattr(norm, "g", None)
    return g if isinstance(g, Tensor) else W.new_ones(norm.units)


def bias(norm: Normalizer, W: Tensor) -> Tensor:
    """The bias b (H,), or zeros like ``W`` where there is none."""
    b = getattr(norm, "b", None)
    return b if isinstance(b, Tensor) else W.new_zeros(norm.units)


def refuse_second() -> None:
    """Raise RuntimeError where a way back is to be differentiated again."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the fused recurrence has no second derivative: differentiate the reference, "
            "the module that was given to kernels.fuse."
        )
