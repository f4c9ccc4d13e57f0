"""The parts of every recurrent cell: weights, an initial state, the settings of its form."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.norms import Norm, Normalizer

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


PAPER = Initial()
MODERN = Initial(modern)
STARTS = {"paper": PAPER, "modern": MODERN}
"""Starts of recurrent nets, by the names that experiments give them; "modern" is N(0, 1/fan-in)
there. Those of other weights are :data:`lnlab.initialisation.INITIALISATIONS`."""


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
