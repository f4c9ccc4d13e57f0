"""Recurrent cells that bear one name and are different functions."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lnlab.nn import GroupNorm, Identity
from lnlab.probes.dynamics import states
from lnlab.probes.magnitudes import vector_norm
from lnlab.threads import in_one_thread

Cells = Mapping[str, Any]
"""LSTM cells as of :class:`lnlab.nn.LSTMCell`, by name."""


def same_weights(
    makers: Mapping[str, Callable[..., Any]], W_x: Tensor, W_h: Tensor, b: Tensor
) -> dict[str, Any]:
    """A cell of each maker with these weights, and ``b`` where it has its bias.

    The forget bias of those that start from one is added: it is a part of what they do.

    Args:
        makers: called with (inputs, units), each gives a cell.
        W_x: (4 H, D), gates in the order of eq. 20.
        W_h: (4 H, H).
        b: (4 H,).
    """
    cells = {}
    for name, make in makers.items():
        cell = make(W_x.shape[1], W_h.shape[1]).to(W_h)
        with torch.no_grad():
            cell.W_x.copy_(W_x)
            cell.W_h.copy_(W_h)
            place_of_bias(cell).copy_(b)
            # the first H of the four blocks are those of f, as eq. 20 orders them
            cell.outer_bias[: cell.units].add_(cell.initial.forget_bias)
        cells[name] = cell
    return cells


def place_of_bias(cell: Any) -> Tensor:
    """The bias of the gates (4H,): the cell's own, or else that of its normalizer."""
    return cell.norm_h.b if cell.b is None else cell.b


@in_one_thread
@torch.no_grad()
def disagreement(cells: Cells, x: Tensor) -> dict[str, Tensor]:
    """The distance of each cell's h from that of the first, at every step of ``x`` (T, B, D).

    The norm of the difference over all cases and units, as a multiple of the norm of the
    first cell's h: (T,) a name.
    """
    h = {name: torch.stack([s[0] for s in states(cell, x)[1:]]) for name, cell in cells.items()}
    first = next(iter(h.values()))
    return {
        name: vector_norm((each - first).flatten(1), 1) / vector_norm(first.flatten(1), 1)
        for name, each in h.items()
    }


def reading(cell: Any) -> dict[str, str]:
    """The reading of the paper that an LSTM cell stands for, in a few words for each choice."""
    gates = cell.norm_h
    if isinstance(gates, Identity):
        normalized = "no gate"
    elif isinstance(gates, GroupNorm):
        normalized = "each gate by itself"
    else:
        normalized = "all gates at once"
    return {
        "LN runs over": normalized,
        "of": "W_h h + W_x x" if cell.norm_x is None else "W_h h and W_x x",
        "hands on": "LN(c)" if cell.carry.name == "NORMALIZED" else "c",
        "b": {0: "that of LN", 1: "once", 2: "twice", 3: "inside LN"}[int(cell.bias)],
        "forget bias": f"{cell.initial.forget_bias:g}",
        "eps": f"{cell.norm_c.eps:g}, {cell.norm_c.root.__name__.replace('_', ' the ')}",
    }
