"""The parts of every recurrent cell: weights, an initial state, the settings of its form."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn.layer import GroupNorm, LayerNorm
from lnlab.nn.linear import Norm
from lnlab.nn.normalizer import Identity, Normalizer, outside_root

State = tuple[Tensor, ...]
"""(h,) of an RNN or a GRU, (h, c) of an LSTM: each (B, H)."""

Draw = Callable[[Tensor], object]
"""Fills the weights of one gate, (H, fan-in), in place."""


def authors(W: Tensor) -> None:
    """W (H, fan-in), orthogonal if square, else U(-.1, .1): ryankiros/layer-norm, layers.py."""
    if W.shape[0] == W.shape[1]:
        nn.init.orthogonal_(W)
    else:
        nn.init.uniform_(W, -0.1, 0.1)


def modern(W: Tensor) -> None:
    """W (H, fan-in) from N(0, 1/fan-in): unit variance stays unit variance."""
    nn.init.normal_(W, std=W.shape[1] ** -0.5)


def as_torch(W: Tensor) -> None:
    """W (H, fan-in) from U(-1/sqrt(H), 1/sqrt(H)), the start of torch.nn.LSTM and its kin."""
    nn.init.uniform_(W, -(W.shape[0] ** -0.5), W.shape[0] ** -0.5)


@dataclass(frozen=True)
class Initial:
    """The start of a cell, before it has learned anything.

    Whether layer normalization helps depends on it: compare initialisations, not only norms.

    Args:
        draw: how the weights of a gate are drawn.
        recurrent_gain: g of the normalizer of ``W_h h``; None leaves what the normalizer
            chose (1 in the paper, 0.1 in Cooijmans et al., 2016). With inputs and weights
            of unit scale, 0.1 to 0.3 keeps LN(W_h h) from drowning the input.
        forget_bias: b of the forget gate: 0 in the authors' code, 1 in hardmaru/supercell.
        b: how the cell's own bias is drawn, gate by gate (H,); None: zeros.
        learned_state: whether the first state is learned from 0 (the attentive reader's
            ``learn_h0``). LN of an all-zero h has the slope 1/sqrt(eps).
    """

    draw: Draw = authors
    recurrent_gain: float | None = None
    forget_bias: float = 0.0
    b: Draw | None = None
    learned_state: bool = False


PAPER_START = Initial()
MODERN_START = Initial(modern)
STARTS = {"paper": PAPER_START, "modern": MODERN_START}
"""Starts of recurrent nets, by the names that experiments give them; "modern" is N(0, 1/fan-in)
there. Those of other weights are :data:`lnlab.nn.linear.INITIALISATIONS`."""


class Sums(Enum):
    """The sums that are normalized at once."""

    APART = "LN(W_h h) + LN(W_x x)"
    TOGETHER = "LN(W_h h + W_x x)"


class Carry(Enum):
    """The memory that an LSTM hands to its next step."""

    RAW = "c: eq. 21 and 22, LN only on the way out"
    NORMALIZED = "LN(c): tf.contrib and the TorchScript cell of pytorch/benchmarks/fastrnns"


class Bias(IntEnum):
    """The places where eq. 20 adds ``b``; True and False of torch's call are ONCE and NONE."""

    NONE = 0
    ONCE = 1
    TWICE = 2
    """The authors' Theano code: also inside LN(W_x x + b), where it breaks scale invariance."""
    INSIDE = 3
    """labml_nn: inside the LN alone, which takes its mean and its scale out again."""


class Update(Enum):
    """The meaning of an open update gate; apart from LN's mean a change of sign."""

    WRITES = "(1 - z) h + z ĥ: eq. 28"
    KEEPS = "z h + (1 - z) ĥ: the authors' code and torch"


class Cell(nn.Module, ABC):
    """One time step. Subclasses give :meth:`forward` and how torch's parameters map here.

    ``W_x`` (G H, D) and ``W_h`` (G H, H) hold the weights of the G gates in the order of the
    paper's equation; torch's have the same shapes in an order of their own.

    Raises:
        ValueError: for sizes that are no whole numbers, at least 1.
    """

    gates: int
    """G."""
    states = 1
    """The number of tensors in a state."""

    def __init__(self, inputs: int, units: int, initial: Initial) -> None:
        super().__init__()
        for name, size in (("inputs", inputs), ("units", units)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} is {size!r}: give a whole number, at least 1.")
        self.inputs, self.units, self.initial = inputs, units, initial
        self.W_x = nn.Parameter(torch.empty(self.gates * units, inputs))
        self.W_h = nn.Parameter(torch.empty(self.gates * units, units))
        learned = self.states if initial.learned_state else 0
        self.first = nn.ParameterList([torch.zeros(units) for _ in range(learned)])

    @abstractmethod
    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        """The state after input ``x`` (B, D) at step ``t`` since the start of the sequence."""

    @abstractmethod
    def from_torch(self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor) -> dict:
        """Parameters of torch's layer under the names and in the order of this cell.

        Args:
            W_x, W_h: (G H, D) and (G H, H), the gates in torch's order.
            b_x, b_h: (G H,).
        """

    def start(self, x: Tensor) -> State:
        """The state before the first of the inputs ``x`` (..., B, D): zeros, or learned."""
        B = x.shape[-2]
        if len(self.first):
            return tuple(s.expand(B, self.units) for s in self.first)
        dtype = self.W_h.dtype
        zeros = torch.zeros(B, self.units, device=x.device, dtype=dtype)
        return (zeros,) * self.states

    @torch.no_grad()
    def reset(self) -> None:
        """Draw the weights and the biases as ``initial`` says; learned states are 0."""
        for W in (self.W_x, self.W_h):
            for gate in W.split(self.units):
                self.initial.draw(gate)
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("b"):
                for gate in parameter.split(self.units):
                    (self.initial.b or nn.init.zeros_)(gate)
        for s in self.first:
            s.zero_()

    def temper(self, *norms: Normalizer) -> None:
        """Set the gain g (H,) of the normalizers of ``W_h h`` to the initial recurrent gain.

        Raises:
            ValueError: if one of them has no gain.
        """
        gain = self.initial.recurrent_gain
        if gain is None:
            return
        for norm in norms:
            g = getattr(norm, "g", None)
            if not isinstance(g, Tensor):
                raise ValueError(
                    f"recurrent_gain is {gain}, but {type(norm).__name__} has no gain g."
                )
            nn.init.constant_(g, gain)

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.units}"


class Gated(Cell):
    """A cell of G gates: W_h h and W_x x, each (B, G H), are normalized apart or as one sum.

    Raises:
        ValueError: for a recurrent gain where there is no gain of LN(W_h h) alone.
    """

    def __init__(
        self, inputs: int, units: int, norm: Norm, sums: Sums, bias: Bias, initial: Initial
    ) -> None:
        super().__init__(inputs, units, initial)
        wide = self.gates * units
        self.sums, self.bias = sums, bias
        self.norm_h = norm(wide)
        self.norm_x = norm(wide) if sums is Sums.APART else None
        self.b = nn.Parameter(torch.zeros(wide)) if bias else None

    def reset(self) -> None:
        super().reset()
        if self.norm_x is None:
            if self.initial.recurrent_gain is not None:
                raise ValueError("recurrent_gain is the gain of LN(W_h h): give Sums.APART.")
            self.norm_h.start(torch.cat([self.W_h, self.W_x], dim=1))
            return
        self.norm_h.start(self.W_h)
        self.norm_x.start(self.W_x)
        self.temper(self.norm_h)

    def summed(self, x: Tensor, h: Tensor, t: int | None) -> Tensor:
        """LN(W_h h) + LN(W_x x) + b, as ``sums`` and ``bias`` have it: (B, G H)."""
        # All gates stand in one vector a of G H units, and one mu and one sigma serve them all
        # unless ``norm`` cuts them into groups. Added behind LN, b is free of its scale.
        inside = self.b if self.bias in (Bias.TWICE, Bias.INSIDE) else None
        outside = self.b if self.bias in (Bias.ONCE, Bias.TWICE) else None
        if self.norm_x is None:
            # one product of [h, x], so that rules that read weights see whole rows
            W = torch.cat([self.W_h, self.W_x], dim=1)
            a = F.linear(torch.cat([h, x], dim=1), self.norm_h.weight(W), inside)
            a = self.norm_h(a, W, t)
        else:
            a_h = F.linear(h, self.norm_h.weight(self.W_h))
            a_x = F.linear(x, self.norm_x.weight(self.W_x), inside)
            a = self.norm_h(a_h, self.W_h, t) + self.norm_x(a_x, self.W_x, t)
        return a if outside is None else a + outside


def has_bias(norm: Normalizer) -> bool:
    """True if a normalizer brings a bias ``b`` of its own."""
    return isinstance(getattr(norm, "b", None), Tensor)


# The simple recurrent net of eq. 4.


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
        initial: Initial = PAPER_START,
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


# Long short-term memory, eq. 20-22 and 29-31, and nine published readings of it.


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
        initial: Initial = PAPER_START,
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


OPEN = replace(PAPER_START, forget_bias=1.0)
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
        LSTMCell, bias=Bias.INSIDE, **_per_gate(1e-5), initial=replace(PAPER_START, b=as_torch)
    ),
}
"""Nine LN-LSTMs in the wild, called with (inputs, units).

They are eight functions: haste's is the paper's, started with open forget gates. The start
of the biases is each code's own, that of the weights is the paper's (``PAPER``) for all.
"""


# The gated recurrent unit of eq. 26-28.


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
        initial: Initial = PAPER_START,
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
        # torch and Cho et al. (2014) have z keep the state, eq. 28 has it write the candidate
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
