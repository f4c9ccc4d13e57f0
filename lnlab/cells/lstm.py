"""Long short-term memory, eq. 20-22 and 29-31, and nine published readings of it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from lnlab.norms import GroupNorm, Identity, LayerNorm, Norm, outside_root

from .cell import PAPER, Bias, Carry, Gated, Initial, State, Sums, as_torch


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

    Raises:
        ValueError: for a forget bias where there is no b to hold it.
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
        if initial.forget_bias and self.outer_bias is None:
            raise ValueError("there is no b to hold the forget_bias: give bias=Bias.ONCE.")
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        super().reset()
        self.norm_c.start(self.I)
        if self.outer_bias is not None and self.initial.forget_bias:
            self.outer_bias[: self.units] = self.initial.forget_bias

    @property
    def outer_bias(self) -> Tensor | None:
        """The bias (4H,) added behind the normalization: the cell's own, or that of LN_1."""
        if self.bias in (Bias.ONCE, Bias.TWICE):
            return self.b
        b = getattr(self.norm_h, "b", None)
        return b if isinstance(b, Tensor) else None

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        h, c = state
        return self.gated(self.summed(x, h, t), c, t)

    def gated(self, a: Tensor, c: Tensor, t: int | None = None) -> State:
        """The state from the sum of eq. 20, a (B, 4 H), and the memory c (B, H) before it."""
        # f first, in the order of the paper (torch has i, f, g, o)
        f, i, o, g = a.chunk(4, dim=-1)  # each (B, H)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        # eq. 22: LN on the way out alone. Handed on (Carry.NORMALIZED), the memory is brought
        # to the size of LN_3's gain at every step, and is no longer a sum over time.
        normed = self.norm_c(c, self.I, t)
        h = o.sigmoid() * normed.tanh()
        return h, c if self.carry is Carry.RAW else normed

    def from_torch(self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor) -> dict:
        def paper_order(rows: Tensor) -> Tensor:  # of (4 H, ...)
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
    }


OPEN = replace(PAPER, forget_bias=1.0)
"""The start with open forget gates."""


PUBLISHED: dict[str, Callable[..., LSTMCell]] = {
    "Ba et al. (2016), eq. 20-22": LSTMCell,
    "ryankiros/layer-norm, Theano": partial(LSTMCell, bias=Bias.TWICE),
    "ryankiros/layer-norm, Torch (DRAW)": partial(
        LSTMCell, norm=partial(LayerNorm, root=outside_root), gates=Identity
    ),
    "tf.contrib LayerNormBasicLSTMCell": partial(
        LSTMCell,
        carry=Carry.NORMALIZED,
        bias=Bias.NONE,
        **_per_gate(1e-12),
        initial=OPEN,
    ),
    "hardmaru/supercell": partial(LSTMCell, bias=Bias.NONE, **_per_gate(1e-3), initial=OPEN),
    "pytorch fastrnns LayerNormLSTMCell": partial(
        LSTMCell, carry=Carry.NORMALIZED, bias=Bias.NONE
    ),
    "tensorflow-addons LayerNormLSTMCell": partial(
        LSTMCell, norm=partial(LayerNorm, eps=1e-3), carry=Carry.NORMALIZED, initial=OPEN
    ),
    "lmnt-com/haste": partial(LSTMCell, gates=gain_only, initial=OPEN),
    "labml_nn": partial(
        LSTMCell, bias=Bias.INSIDE, **_per_gate(1e-5), initial=replace(PAPER, b=as_torch)
    ),
}
"""Nine LN-LSTMs in the wild, called with (inputs, units).

They are eight functions: haste's is the paper's, started with open forget gates. The start
of the biases is each code's own, that of the weights is the paper's (``PAPER``) for all.
"""
