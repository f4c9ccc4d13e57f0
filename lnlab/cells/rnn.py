"""The simple recurrent net of eq. 4."""

from collections.abc import Callable

import torch
from torch import Tensor

from lnlab.norms import LayerNorm, Norm

from .cell import PAPER, Bias, Gated, Initial, State, Sums, has_bias


class RNNCell(Gated):
    r"""Ba et al. (2016), eq. 4: the summed inputs of a recurrent layer, normalized at once.

    .. math:: h_t = f\left[\frac{g}{\sigma_t} \odot (a_t - \mu_t) + b\right],
              \quad a_t = W_h h_{t-1} + W_x x_t

    Args:
        f: the nonlinearity, which eq. 4 leaves open.
        sums: ``Sums.APART`` normalizes the two products as eq. 20 does.
        bias: whether there is a b, the cell's own where ``norm`` brings none; TWICE and
            INSIDE put one inside the norm, beside what it brings.
    """

    gates = 1

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm = LayerNorm,
        *,
        f: Callable[[Tensor], Tensor] = torch.tanh,
        sums: Sums = Sums.TOGETHER,
        bias: Bias | bool = Bias.ONCE,
        initial: Initial = PAPER,
    ) -> None:
        super().__init__(inputs, units, norm, sums, Bias(bias), initial)
        if self.bias is Bias.ONCE and has_bias(self.norm_h):  # eq. 4 has one b
            self.b, self.bias = None, Bias.NONE
        self.f = f
        self.reset()

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        return (self.f(self.summed(x, state[0], t)),)

    def from_torch(self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor) -> dict:
        name = "norm_h.b" if self.b is None and has_bias(self.norm_h) else "b"
        return {"W_x": W_x, "W_h": W_h, name: b_x + b_h}
