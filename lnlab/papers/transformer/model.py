r"""A decoder of characters whose normalizers stand where one says.

With f attention or the feed-forward net, a residual branch is

.. math:: x \leftarrow \mathrm{after}(x + \mathrm{behind}(f(\mathrm{before}(x)))),

and the places of the literature differ in which of the three there are: post-LN (Vaswani et
al., 2017) has the last, pre-LN (Xiong et al., 2020) the first, sandwich or peri-LN (Ding et
al., 2021; Kim et al., 2025) the first two.

Every part computes S stacked models at once: where a single one has weights (H, D) and cases
(N, D), they have (S, H, D) and (S, N, D).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.analysis.rotation import angle
from lnlab.nn import DyT, Identity, LayerNorm, Linear, Normalizer, NormLayer, RMSNorm

PLACES = {
    "pre": (True, False, False),
    "post": (False, False, True),
    "sandwich": (True, True, False),
}
"""True if there is a normalizer before f, behind it, and after the sum."""


class Placed(NamedTuple):
    """A normalizer and its place.

    Attributes:
        place: one of :data:`PLACES`.
        norm: makes the normalizer.
        of_heads: makes that of the queries and of the keys of each head.
    """

    place: str
    norm: NormLayer
    of_heads: NormLayer = Identity


ARMS = {
    "none": Placed("pre", Identity),
    "pre": Placed("pre", LayerNorm),
    "post": Placed("post", LayerNorm),
    "sandwich": Placed("sandwich", LayerNorm),
    "qk": Placed("pre", LayerNorm, of_heads=LayerNorm),
    "rms": Placed("pre", RMSNorm),
    "dyt": Placed("pre", DyT),
}
"""The arms: layer norm at four places, and others in the place of pre-LN. "qk" is that of
Dehghani et al. (2023), 2.1: pre-LN, and a layer norm of queries and of keys."""


class Damped(Normalizer):
    """A constant factor 1/sqrt(2 L), for the 2 L branches of a net that nothing normalizes.

    The stream then grows by a factor that does not depend on the depth; Radford et al. (2019),
    2.3, draw the last weights of each branch as much smaller instead.
    """

    stacks = True

    def __init__(self, units: int, layers: int) -> None:
        super().__init__(units)
        self.factor = (2 * layers) ** -0.5

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        return self.factor * a


class SelfAttention(nn.Module):
    r"""Causal attention of several heads of width d: softmax(Q K^T / sqrt(d)) V, then W_O.

    Args:
        D: the width, which ``heads`` divides.
        norm: makes the normalizer of the queries and of the keys of a head.
        fused: whether torch's own operator computes it.
    """

    stacks = True

    def __init__(self, D: int, heads: int, norm: NormLayer, *, fused: bool = True) -> None:
        super().__init__()
        if heads < 1 or D % heads:
            raise ValueError(f"heads is {heads}: it must divide the width, {D}.")
        self.W_Q, self.W_K, self.W_V, self.W_O = (Linear(D, D) for _ in range(4))
        self.norm_Q, self.norm_K = norm(D // heads), norm(D // heads)
        self.heads, self.attend = heads, fused_attention if fused else attention

    def forward(self, x: Tensor, T: int) -> Tensor:
        """x (*S, B T, D), cases of T characters, to the same shape."""
        Q, K = (
            self._of_heads(norm(self._rows(W(x))), T)
            for W, norm in ((self.W_Q, self.norm_Q), (self.W_K, self.norm_K))
        )
        V = self._of_heads(self._rows(self.W_V(x)), T)
        y = self.attend(Q, K, V).transpose(1, 2)
        return self.W_O(y.reshape(x.shape))

    def _rows(self, a: Tensor) -> Tensor:
        """(*S, N, D) as (*S, N heads, d): a row a head."""
        return a.unflatten(-1, (self.heads, -1)).flatten(-3, -2)

    def _of_heads(self, a: Tensor, T: int) -> Tensor:
        """(*S, B T heads, d) as (S B, heads, T, d)."""
        return a.reshape(-1, T, self.heads, a.shape[-1]).transpose(1, 2)


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, each (B, heads, T, d); nobody sees what comes behind him."""
    T, d = Q.shape[-2:]
    later = torch.ones(T, T, dtype=torch.bool, device=Q.device).triu(1)
    return (Q @ K.mT / d**0.5).masked_fill(later, -torch.inf).softmax(-1) @ V


def fused_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """:func:`attention` by torch's operator."""
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


class FeedForward(nn.Module):
    """W_2 max(0, W_1 x), with 4 D hidden units."""

    stacks = True

    def __init__(self, D: int) -> None:
        super().__init__()
        self.W_1, self.W_2 = Linear(D, 4 * D), Linear(4 * D, D)

    def forward(self, x: Tensor, T: int) -> Tensor:
        """x (*S, N, D) to the same shape."""
        return self.W_2(F.relu(self.W_1(x)))


class Residual(nn.Module):
    """A branch around f, and its normalizers before, behind and after."""

    stacks = True

    def __init__(self, f: nn.Module, before: nn.Module, behind: nn.Module, after: nn.Module):
        super().__init__()
        self.f, self.before, self.behind, self.after = f, before, behind, after

    def forward(self, x: Tensor, T: int) -> Tensor:
        """x (*S, B T, D), cases of T characters, to the same shape."""
        return self.after(x + self.behind(self.f(self.before(x), T)))


class Block(nn.Module):
    """One of the L layers: attention and feed-forward net, each in its branch."""

    stacks = True

    def __init__(self, D: int, heads: int, arm: Placed, layers: int, *, fused: bool) -> None:
        super().__init__()

        def branch(f: nn.Module) -> Residual:
            places = [arm.norm(D) if there else Identity(D) for there in PLACES[arm.place]]
            if arm.norm is Identity:
                places[1] = Damped(D, layers)
            return Residual(f, *places)

        self.attention = branch(SelfAttention(D, heads, arm.of_heads, fused=fused))
        self.feed_forward = branch(FeedForward(D))

    def forward(self, x: Tensor, T: int) -> Tensor:
        """x (*S, B T, D), cases of T characters, to the same shape."""
        return self.feed_forward(self.attention(x, T), T)


class Embedding(nn.Module):
    """A vector for each of V characters, E, plus one for each place in the context, P."""

    stacks = True

    def __init__(self, V: int, context: int, D: int) -> None:
        super().__init__()
        self.E = nn.Parameter(torch.empty(V, D))
        self.P = nn.Parameter(torch.empty(context, D))

    def forward(self, x: Tensor) -> Tensor:
        """Codes (*S, B, T) to (*S, B T, D)."""
        T, (V, D) = x.shape[-1], self.E.shape[-2:]
        if self.P.shape[-2] < T:
            raise ValueError(
                f"a case has {T} characters, the context is {self.P.shape[-2]}: cut it."
            )
        if self.E.dim() > 2:  # of S models, one behind the other
            x = x + V * torch.arange(len(self.E), device=x.device).view(-1, 1, 1)
        places = self.P[..., :T, :].unsqueeze(-3)
        return (F.embedding(x, self.E.reshape(-1, D)) + places).flatten(-3, -2)


class Turned(nn.Module):
    """A memory of how far matrices turn from one step to the next, as a buffer of each.

    Filled by calls in training mode, as running statistics are. What it remembers is the
    running mean of the square of the angle, of which :meth:`angles` is the root.
    """

    stacks = True
    MOMENTUM = 0.02

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.names = [n for n, p in net.named_parameters() if n.rpartition(".")[2] == "W"]
        for name, W in self._weights(net).items():
            self.register_buffer(f"{_flat(name)}_before", W.detach().clone())
            self.register_buffer(f"{_flat(name)}_square", W.new_zeros(()))

    def _weights(self, net: nn.Module) -> dict[str, Tensor]:
        return {name: net.get_parameter(name) for name in self.names}

    @torch.no_grad()
    def forward(self, net: nn.Module) -> None:
        """Remember how far the matrices of ``net`` have turned since the last call."""
        for name, W in self._weights(net).items():
            before, square = (getattr(self, f"{_flat(name)}_{w}") for w in ("before", "square"))
            turn = angle(before.flatten(-2), W.flatten(-2)).square().to(square)
            setattr(self, f"{_flat(name)}_square", square.lerp(turn, self.MOMENTUM))
            before.copy_(W)

    def angles(self) -> dict[str, Tensor]:
        """The root mean square of the angle in radians by name, of each model (*S,)."""
        return {name: getattr(self, f"{_flat(name)}_square").sqrt() for name in self.names}


def _flat(name: str) -> str:
    return name.replace(".", "_")


class Transformer(nn.Module):
    """Characters in, logits of the next one out: codes (*S, B, T) to (*S, B, T, V).

    Args:
        V: the size of the vocabulary.
        context: the most characters of a case.
        layers: L, each of two branches.
        D: the width.
        heads: of attention; they divide D.
        arm: the normalizers. On top of pre and sandwich stands one more, below the logits.
        fused: whether torch's own operator computes attention.

    Raises:
        ValueError: if the heads do not divide the width.
    """

    stacks = True

    def __init__(
        self,
        V: int,
        context: int,
        layers: int,
        D: int,
        heads: int,
        arm: Placed,
        *,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(V, context, D)
        self.blocks = nn.ModuleList(
            Block(D, heads, arm, layers, fused=fused) for _ in range(layers)
        )
        self.top = Identity(D) if arm.place == "post" else arm.norm(D)
        self.readout = Linear(D, V)
        self.turned: Turned | None = None

    def draw(self, generator: Callable[[str], torch.Generator]) -> None:
        """Draw every matrix from N(0, 1/fan-in), and E and P from N(0, 1/2).

        So a character at its place starts as N(0, 1) in each unit, as Xiong et al. (2020),
        appendix B, assume.

        Args:
            generator: the random numbers for a parameter, by its name: parameters of the same
                name have the same weights in every net.
        """
        for name, p in self.named_parameters():
            if p.dim() > 1:
                variance = 0.5 if name.startswith("embedding") else 1 / p.shape[1]
                nn.init.normal_(p, 0, variance**0.5, generator=generator(name))

    def forward(self, x: Tensor) -> Tensor:
        if self.turned is not None and self.training:
            self.turned(self)
        T, h = x.shape[-1], self.embedding(x)
        for block in self.blocks:
            h = block(h, T)
        return self.readout(self.top(h)).unflatten(-2, x.shape[-2:])
