"""The gated recurrent unit of eq. 26-28."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.norms import LayerNorm, Norm

from .cell import PAPER, Cell, Initial, State, Update, has_bias


class GRUCell(Cell):
    r"""Ba et al. (2016), eq. 26-28: a gated recurrent unit with normalized summed inputs.

    .. math::
        (z, r) &= \mathrm{LN}_1(W_h h_{t-1}) + \mathrm{LN}_2(W_x x_t) \\
        \hat h_t &= \tanh(\mathrm{LN}_3(W x_t) + \sigma(r) \odot \mathrm{LN}_4(U h_{t-1})) \\
        h_t &= (1 - \sigma(z)) \odot h_{t-1} + \sigma(z) \odot \hat h_t

    ``W_x`` holds W_x above W, ``W_h`` holds W_h above U: rows z, r, candidate. Eq. 23-24 have
    no bias; a cell whose normalizers have none is given ``b_x`` (3H) and, inside the
    reset, ``b_h`` (H), so that ``norm=Identity`` is torch's unit too.

    Args:
        update: which way the update gate works.
        bias: whether there are biases where ``norm`` brings none.
    """

    gates = 3

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm = LayerNorm,
        *,
        update: Update = Update.WRITES,
        bias: bool = True,
        initial: Initial = PAPER,
    ) -> None:
        super().__init__(inputs, units, initial)
        self.norm_h, self.norm_x = norm(2 * units), norm(2 * units)
        self.norm_W, self.norm_U = norm(units), norm(units)
        self.update = update
        own = bias and not has_bias(self.norm_h)
        self.b_x = nn.Parameter(torch.zeros(3 * units)) if own else None
        self.b_h = nn.Parameter(torch.zeros(units)) if own else None
        self.reset()

    def reset(self) -> None:
        super().reset()
        H = self.units
        for norms, W in (
            ((self.norm_h, self.norm_U), self.W_h),
            ((self.norm_x, self.norm_W), self.W_x),
        ):
            for norm, part in zip(norms, W.split(2 * H), strict=True):
                norm.start(part)
        self.temper(self.norm_h, self.norm_U)

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        h, H = state[0], self.units
        (W_x, W), (W_h, U) = self.W_x.split(2 * H), self.W_h.split(2 * H)
        # z and r are normalized together, the candidate's two parts each by itself: r must
        # scale what LN made of U h, for LN would divide a common scale inside of it out.
        b_zr, b_W = (None, None) if self.b_x is None else self.b_x.split(2 * H)
        a_x = F.linear(x, self.norm_x.weight(W_x), b_zr)
        a_h = F.linear(h, self.norm_h.weight(W_h))
        z, r = (self.norm_h(a_h, W_h, t) + self.norm_x(a_x, W_x, t)).sigmoid().chunk(2, -1)
        Wx = self.norm_W(F.linear(x, self.norm_W.weight(W), b_W), W, t)
        Uh = self.norm_U(F.linear(h, self.norm_U.weight(U), self.b_h), U, t)
        candidate = (Wx + r * Uh).tanh()
        if self.update is Update.KEEPS:
            z = 1 - z
        return ((1 - z) * h + z * candidate,)

    def from_torch(self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor) -> dict:
        H = self.units
        sign = 1 if self.update is Update.KEEPS else -1  # sigma(-z) = 1 - sigma(z)

        def paper_order(rows: Tensor) -> Tensor:
            r, z, n = rows.chunk(3)
            return torch.cat([sign * z, r, n])

        W_x, W_h, b_x, b_h = (paper_order(rows) for rows in (W_x, W_h, b_x, b_h))
        zr, W, U = b_x[: 2 * H] + b_h[: 2 * H], b_x[2 * H :], b_h[2 * H :]
        if has_bias(self.norm_x):
            b = {"norm_x.b": zr, "norm_W.b": W, "norm_U.b": U}
        else:
            b = {"b_x": torch.cat([zr, W]), "b_h": U}
        return {"W_x": W_x, "W_h": W_h, **b}
