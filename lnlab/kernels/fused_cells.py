"""Cells that have a fast form, and their parameters in the order that the kernels read.

Biases of one sum are added up before they reach a kernel, and a gain or bias that a norm has
not is 1 or 0: autograd then gives each parameter its own gradient.
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
    BiasPlacement,
    CarriedCellState,
    Cell,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    Normalizer,
    NormOfProductsOrSum,
    RNNCell,
    UpdateGateConvention,
    inside_root,
)

Kind = TypeVar("Kind", bound=nn.Module)


class CellKind(IntEnum):
    """The cells that have a compiled loop, numbered as in exports.h."""

    LSTM = 0  # eq. 20 to 22
    DRAW = 1  # an LSTM that normalizes c alone, on the way out
    GRU_WRITES = 2  # eq. 26 to 28: the gate z says how much is written
    GRU_KEEPS = 3  # the same, z saying how much is kept
    RNN = 4  # eq. 4, f = tanh
    PLAIN_LSTM = 5  # without normalization, as the next two
    PLAIN_GRU_WRITES = 6
    PLAIN_GRU_KEEPS = 7
    BATCH_LSTM = 8  # eq. 20 to 22 with batch norm: lnlab.kernels.recurrent


class CellKernelArguments(NamedTuple):
    """The kind of a cell, and what its loop needs besides ``W_x`` and ``W_h``."""

    cell_kind: CellKind
    eps: tuple[float, ...]
    gains_and_biases: Tensor  # (blocks H,), see lstm.h, gru.h and rnn.h

    @property
    def is_unnormalized(self) -> bool:
        """True if nothing is normalized: torch has a layer for that."""
        return CellKind.PLAIN_LSTM <= self.cell_kind <= CellKind.PLAIN_GRU_KEEPS


def cell_kernel_arguments_or_none(cell: Cell) -> CellKernelArguments | None:
    """Return the fast form of ``cell``; None if it has none, or hooks."""
    if has_hooks(cell):
        return None
    if is_unmodified(cell, LSTMCell):
        cell_kind = _lstm_cell_kind(cell)
        return None if cell_kind is None else lstm_kernel_arguments(cell, cell_kind)
    if is_unmodified(cell, GRUCell):
        return _gru_kernel_arguments(cell)
    return _rnn_kernel_arguments(cell) if is_unmodified(cell, RNNCell) else None


def is_unmodified(module: object, *kinds: type[Kind]) -> TypeGuard[Kind]:
    """Return True if ``module`` is of one of these classes, with no method replaced.

    A subclass, a parametrization or ``module.forward = ...`` may compute anything.
    """
    kind = type(module)
    return kind in kinds and vars(module).keys().isdisjoint(
        own_and_inherited_method_names(kind)
    )


@cache
def own_and_inherited_method_names(kind: type) -> frozenset[str]:
    """Return the names of the callable attributes of a class."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


def has_hooks(cell: nn.Module) -> bool:
    """Return True if there are hooks on ``cell``, on a module in it, or on all modules.

    Hooks, forward and backward, are called by modules, and a kernel calls no module.
    """
    return bool(_has_any_global_hook()) or any(
        m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks
        for m in cell.modules()
    )


def is_plain_layer_norm(norm: Normalizer | None) -> bool:
    """Return True if ``norm`` is eq. 15 with default settings."""
    return (
        norm is not None
        and is_unmodified(norm, LayerNorm, FusedLayerNorm)
        and norm.root is inside_root
        and not norm.correction
        and not norm.space
    )


def are_identities(*norms: Normalizer | None) -> bool:
    """Return True if none of the norms changes anything."""
    return all(norm is None or is_unmodified(norm, Identity) for norm in norms)


def _lstm_cell_kind(cell: LSTMCell) -> CellKind | None:
    gates = cell.norm_h, cell.norm_x
    if are_identities(*gates, cell.norm_c):
        return None if cell.bias is BiasPlacement.TWICE else CellKind.PLAIN_LSTM
    if (
        not is_plain_layer_norm(cell.norm_c)
        or cell.cell_state is CarriedCellState.NORMALIZED
        or has_bias_inside_norm(cell)
    ):
        return None
    if are_identities(*gates):
        return CellKind.DRAW
    return CellKind.LSTM if all(map(is_plain_layer_norm, gates)) else None


def lstm_kernel_arguments(cell: LSTMCell, cell_kind: CellKind) -> CellKernelArguments:
    """Return what the loop of ``cell_kind`` needs for eq. 20-22 or 29-31 of ``cell``."""
    W, norms = cell.W_h, [cell.norm_h] if cell.norm_x is None else [cell.norm_h, cell.norm_x]
    # LN_1(...) + b_1 + LN_2(...) + b_2 + b: three biases of one sum are one
    biases = [bias_or_zeros(norm, W) for norm in norms]
    b = reduce(add, biases if cell.b is None else [*biases, cell.b])
    gains = [gain_or_ones(norm, W) for norm in (cell.norm_h, norms[-1])]
    parameters = torch.cat(
        [*gains, b, gain_or_ones(cell.norm_c, W), bias_or_zeros(cell.norm_c, W)]
    )
    eps = (cell.norm_h.eps, norms[-1].eps, cell.norm_c.eps, 0.0)
    return CellKernelArguments(cell_kind, eps, parameters)


def _gru_kernel_arguments(cell: GRUCell) -> CellKernelArguments | None:
    W, (h, x, U, candidate) = cell.W_h, (cell.norm_h, cell.norm_x, cell.norm_U, cell.norm_W)
    keeps = cell.update_gate is UpdateGateConvention.KEEPS
    b_x = torch.cat([bias_or_zeros(h, W) + bias_or_zeros(x, W), bias_or_zeros(candidate, W)])
    b_U = bias_or_zeros(U, W)
    if are_identities(h, x, U, candidate):
        cell_kind = CellKind.PLAIN_GRU_KEEPS if keeps else CellKind.PLAIN_GRU_WRITES
        if cell.b_x is not None and cell.b_h is not None:
            b_x, b_U = cell.b_x, cell.b_h
    elif cell.b_x is None and all(map(is_plain_layer_norm, (h, x, U, candidate))):
        cell_kind = CellKind.GRU_KEEPS if keeps else CellKind.GRU_WRITES
    else:  # with biases inside the norms, say
        return None
    gains = [gain_or_ones(norm, W) for norm in (h, U, x, candidate)]
    eps = (h.eps, x.eps, U.eps, candidate.eps)
    return CellKernelArguments(cell_kind, eps, torch.cat([*gains, b_x, b_U]))


def _rnn_kernel_arguments(cell: RNNCell) -> CellKernelArguments | None:
    norm, W = cell.norm_h, cell.W_h
    if (
        cell.norm_scope is not NormOfProductsOrSum.JOINT
        or cell.f is not torch.tanh
        or not is_plain_layer_norm(norm)
        or has_bias_inside_norm(cell)
    ):
        return None
    b = bias_or_zeros(norm, W) if cell.b is None else bias_or_zeros(norm, W) + cell.b
    return CellKernelArguments(
        CellKind.RNN, (norm.eps, 0.0, 0.0, 0.0), torch.cat([gain_or_ones(norm, W), b])
    )


def has_bias_inside_norm(cell: LSTMCell | RNNCell) -> bool:
    """True if the cell's own b stands inside a normalizer, where the kernels have none."""
    return cell.bias in (BiasPlacement.TWICE, BiasPlacement.INSIDE)


def gain_or_ones(norm: Normalizer, W: Tensor) -> Tensor:
    """The gain g (H,), or ones like ``W`` where there is none."""
    g = getattr(norm, "g", None)
    return g if isinstance(g, Tensor) else W.new_ones(norm.units)


def bias_or_zeros(norm: Normalizer, W: Tensor) -> Tensor:
    """The bias b (H,), or zeros like ``W`` where there is none."""
    b = getattr(norm, "b", None)
    return b if isinstance(b, Tensor) else W.new_zeros(norm.units)


def refuse_second_derivative() -> None:
    """Raise RuntimeError if a backward pass is to be differentiated again."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the fused recurrence has no second derivative: differentiate the reference, "
            "the module that was given to lnlab.fuse."
        )
