"""Long short-term memory, eq. 20-22 and 29-31, and eight published readings of it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from lnlab.norms import GroupNorm, Identity, LayerNorm, Norm, outside_root

from .cell import PAPER, Bias, Carry, Gated, Initial, State, Sums, has_bias


class LSTMCell(Gated):
    r"""Ba et al. (2016), eq. 20-22: long short-term memory with normalized summed inputs.

    .. math::
        (f, i, o, g) &= \mathrm{LN}_1(W_h h_{t-1}) + \mathrm{LN}_2(W_x x_t) + b \\
        c_t &= \sigma(f) \odot c_{t-1} + \sigma(i) \odot \tanh(g) \\
        h_t &= \sigma(o) \odot \tanh(\mathrm{LN}_3(c_t))

    Each of the first two runs over the 4H summed inputs at once, and the carried cell is
    *not* normalized. ``gates=Identity`` is eq. 29-31, the form of DRAW.

    Args:
        norm: makes LN_3 and, unless ``gates`` does, LN_1 and LN_2.
        gates: makes LN_1 and LN_2, of 4H units; ``partial(GroupNorm, groups=4)`` is layer
            norm gate by gate.
        sums, carry, bias: as their members say.
    """

    I: Tensor
    gates, states = 4, 2

    def __init__(
        self,
        inputs: int,
        units: int,
        norm: Norm = LayerNorm,
        *,
        gates: Norm | None = None,
        sums: Sums = Sums.APART,
        carry: Carry = Carry.RAW,
        bias: Bias | bool = Bias.ONCE,
        initial: Initial = PAPER,
    ) -> None:
        super().__init__(inputs, units, gates or norm, sums, Bias(bias), initial)
        self.norm_c, self.carry = norm(units), carry
        # the cell is its own summed input: rules that read weights read c = I c
        self.register_buffer("I", torch.eye(units), persistent=False)
        if initial.forget_bias and self.b is None and not has_bias(self.norm_h):
            raise ValueError("there is no b to hold the forget_bias: give bias=Bias.ONCE.")
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        super().reset()
        self.norm_c.start(self.I)
        b = getattr(self.norm_h, "b", None) if self.b is None else self.b
        if isinstance(b, Tensor):
            b[: self.units] = self.initial.forget_bias

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        h, c = state
        f, i, o, g = self.summed(x, h, t).chunk(4, dim=-1)  # each (B, H)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        normed = self.norm_c(c, self.I, t)
        h = o.sigmoid() * normed.tanh()
        return h, c if self.carry is Carry.RAW else normed

    def from_torch(self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor) -> dict:
        def paper_order(rows: Tensor) -> Tensor:
            i, f, g, o = rows.chunk(4)
            return torch.cat([f, i, o, g])

        b = paper_order(b_x + b_h)
        return {"W_x": paper_order(W_x), "W_h": paper_order(W_h), "b": b}


def gain_only(units: int, **settings) -> LayerNorm:
    """LayerNorm with a gain and no bias."""
    norm = LayerNorm(units, **settings)
    norm.b = None
    return norm


def _per_gate(eps: float) -> dict:
    """Settings of the cells that normalize the projection of [x, h] gate by gate."""
    return {
        "norm": partial(LayerNorm, eps=eps),
        "gates": partial(GroupNorm, groups=4, eps=eps),
        "sums": Sums.TOGETHER,
        "bias": Bias.NONE,
    }


PUBLISHED: dict[str, Callable[..., LSTMCell]] = {
    "Ba et al. (2016), eq. 20-22": LSTMCell,
    "ryankiros/layer-norm, Theano": partial(LSTMCell, bias=Bias.TWICE),
    "ryankiros/layer-norm, Torch (DRAW)": partial(
        LSTMCell, norm=partial(LayerNorm, root=outside_root), gates=Identity
    ),
    "tf.contrib LayerNormBasicLSTMCell": partial(
        LSTMCell,
        carry=Carry.NORMALIZED,
        **_per_gate(1e-12),
        initial=replace(PAPER, forget_bias=1.0),
    ),
    "hardmaru/supercell": partial(
        LSTMCell, **_per_gate(1e-3), initial=replace(PAPER, forget_bias=1.0)
    ),
    "pytorch fastrnns LayerNormLSTMCell": partial(
        LSTMCell, carry=Carry.NORMALIZED, bias=Bias.NONE
    ),
    "lmnt-com/haste": partial(LSTMCell, gates=gain_only),
    "labml_nn": partial(LSTMCell, **_per_gate(1e-5)),
}
"""Eight LN-LSTMs in the wild; called with (inputs, units), each is a different function."""
