"""Signals and gradients in a recurrent network, from one time step to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.magnitudes import root_mean_square
from lnlab.analysis.module_copy import check_nonempty_tensor, check_type
from lnlab.analysis.random import normal
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.nn import Cell, GroupNorm, Identity
from lnlab.threads import in_one_thread_if_small


@dataclass(frozen=True)
class RecurrentDynamics(AnalysisResult):
    """Root mean squares at T time steps, each (T,)."""

    # of the pre-activations W_h h_{t-1} + W_x x_t, before they are normalized
    pre_activation_rms: Tensor
    hidden_rms: Tensor  # of the hidden state h_t
    # of the gradient of a random function of the last h, by the state after step t; as a
    # multiple of the one by the state after the last step
    relative_gradient_rms: Tensor

    @property
    def gradient_factor_per_step(self) -> float:
        """The factor of the gradient in a step backwards, on average over the steps."""
        # the last is 1 by definition: the first is the product of T - 1 factors, one a step
        T = len(self.relative_gradient_rms)
        return float(self.relative_gradient_rms[0] ** (1 / (T - 1))) if T > 1 else 1.0

    def to_frame(self) -> DataFrame:
        """Return one row per time step."""
        columns = {
            "pre_activations": self.pre_activation_rms,
            "hidden": self.hidden_rms,
            "gradient": self.relative_gradient_rms,
        }
        return make_frame({name: v.cpu().numpy() for name, v in columns.items()})

    def plot(self) -> Figure:
        """Return the three against time, on a logarithmic axis."""
        from lnlab.figures.curves import line_chart

        frame = self.to_frame()
        lines = {name: (frame.index.to_numpy() + 1, frame[name].to_numpy()) for name in frame}
        return line_chart({"": lines}, x="time step", y="root mean square")


def states_from_initial_on(cell: Cell, x: Tensor) -> list[tuple[Tensor, ...]]:
    """Return the first state, and that after each step of ``x`` (T, B, D)."""
    states = [cell.initial_state(x)]
    for t, x_t in enumerate(x):
        # copies, which go nowhere but into the next step: h itself is made from c
        states.append(tuple(s.clone() for s in cell(x_t, states[-1], t)))
    return states


@in_one_thread_if_small
@torch.enable_grad()
def measure_rms_per_time_step(cell: Cell, x: Tensor, *, seed: int = 0) -> RecurrentDynamics:
    """Return the sizes of pre-activations, hidden states and gradients at every step of ``x``.

    x is (T, B, D), with at least one step; ``seed`` is that of the random function of the last
    h.
    """
    check_type("cell", cell, nn.Module, "a cell of lnlab.nn")
    check_nonempty_tensor(x)
    states = states_from_initial_on(cell, x)
    h = torch.stack([state[0] for state in states])  # (T + 1, B, H)
    # of r · h_T, whose gradient by s_t is rᵀ dh_T/ds_t: a random mixture of the Jacobian's rows
    r = normal(seed, 4, *h[-1].shape).to(h)
    leaves = [s for state in states[1:] for s in state]
    # the last carried cell of an LSTM has no part in h
    grads = torch.autograd.grad((r * states[-1][0]).sum(), leaves, allow_unused=True)
    each = [torch.zeros_like(s) if d is None else d for d, s in zip(grads, leaves, strict=True)]
    n = len(states[0])
    gradients = torch.stack(each).unflatten(0, (len(x), n))  # (T, states, B, H)
    gradient = root_mean_square(gradients.flatten(1), 1)
    with torch.no_grad():
        a = F.linear(h[:-1], cell.W_h) + F.linear(x, cell.W_x)
        pre_activations, hidden = (root_mean_square(s.flatten(1), 1) for s in (a, h[1:]))
        return RecurrentDynamics(pre_activations, hidden, gradient / gradient[-1])


# Recurrent cells that have one name and are different functions.


def make_cells_with_weights(
    makers: Mapping[str, Callable[..., Any]], W_x: Tensor, W_h: Tensor, b: Tensor
) -> dict[str, Any]:
    """Return a cell of each maker with these weights, and ``b`` in the place of its bias.

    W_x is (4 H, D), W_h (4 H, H), b (4 H,), gates in the order of eq. 20. The forget bias of
    those that start with one is added: it belongs to what they compute.
    """
    cells = {}
    for name, make in makers.items():
        cell = make(W_x.shape[1], W_h.shape[1]).to(W_h)
        with torch.no_grad():
            cell.W_x.copy_(W_x)
            cell.W_h.copy_(W_h)
            # the cell's own, or else that of its normalizer
            (cell.norm_h.b if cell.b is None else cell.b).copy_(b)
            # the first H of the four blocks are those of f, as eq. 20 orders them
            cell.own_or_norm_bias[: cell.hidden_size].add_(cell.initial.forget_bias)
        cells[name] = cell
    return cells


def describe_lstm_variant(cell: Any) -> dict[str, str]:
    """Return how an LSTM cell reads the paper, in a few words for each choice."""
    summed = "W_h h + W_x x" if cell.norm_x is None else "W_h h and W_x x"
    scopes = {Identity: "no gate", GroupNorm: "each gate by itself"}
    return {
        "LN runs over": scopes.get(type(cell.norm_h), "all gates at once"),
        "of": "–" if isinstance(cell.norm_h, Identity) else summed,
        "passes on": "LN(c)" if cell.cell_state.name == "NORMALIZED" else "c",
        "b": {0: "that of LN", 1: "once", 2: "twice", 3: "inside LN"}[int(cell.bias)],
        "forget bias": f"{cell.initial.forget_bias:g}",
        "eps": f"{cell.norm_c.eps:g}, {cell.norm_c.root.__name__.replace('_', ' the ')}",
    }
