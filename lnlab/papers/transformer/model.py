r"""A decoder of characters with normalizers at any of the positions of the literature.

With f attention or the feed-forward network, a residual branch is

.. math:: x \leftarrow \mathrm{after}(\alpha x + \mathrm{behind}(f(\beta\,\mathrm{before}(x)))),

and papers differ in which of the three they have: post-LN (Vaswani et
al., 2017) has the last, pre-LN (Xiong et al., 2020) the first, sandwich or peri-LN (Ding et
al., 2021; Kim et al., 2025) the first two, Keel (Chen & Wei, 2026) the first and the last.
alpha and beta are 1, but for Keel, where alpha is the number of branches, and LayerNorm
scaling (Sun et al., 2025), where beta is 1/sqrt(l) in layer l.

Every module computes S stacked models at once: where a single one has weights (H, D) and inputs
(N, D), they have (S, H, D) and (S, N, D).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.rotation import row_angles
from lnlab.nn import Derf, DyT, Identity, LayerNorm, Linear, Normalizer, NormLayer, RMSNorm

PLACES = {
    "pre": (True, False, False),
    "post": (False, False, True),
    "sandwich": (True, True, False),
    "keel": (True, False, True),
}
"""True where there is a normalizer: before f, behind it, and after the sum."""


class NormLayersAndPlacement(NamedTuple):
    """A normalizer and its position."""

    placement: str  # one of :data:`PLACES`
    norm_layer: NormLayer  # makes the normalizer
    query_key_norm_layer: NormLayer = (
        Identity  # makes that of the queries and of the keys of each head
    )
    has_layernorm_scaling: bool = (
        False  # whether what goes into f in layer l is multiplied by 1/sqrt(l)
    )


ARMS = {
    "none": NormLayersAndPlacement("pre", Identity),
    "pre": NormLayersAndPlacement("pre", LayerNorm),
    "post": NormLayersAndPlacement("post", LayerNorm),
    "sandwich": NormLayersAndPlacement("sandwich", LayerNorm),
    "qk": NormLayersAndPlacement("pre", LayerNorm, query_key_norm_layer=LayerNorm),
    "rms": NormLayersAndPlacement("pre", RMSNorm),
    "dyt": NormLayersAndPlacement("pre", DyT),
    "derf": NormLayersAndPlacement("pre", Derf),
    "lns": NormLayersAndPlacement("pre", LayerNorm, has_layernorm_scaling=True),
    "keel": NormLayersAndPlacement("keel", LayerNorm),
}
"""The arms: layer norm at several positions, and other normalizers at that of pre-LN. "qk" is
Dehghani et al. (2023), 2.1: pre-LN, and layer norm of queries and keys; "lns" is LayerNorm
scaling."""


class DepthScaleWithoutNorm(Normalizer):
    """A constant factor 1/sqrt(2 L), for the 2 L branches of a network without normalizers.

    The stream then grows by a factor that does not depend on the depth. Radford et al. (2019),
    2.3, scale the initial last weights of each branch instead.
    """

    stacks = True

    def __init__(self, units: int, layers: int) -> None:
        super().__init__(units)
        self.factor = (2 * layers) ** -0.5

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        return self.factor * a


class SelfAttention(nn.Module):
    """Causal attention of several heads of width d: softmax(Q K^T / sqrt(d)) V, then W_O.

    ``norm`` makes the normalizers of the queries and of the keys of a head.
    """

    stacks = True

    def __init__(self, D: int, heads: int, norm: NormLayer, *, fused: bool = True) -> None:
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.W_O = (Linear(D, D) for _ in range(4))
        self.norm_Q, self.norm_K = norm(D // heads), norm(D // heads)
        self.heads, self.attend = heads, fused_causal_attention if fused else causal_attention

    def forward(self, x: Tensor, T: int) -> Tensor:
        """Map x (*S, B T, D), B examples of T characters, to the same shape."""
        Q, K = (
            self._move_heads_before_time(norm(self._split_rows_by_head(W(x))), T)
            for W, norm in ((self.W_Q, self.norm_Q), (self.W_K, self.norm_K))
        )
        V = self._move_heads_before_time(self._split_rows_by_head(self.W_V(x)), T)
        y = self.attend(Q, K, V).transpose(1, 2)
        return self.W_O(y.reshape(x.shape))

    def _split_rows_by_head(self, a: Tensor) -> Tensor:
        """Reshape (*S, N, D) to (*S, N heads, d): a row per head."""
        return a.unflatten(-1, (self.heads, -1)).flatten(-3, -2)

    def _move_heads_before_time(self, a: Tensor, T: int) -> Tensor:
        """Reshape (*S, B T heads, d) to (S B, heads, T, d)."""
        return a.reshape(-1, T, self.heads, a.shape[-1]).transpose(1, 2)


def causal_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V with a causal mask; each is (B, heads, T, d)."""
    T, d = Q.shape[-2:]
    later = torch.ones(T, T, dtype=torch.bool, device=Q.device).triu(1)
    return (Q @ K.mT / d**0.5).masked_fill(later, -torch.inf).softmax(-1) @ V


def fused_causal_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Return :func:`attention`, computed by torch's operator."""
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


class FeedForward(nn.Module):
    """The feed-forward network W_2 max(0, W_1 x), with 4 D hidden units."""

    stacks = True

    def __init__(self, D: int) -> None:
        super().__init__()
        self.W_1, self.W_2 = Linear(D, 4 * D), Linear(4 * D, D)

    def forward(self, x: Tensor, T: int) -> Tensor:
        """Map x (*S, N, D) to the same shape; T, which attention reads, is not used."""
        return self.W_2(F.relu(self.W_1(x)))


class Residual(nn.Module):
    """A residual branch: f, and normalizers before it, behind it and after the sum.

    Args:
        f: Attention or the feed-forward network.
        before, behind, after: The normalizers.
        alpha: Multiplies x.
        beta: Multiplies what goes into f.
    """

    stacks = True

    def __init__(
        self,
        f: nn.Module,
        before: nn.Module,
        behind: nn.Module,
        after: nn.Module,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
    ) -> None:
        super().__init__()
        self.f, self.before, self.behind, self.after = f, before, behind, after
        self.alpha, self.beta = alpha, beta

    def forward(self, x: Tensor, T: int) -> Tensor:
        """Map x (*S, B T, D), B examples of T characters, to the same shape."""
        branch = self.behind(self.f(self.beta * self.before(x), T))
        return self.after(self.alpha * x + branch)


class Block(nn.Module):
    """Layer number l of L: attention and the feed-forward network, each in a branch."""

    stacks = True

    def __init__(
        self,
        D: int,
        heads: int,
        arm: NormLayersAndPlacement,
        l: int,
        layers: int,
        *,
        fused: bool,
    ) -> None:
        super().__init__()
        alpha = 2.0 * layers if arm.placement == "keel" else 1.0
        beta = l**-0.5 if arm.has_layernorm_scaling else 1.0

        def make_residual_branch(f: nn.Module) -> Residual:
            norms = [
                arm.norm_layer(D) if present else Identity(D)
                for present in PLACES[arm.placement]
            ]
            if arm.norm_layer is Identity:
                norms[1] = DepthScaleWithoutNorm(D, layers)
            return Residual(f, *norms, alpha=alpha, beta=beta)

        self.attention = make_residual_branch(
            SelfAttention(D, heads, arm.query_key_norm_layer, fused=fused)
        )
        self.feed_forward = make_residual_branch(FeedForward(D))

    def forward(self, x: Tensor, T: int) -> Tensor:
        """Map x (*S, B T, D), B examples of T characters, to the same shape."""
        return self.feed_forward(self.attention(x, T), T)


class Embedding(nn.Module):
    """Vectors of V characters, E, plus vectors of the positions in the context, P."""

    stacks = True

    def __init__(self, V: int, context: int, D: int) -> None:
        super().__init__()
        self.E = nn.Parameter(torch.empty(V, D))
        self.P = nn.Parameter(torch.empty(context, D))

    def forward(self, x: Tensor) -> Tensor:
        """Map characters (*S, B, T) to (*S, B T, D)."""
        T, (V, D) = x.shape[-1], self.E.shape[-2:]
        if self.E.dim() > 2:  # the tables of S models, one after the other
            x = x + V * torch.arange(len(self.E), device=x.device).view(-1, 1, 1)
        positions = self.P[..., :T, :].unsqueeze(-3)
        return (F.embedding(x, self.E.reshape(-1, D)) + positions).flatten(-3, -2)


class WeightRotationTracker(nn.Module):
    """The running mean of the squared angle by which each matrix rotates per step.

    Calls in training mode update it, as they update running statistics; it is in buffers.
    """

    stacks = True
    MOMENTUM = 0.02

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.names = [n for n, p in net.named_parameters() if n.rpartition(".")[2] == "W"]
        for name, W in self._tracked_weights(net).items():
            self.register_buffer(f"{_buffer_prefix(name)}_before", W.detach().clone())
            self.register_buffer(f"{_buffer_prefix(name)}_square", W.new_zeros(()))

    def _tracked_weights(self, net: nn.Module) -> dict[str, Tensor]:
        return {name: net.get_parameter(name) for name in self.names}

    @torch.no_grad()
    def forward(self, net: nn.Module) -> None:
        """Add how far the matrices of ``net`` have rotated since the last call."""
        for name, W in self._tracked_weights(net).items():
            before = getattr(self, f"{_buffer_prefix(name)}_before")
            square = getattr(self, f"{_buffer_prefix(name)}_square")
            new_square = row_angles(before.flatten(-2), W.flatten(-2)).square().to(square)
            setattr(
                self, f"{_buffer_prefix(name)}_square", square.lerp(new_square, self.MOMENTUM)
            )
            before.copy_(W)

    def running_rms_rotation_angles(self) -> dict[str, Tensor]:
        """Return the root mean square of the angle in radians by name, each (*S,)."""
        return {
            name: getattr(self, f"{_buffer_prefix(name)}_square").sqrt() for name in self.names
        }


def _buffer_prefix(parameter_name: str) -> str:
    return parameter_name.replace(".", "_")


class TransformerLanguageModel(nn.Module):
    """A model from characters (*S, B, T) to the logits of the next ones (*S, B, T, V).

    Args:
        V, context, layers, D, heads: The size of the vocabulary, the largest number of
            characters, L of two branches each, the width, and the heads, which divide it.
        arm: The normalizers. Where none is after the sum there is one more, below the logits.
        fused: True: torch's operator computes attention.
    """

    stacks = True

    def __init__(
        self,
        V: int,
        context: int,
        layers: int,
        D: int,
        heads: int,
        arm: NormLayersAndPlacement,
        *,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(V, context, D)
        self.blocks: Any = nn.ModuleList(  # of Block
            Block(D, heads, arm, l, layers, fused=fused) for l in range(1, layers + 1)
        )
        self.top = Identity(D) if PLACES[arm.placement][2] else arm.norm_layer(D)
        self.readout = Linear(D, V)
        self.turned: WeightRotationTracker | None = None

    def initialize_(
        self, generator: Callable[[str], torch.Generator], *, scaled_branches: bool = False
    ) -> None:
        """Initialize matrices from N(0, 1/fan-in), and E and P from N(0, 1/2).

        The stream then starts as N(0, 1) in each unit, as Xiong et al. (2020), appendix B,
        assume. ``generator`` is asked by the name of a parameter, so that parameters of the
        same name start alike in every network. If ``scaled_branches``, the last matrix of each
        of the 2 L branches is divided by sqrt(2 L), as in GPT-2 (Radford et al., 2019, 2.3).
        """
        for name, p in self.named_parameters():
            if p.dim() > 1:
                variance = 0.5 if name.startswith("embedding") else 1 / p.shape[1]
                if scaled_branches and name.endswith(("W_O.W", "W_2.W")):
                    variance /= 2 * len(self.blocks)
                nn.init.normal_(p, 0, variance**0.5, generator=generator(name))

    def forward(self, x: Tensor) -> Tensor:
        if self.turned is not None and self.training:
            self.turned(self)
        T, h = x.shape[-1], self.embedding(x)
        for block in self.blocks:
            h = block(h, T)
        return self.readout(self.top(h)).unflatten(-2, x.shape[-2:])
