"""Recurrent cells with any normalizer: the simple RNN, the LSTM and the GRU of the paper."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.nn.layer import GroupNorm, LayerNorm
from lnlab.nn.linear import NormLayer, make_norm
from lnlab.nn.normalizer import Identity, Normalizer, outside_root

State = tuple[Tensor, ...]
"""(h,) of an RNN or a GRU, (h, c) of an LSTM: each (B, H)."""

GateInitializer = Callable[[Tensor], object]
"""Fills the weights (H, fan-in), or the bias (H,), of one gate in place."""


def init_like_authors_(W: Tensor) -> None:
    """Fill W (H, fan-in): orthogonal if square, else U(-.1, .1) (ryankiros/layer-norm)."""
    if W.shape[0] == W.shape[1]:
        nn.init.orthogonal_(W)
    else:
        nn.init.uniform_(W, -0.1, 0.1)


def init_variance_preserving_(W: Tensor) -> None:
    """Fill W (H, fan-in) from N(0, 1/fan-in): unit variance stays unit variance."""
    nn.init.normal_(W, std=W.shape[1] ** -0.5)


def init_like_torch_(W: Tensor) -> None:
    """Fill W (H, fan-in) from U(-1/sqrt(H), 1/sqrt(H)), as torch.nn.LSTM, GRU and RNN do."""
    nn.init.uniform_(W, -(W.shape[0] ** -0.5), W.shape[0] ** -0.5)


@dataclass(frozen=True)
class CellInit:
    """The initialization of a cell.

    Whether layer normalization helps depends on it: compare initializations, not only norms.

    Args:
        input_and_recurrent_weights: fills the weights of a gate in W_x, and in W_h.
        recurrent_norm_gain: g of the normalizer of ``W_h h``; None leaves what the normalizer
            chose (1 in the paper, 0.1 in Cooijmans et al., 2016). With inputs and weights
            of unit scale, 0.1 to 0.3 keeps LN(W_h h) from dominating the input.
        forget_bias: b of the forget gate: 0 in the authors' code, 1 in hardmaru/supercell.
        bias: fills the cell's own bias, gate by gate (H,); None: zeros.
        learned_initial_state: whether the first state is a parameter, 0 at first (the attentive
            reader's ``learn_h0``). The derivative of LN at an all-zero h is 1/sqrt(eps).
    """

    input_and_recurrent_weights: GateInitializer = init_like_authors_
    recurrent_norm_gain: float | None = None
    forget_bias: float = 0.0
    bias: GateInitializer | None = None
    learned_initial_state: bool = False


PAPER_INIT = CellInit()
MODERN_INIT = CellInit(init_variance_preserving_)
CELL_INITS = {"paper": PAPER_INIT, "modern": MODERN_INIT}
"""Initializations of cells by the names in experiments; "modern" is N(0, 1/fan-in).

Those of dense layers are :data:`lnlab.nn.linear.DENSE_INITS`.
"""


class NormOfProductsOrSum(Enum):
    """The scope of normalization: the two products of a cell separately, or their sum."""

    SEPARATE = "LN(W_h h) + LN(W_x x)"
    JOINT = "LN(W_h h + W_x x)"


class CarriedCellState(Enum):
    """The c that an LSTM passes to its next step."""

    RAW = "c: eq. 21 and 22, LN only in h"
    NORMALIZED = "LN(c): tf.contrib and the TorchScript cell of pytorch/benchmarks/fastrnns"


class BiasPlacement(IntEnum):
    """The places where eq. 20 adds ``b``; torch's True and False are ONCE and NONE."""

    NONE = 0
    ONCE = 1
    TWICE = 2
    """As in the authors' Theano code: also inside LN(W_x x + b), against scale invariance."""
    INSIDE = 3
    """As in labml_nn: inside the LN alone, which removes its mean and its scale again."""


class UpdateGateConvention(Enum):
    """The effect of an open update gate; the two differ by the sign of z."""

    WRITES = "(1 - z) h + z ĥ: eq. 28"
    KEEPS = "z h + (1 - z) ĥ: the authors' code and torch"


class Cell(nn.Module, ABC):
    """One time step. Subclasses define :meth:`forward` and the conversion from and to torch.

    ``W_x`` (G H, D) and ``W_h`` (G H, H) hold the weights of the G gates in the order of the
    paper's equation; torch's have the same shapes in another order of gates.
    """

    gates: int  # G
    states = 1  # the number of tensors in a state

    def __init__(self, input_size: int, hidden_size: int, initial: CellInit) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.initial = input_size, hidden_size, initial
        self.W_x = nn.Parameter(torch.empty(self.gates * hidden_size, input_size))
        self.W_h = nn.Parameter(torch.empty(self.gates * hidden_size, hidden_size))
        learned = self.states if initial.learned_initial_state else 0
        self.first = nn.ParameterList([torch.zeros(hidden_size) for _ in range(learned)])

    @abstractmethod
    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        """Return the state after input ``x`` (B, D) at step ``t`` of the sequence."""

    @abstractmethod
    def parameters_from_torch(
        self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor
    ) -> dict[str, Tensor]:
        """Return the parameters of torch's layer under the names and in the order of this cell.

        W_x (G H, D), W_h (G H, H), b_x and b_h (G H,) have the gates in torch's order.
        """

    @abstractmethod
    def parameters_to_torch(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return W_x (G H, D), W_h (G H, H), b_x and b_h (G H,) in torch's order of gates."""

    def initial_state(self, x: Tensor) -> State:
        """Return the state before the first input of ``x`` (..., B, D): zeros, or learned."""
        shape = x.shape[-2], self.hidden_size
        if len(self.first):
            return tuple(s.expand(shape) for s in self.first)
        zeros = torch.zeros(shape, device=x.device, dtype=self.W_h.dtype)
        return (zeros,) * self.states

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize weights and biases by ``initial``; learned states are 0."""
        for W in (self.W_x, self.W_h):
            for gate in W.split(self.hidden_size):
                self.initial.input_and_recurrent_weights(gate)
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("b"):
                for gate in parameter.split(self.hidden_size):
                    (self.initial.bias or nn.init.zeros_)(gate)
        for s in self.first:
            s.zero_()

    def set_recurrent_norm_gain(self, *norms: Normalizer) -> None:
        """Set the gain g (H,) of the normalizers of ``W_h h`` to the initial recurrent gain."""
        gain = self.initial.recurrent_norm_gain
        if gain is None:
            return
        for norm in norms:
            g = getattr(norm, "g", None)
            if g is None:
                name = type(norm).__name__
                raise ValueError(f"recurrent_norm_gain is {gain}, but {name} has no gain g.")
            nn.init.constant_(g, gain)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class TwoProductCell(Cell):
    """A cell that normalizes W_h h and W_x x, each (B, G H), apart or as a sum."""

    torch_gate_order: tuple[int, ...]  # the gates in torch's order; its own inverse

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        norm_layer: NormLayer,
        norm_scope: NormOfProductsOrSum,
        bias: BiasPlacement | bool,
        initial: CellInit,
    ) -> None:
        super().__init__(input_size, hidden_size, initial)
        size = self.gates * hidden_size
        self.norm_scope = NormOfProductsOrSum(norm_scope)
        self.bias = BiasPlacement(bias)
        self.norm_h = make_norm(norm_layer, size)
        self.norm_x = (
            make_norm(norm_layer, size) if norm_scope is NormOfProductsOrSum.SEPARATE else None
        )
        self.b = nn.Parameter(torch.zeros(size)) if self.bias else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.norm_x is not None:
            self.norm_h.initialize_from_weights(self.W_h)
            self.norm_x.initialize_from_weights(self.W_x)
            self.set_recurrent_norm_gain(self.norm_h)
        elif self.initial.recurrent_norm_gain is None:
            self.norm_h.initialize_from_weights(torch.cat([self.W_h, self.W_x], dim=1))
        else:
            raise ValueError(
                "recurrent_norm_gain is the gain of LN(W_h h): give norm_scope=SEPARATE."
            )

    def normalized_pre_activations(self, x: Tensor, h: Tensor, t: int | None) -> Tensor:
        """Return LN(W_h h) + LN(W_x x) + b (B, G H), by ``norm_scope`` and ``bias``."""
        # All gates stand in one vector a of G H units, with one mu and one sigma unless
        # ``norm_layer`` cuts them into groups. Added after LN, b is free of its scale.
        inside = self.b if self.bias in (BiasPlacement.TWICE, BiasPlacement.INSIDE) else None
        outside = self.b if self.bias in (BiasPlacement.ONCE, BiasPlacement.TWICE) else None
        if self.norm_x is None:
            # one product of [h, x], so that rules that read weights see whole rows
            W = torch.cat([self.W_h, self.W_x], dim=1)
            a = F.linear(torch.cat([h, x], dim=1), self.norm_h.effective_weight(W), inside)
            a = self.norm_h(a, W, t)
        else:
            a_h = F.linear(h, self.norm_h.effective_weight(self.W_h))
            a_x = F.linear(x, self.norm_x.effective_weight(self.W_x), inside)
            a = self.norm_h(a_h, self.W_h, t) + self.norm_x(a_x, self.W_x, t)
        return a if outside is None else a + outside

    def _reorder_gates(self, rows: Tensor) -> Tensor:
        """Turn the paper's order of gates (G H, ...) into torch's, or the other way round."""
        gates = rows.chunk(self.gates)
        return torch.cat([gates[i] for i in self.torch_gate_order])

    def parameters_from_torch(
        self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor
    ) -> dict[str, Tensor]:
        b = "norm_h.b" if self.b is None and has_bias(self.norm_h) else "b"
        named = {"W_x": W_x, "W_h": W_h, b: b_x + b_h}
        return {name: self._reorder_gates(rows) for name, rows in named.items()}

    def parameters_to_torch(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        W_x, W_h = self._reorder_gates(self.W_x), self._reorder_gates(self.W_h)
        if self.b is None:
            return W_x, W_h, None, None
        return W_x, W_h, self._reorder_gates(self.b), torch.zeros_like(self.b)


def has_bias(norm: Normalizer) -> bool:
    """Return True if a normalizer has a bias ``b``."""
    return isinstance(getattr(norm, "b", None), Tensor)


NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu}


class RNNCell(TwoProductCell):
    r"""A simple recurrent cell: Ba et al. (2016), eq. 4.

    .. math:: h_t = f\left[\frac{g}{\sigma_t} \odot (a_t - \mu_t) + b\right],
              \quad a_t = W_h h_{t-1} + W_x x_t

    Arguments are those of :class:`lnlab.nn.RNN`. The nonlinearity f is open in eq. 4. The b is
    that of the norm if it has one.

    Examples:
        >>> cell = lnlab.nn.RNNCell(8, 16)
        >>> x = torch.randn(4, 8)
        >>> state = cell(x, cell.initial_state(x))
    """

    gates, torch_gate_order = 1, (0,)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        norm_layer: NormLayer = LayerNorm,
        *,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
        norm_scope: NormOfProductsOrSum = NormOfProductsOrSum.JOINT,
        bias: BiasPlacement | bool = BiasPlacement.ONCE,
        initial: CellInit = PAPER_INIT,
    ) -> None:
        super().__init__(input_size, hidden_size, norm_layer, norm_scope, bias, initial)
        if self.bias is BiasPlacement.ONCE and has_bias(self.norm_h):  # eq. 4 has one b
            self.b, self.bias = None, BiasPlacement.NONE
        f = NONLINEARITIES.get(nonlinearity) if isinstance(nonlinearity, str) else nonlinearity
        if f is None:
            raise ValueError(f"nonlinearity is {nonlinearity!r}: choose tanh or relu.")
        self.f = f
        self.reset_parameters()

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        return (self.f(self.normalized_pre_activations(x, state[0], t)),)


class LSTMCell(TwoProductCell):
    r"""Long short-term memory: Ba et al. (2016), eq. 20-22.

    .. math::
        (f, i, o, g) &= \mathrm{LN}_1(W_h h_{t-1}) + \mathrm{LN}_2(W_x x_t) + b \\
        c_t &= \sigma(f) \odot c_{t-1} + \sigma(i) \odot \tanh(g) \\
        h_t &= \sigma(o) \odot \tanh(\mathrm{LN}_3(c_t))

    Each of the first two runs over the 4H pre-activations at once, and the c that goes to the
    next step is *not* normalized. ``gate_norm_layer=Identity`` is eq. 29-31, the form of DRAW.

    Arguments are those of :class:`lnlab.nn.LSTM`. ``norm_layer`` makes LN_3 and, unless
    ``gate_norm_layer`` does, LN_1 and LN_2; ``partial(GroupNorm, 4)`` is LN gate by gate.

    Examples:
        >>> cell = lnlab.nn.LSTMCell(8, 16)
        >>> x = torch.randn(4, 8)
        >>> state = cell(x, cell.initial_state(x))
    """

    identity_weight_for_norm_c: Tensor
    gates, states = 4, 2
    torch_gate_order = 1, 0, 3, 2  # (f, i, o, g) here, (i, f, g, o) there

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        norm_layer: NormLayer = LayerNorm,
        *,
        gate_norm_layer: NormLayer | None = None,
        norm_scope: NormOfProductsOrSum = NormOfProductsOrSum.SEPARATE,
        cell_state: CarriedCellState = CarriedCellState.RAW,
        bias: BiasPlacement | bool = BiasPlacement.ONCE,
        initial: CellInit = PAPER_INIT,
    ) -> None:
        gate_norm_layer = gate_norm_layer or norm_layer
        super().__init__(input_size, hidden_size, gate_norm_layer, norm_scope, bias, initial)
        self.norm_c = make_norm(norm_layer, hidden_size)
        self.cell_state = CarriedCellState(cell_state)
        # c is its own pre-activation: rules that read weights read c = I c
        self.register_buffer(
            "identity_weight_for_norm_c", torch.eye(hidden_size), persistent=False
        )
        if initial.forget_bias and self.own_or_norm_bias is None:
            raise ValueError(
                "there is no b to hold the forget_bias: give bias=BiasPlacement.ONCE."
            )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.norm_c.initialize_from_weights(self.identity_weight_for_norm_c)
        if self.own_or_norm_bias is not None and self.initial.forget_bias:
            self.own_or_norm_bias[: self.hidden_size] = self.initial.forget_bias

    @property
    def own_or_norm_bias(self) -> Tensor | None:
        """The bias (4H,) added after the normalization: the cell's own, or that of LN_1."""
        if self.bias in (BiasPlacement.ONCE, BiasPlacement.TWICE):
            return self.b
        return getattr(self.norm_h, "b", None)

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        h, c = state
        # f first, in the order of the paper (torch has i, f, g, o)
        f, i, o, g = self.normalized_pre_activations(x, h, t).chunk(4, dim=-1)  # each (B, H)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        # eq. 22: LN in h alone. With CarriedCellState.NORMALIZED c is rescaled to the size of
        # LN_3's gain at every step, and is no longer a sum over time.
        normalized = self.norm_c(c, self.identity_weight_for_norm_c, t)
        h = o.sigmoid() * normalized.tanh()
        return h, c if self.cell_state is CarriedCellState.RAW else normalized


def _per_gate_norm_settings(eps: float) -> dict[str, Any]:
    """Return the settings of cells that normalize the product with [x, h] gate by gate."""
    gates, c = partial(GroupNorm, 4, eps=eps), partial(LayerNorm, eps=eps)
    return {"norm_layer": c, "gate_norm_layer": gates, "norm_scope": NormOfProductsOrSum.JOINT}


OPEN_FORGET_GATES = replace(PAPER_INIT, forget_bias=1.0)

PUBLISHED_LSTMS: dict[str, Callable[..., LSTMCell]] = {
    "Ba et al. (2016), eq. 20-22": LSTMCell,
    "ryankiros/layer-norm, Theano": partial(LSTMCell, bias=BiasPlacement.TWICE),
    "ryankiros/layer-norm, Torch (DRAW)": partial(
        LSTMCell, norm_layer=partial(LayerNorm, root=outside_root), gate_norm_layer=Identity
    ),
    "tf.contrib LayerNormBasicLSTMCell": partial(
        LSTMCell,
        cell_state=CarriedCellState.NORMALIZED,
        bias=BiasPlacement.NONE,
        **_per_gate_norm_settings(1e-12),
        initial=OPEN_FORGET_GATES,
    ),
    "hardmaru/supercell": partial(
        LSTMCell,
        bias=BiasPlacement.NONE,
        **_per_gate_norm_settings(1e-3),
        initial=OPEN_FORGET_GATES,
    ),
    "pytorch fastrnns LayerNormLSTMCell": partial(
        LSTMCell, cell_state=CarriedCellState.NORMALIZED, bias=BiasPlacement.NONE
    ),
    "tensorflow-addons LayerNormLSTMCell": partial(
        LSTMCell,
        norm_layer=partial(LayerNorm, eps=1e-3),
        cell_state=CarriedCellState.NORMALIZED,
        initial=OPEN_FORGET_GATES,
    ),
    "lmnt-com/haste": partial(
        LSTMCell, gate_norm_layer=partial(LayerNorm, bias=False), initial=OPEN_FORGET_GATES
    ),
    "labml_nn": partial(
        LSTMCell,
        bias=BiasPlacement.INSIDE,
        **_per_gate_norm_settings(1e-5),
        initial=replace(PAPER_INIT, bias=init_like_torch_),
    ),
}
"""Nine published LN-LSTMs, called with (input_size, hidden_size).

They are eight functions: haste's is the paper's, initialized with open forget gates. Biases
are initialized as in each code, weights as in the paper (``PAPER_INIT``) for all.
"""


class GRUCell(Cell):
    r"""A gated recurrent unit: Ba et al. (2016), eq. 26-28.

    .. math::
        (z, r) &= \mathrm{LN}_1(W_h h_{t-1}) + \mathrm{LN}_2(W_x x_t) \\
        \hat h_t &= \tanh(\mathrm{LN}_3(W x_t) + \sigma(r) \odot \mathrm{LN}_4(U h_{t-1})) \\
        h_t &= (1 - \sigma(z)) \odot h_{t-1} + \sigma(z) \odot \hat h_t

    ``W_x`` holds W_x above W, ``W_h`` holds W_h above U: rows z, r, candidate. Eq. 23-24 have
    no bias; a cell whose normalizers have none gets ``b_x`` (3H) and, inside the reset,
    ``b_h`` (H), so that ``norm_layer=Identity`` is torch's unit too.

    Arguments are those of :class:`lnlab.nn.GRU`.

    Examples:
        >>> cell = lnlab.nn.GRUCell(8, 16)
        >>> x = torch.randn(4, 8)
        >>> state = cell(x, cell.initial_state(x))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        norm_layer: NormLayer = LayerNorm,
        *,
        update_gate: UpdateGateConvention = UpdateGateConvention.WRITES,
        bias: bool = True,
        initial: CellInit = PAPER_INIT,
    ) -> None:
        super().__init__(input_size, hidden_size, initial)
        H = hidden_size
        self.norm_h, self.norm_x = make_norm(norm_layer, 2 * H), make_norm(norm_layer, 2 * H)
        self.norm_W, self.norm_U = make_norm(norm_layer, H), make_norm(norm_layer, H)
        self.update_gate = UpdateGateConvention(update_gate)
        needs_bias = bias and not has_bias(self.norm_h)
        self.b_x = nn.Parameter(torch.zeros(3 * H)) if needs_bias else None
        self.b_h = nn.Parameter(torch.zeros(H)) if needs_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        (W_h, U), (W_x, W) = (rows.split(2 * self.hidden_size) for rows in (self.W_h, self.W_x))
        self.norm_h.initialize_from_weights(W_h)
        self.norm_U.initialize_from_weights(U)
        self.norm_x.initialize_from_weights(W_x)
        self.norm_W.initialize_from_weights(W)
        self.set_recurrent_norm_gain(self.norm_h, self.norm_U)

    def forward(self, x: Tensor, state: State, t: int | None = None) -> State:
        h, H = state[0], self.hidden_size
        (W_x, W), (W_h, U) = self.W_x.split(2 * H), self.W_h.split(2 * H)
        # z and r are normalized together, the candidate's two products each alone: r must scale
        # LN(U h), because LN(r U h) would remove a scale common to all units.
        b_zr, b_W = (None, None) if self.b_x is None else self.b_x.split(2 * H)
        a_x = F.linear(x, self.norm_x.effective_weight(W_x), b_zr)
        a_h = F.linear(h, self.norm_h.effective_weight(W_h))
        z, r = (self.norm_h(a_h, W_h, t) + self.norm_x(a_x, W_x, t)).sigmoid().chunk(2, -1)
        Wx = self.norm_W(F.linear(x, self.norm_W.effective_weight(W), b_W), W, t)
        Uh = self.norm_U(F.linear(h, self.norm_U.effective_weight(U), self.b_h), U, t)
        candidate = (Wx + r * Uh).tanh()
        # z keeps the state in torch and Cho et al. (2014), and writes the candidate in eq. 28
        if self.update_gate is UpdateGateConvention.KEEPS:
            z = 1 - z
        return ((1 - z) * h + z * candidate,)

    @property
    def _torch_update_gate_sign(self) -> int:
        """The sign of z in torch, whose z keeps: sigma(-z) = 1 - sigma(z)."""
        return 1 if self.update_gate is UpdateGateConvention.KEEPS else -1

    def parameters_from_torch(
        self, W_x: Tensor, W_h: Tensor, b_x: Tensor, b_h: Tensor
    ) -> dict[str, Tensor]:
        def convert_to_paper_gates(rows: Tensor) -> Tensor:  # of (3 H, ...)
            r, z, candidate = rows.chunk(3)
            return torch.cat([self._torch_update_gate_sign * z, r, candidate])

        W_x, W_h, b_x, b_h = (convert_to_paper_gates(rows) for rows in (W_x, W_h, b_x, b_h))
        (zr_x, W), (zr_h, U) = b_x.split(2 * self.hidden_size), b_h.split(2 * self.hidden_size)
        if has_bias(self.norm_x):
            b = {"norm_x.b": zr_x + zr_h, "norm_W.b": W, "norm_U.b": U}
        else:
            b = {"b_x": torch.cat([zr_x + zr_h, W]), "b_h": U}
        return {"W_x": W_x, "W_h": W_h, **b}

    def parameters_to_torch(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        def convert_to_torch_gates(rows: Tensor) -> Tensor:  # of (3 H, ...)
            z, r, candidate = rows.chunk(3)
            return torch.cat([r, self._torch_update_gate_sign * z, candidate])

        W_x, W_h = convert_to_torch_gates(self.W_x), convert_to_torch_gates(self.W_h)
        if self.b_x is None or self.b_h is None:
            return W_x, W_h, None, None
        # r scales U h and its bias, so this one stays separate; for z and r the two add up
        b_h = torch.cat([torch.zeros_like(self.b_h).repeat(2), self.b_h])
        return W_x, W_h, convert_to_torch_gates(self.b_x), b_h
