r"""One equation, and what a normalizer must say to complete it.

Ba, Kiros & Hinton (2016, arXiv:1607.06450), section 5.1, write batch, weight and layer
normalization as one map of the pre-activations :math:`a = W x` of a layer, which they call
summed inputs (their eq. 5, before the nonlinearity f):

.. math:: \frac{g}{\sigma} \odot (a - \mu) + b

A normalizer is therefore a rule for :math:`(\mu, \sigma)`, and the map is written once.

Symbols follow the paper: ``a`` pre-activations, ``W`` weights (one row a unit), ``g`` gain,
``b`` bias, ``mu`` and ``sigma`` statistics; ``B`` examples, which the paper calls cases, ``D``
inputs, ``H`` units. Pre-activations have shape (*examples, H, *space): the ``space`` trailing
axes are those of a convolution, 0 of them in a dense layer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class MuSigma(NamedTuple):
    """mu and sigma of eq. 5, in any shape that broadcasts against ``a``."""

    mu: Tensor
    sigma: Tensor


Root = Callable[[Tensor, float], Tensor]
"""Computes sigma from a variance and eps: eps inside or outside of the root."""


def inside_root(var: Tensor, eps: float) -> Tensor:
    """Return sqrt(var + eps), var of any shape: torch, and the LN authors' Theano code."""
    return (var + eps).sqrt()


def outside_root(var: Tensor, eps: float) -> Tensor:
    """Return sqrt(var) + eps, var of any shape.

    The LN authors' Torch code has it, RMSNorm's and AdaNorm's. The gradient at var = 0 is taken
    to be 0, where that of a bare square root is infinite.
    """
    # The inner where keeps 0 out of the root altogether: autograd multiplies the infinite
    # slope there by the 0 of the outer one, which gives NaN.
    varies = var != 0  # NaN stays NaN
    return torch.where(varies, torch.where(varies, var, 1.0).sqrt(), 0.0) + eps


def at_least_float32(a: Tensor) -> Tensor:
    """Return ``a``, of any shape, in at least float32, in which statistics are computed."""
    return a if a.dtype in (torch.float32, torch.float64) else a.float()


class Normalizer(nn.Module, ABC):
    """The base of all normalizers, called as ``norm(a, W, t)``; the shape of ``a`` stays.

    Args:
        units: H, the number of units (channels, in a convolution).
        space: the number of spatial axes, which stand last in ``a``.
    """

    eps: float = 0.0  # 0 where the rule needs none
    # True if S models are computed at once, a (S, B, H, *space), when its parameters have a
    # leading axis S (lnlab.training.Stacked). A subclass must say so for itself.
    stacks = False
    in_torch = False  # True if torch.nn has the same function. A subclass says so for itself.

    def __init__(self, units: int, *, space: int = 0) -> None:
        super().__init__()
        if units < 1:
            raise ValueError(f"units is {units}: a layer has at least one unit.")
        self.units, self.space = units, space

    @abstractmethod
    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        """Normalize pre-activations ``a`` (*examples, H, *space) made by ``W`` at step ``t``.

        A normalizer that does not read ``W`` or ``t`` ignores it, so that all of them are
        interchangeable.
        """

    def effective_weight(self, W: Tensor) -> Tensor:
        """Return the weights (H, D) to multiply by: ``W`` unless the rule changes them."""
        return W

    def initialize_from_weights(self, W: Tensor) -> None:
        """Set first values that depend on the first weights W (H, D) of the layer."""

    def torch_state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers (H,) under torch's names."""
        raise ValueError(
            f"{type(self).__name__}({self.extra_repr()}) has no equal in torch.nn, whose norms "
            "keep eps in the root and divide by the number of values."
        )

    def extra_repr(self) -> str:
        return f"{self.units}" + (f", space={self.space}" if self.space else "")

    @property
    def unit_axis(self) -> int:
        """Axis of ``a`` that holds the units."""
        return -1 - self.space

    @property
    def unit_and_spatial_axes(self) -> tuple[int, ...]:
        """Axes of one example: its units and its space."""
        return tuple(range(-1 - self.space, 0))

    def broadcast_units(self, v: Tensor) -> Tensor:
        """Reshape (H,) to broadcast against ``a``, and (S, H) against (S, B, H, *space)."""
        v = v.unsqueeze(-2) if v.dim() > 1 else v
        return v.reshape(v.shape + (1,) * self.space)

    def check_input(self, a: Tensor) -> None:
        """Raise unless ``a`` is (*examples, H, *space) with H = units, of real numbers."""
        if a.dim() <= self.space or a.shape[-1 - self.space] != self.units:
            raise ValueError(
                f"{type(self).__name__}({self.extra_repr()}) got pre-activations of shape "
                f"{tuple(a.shape)}: axis {self.unit_axis} must hold its {self.units} units. "
                "Give space=2 for pictures (N, C, H, W), space=1 for (N, C, L)."
            )
        # an integer tensor would be normalized and rounded to 0 and 1
        if not a.is_floating_point():
            raise TypeError(f"pre-activations are {a.dtype}: convert them to floating point.")


class AffineNormalizer(Normalizer):
    """A normalizer of eq. 5: subclasses define :meth:`stats` and nothing else.

    Args:
        eps: the small number that keeps sigma away from 0; 0 is allowed.
        root: eps inside or outside of the root.
        affine: whether there is a gain ``g`` (ones) and a bias ``b`` (zeros), each (H,).
        bias: False leaves the gain alone.

    Examples:
        >>> class MedianNorm(lnlab.nn.AffineNormalizer):
        ...     def stats(self, a, W=None, t=None):
        ...         mu = a.median(-1, keepdim=True).values
        ...         return lnlab.nn.MuSigma(mu, (a - mu).abs().median(-1, keepdim=True).values)
        ...
        >>> h = MedianNorm(16)(torch.randn(4, 16))
    """

    g: Tensor | None
    b: Tensor | None

    def __init__(
        self,
        units: int,
        *,
        eps: float = 1e-5,
        root: Root = inside_root,
        affine: bool = True,
        bias: bool = True,
        space: int = 0,
    ) -> None:
        super().__init__(units, space=space)
        self.eps, self.root = eps, root
        self.g = nn.Parameter(torch.ones(units)) if affine else None
        self.b = nn.Parameter(torch.zeros(units)) if affine and bias else None

    @abstractmethod
    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        """Return (mu, sigma) of ``a`` (*examples, H, *space), at least in float32.

        Each broadcasts against ``a``: () or (H, *1) where all examples share it,
        (*examples, 1, *1) where all units do. In training mode this is part of the step: rules
        with running statistics update them.
        """

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        a_ = at_least_float32(a)
        mu, sigma = self.stats(a_, W, t)
        # The difference first: g/sigma * a - g/sigma * mu would cancel where |mu| >> sigma.
        return self.scale_and_shift(a_ - mu, sigma).to(a.dtype)

    def scale_and_shift(self, centred: Tensor, sigma: Tensor) -> Tensor:
        """Return g/sigma * (a - mu) + b, shaped as ``centred``; g and b if there are any."""
        # g/sigma first: it has one number per unit or example, while dividing a and then
        # multiplying it would make two more tensors of the shape of a
        g = 1 if self.g is None else self.broadcast_units(at_least_float32(self.g))
        h = g / sigma * centred
        return h if self.b is None else h + self.broadcast_units(self.b)

    def sigma(self, var: Tensor) -> Tensor:
        """Return the sigma of a variance, in its shape, with eps inside or outside the root."""
        return self.root(var, self.eps)

    def extra_repr(self) -> str:
        root = "" if self.root is inside_root else f", root={self.root.__name__}"
        return f"{super().extra_repr()}, eps={self.eps}{root}"

    def torch_state_dict(self) -> dict[str, Tensor]:
        same = vars(type(self)).get("in_torch", False) and self.root is inside_root
        if not same or getattr(self, "correction", 0):
            return super().torch_state_dict()
        named = {"weight": self.g, "bias": self.b, **dict(self.named_buffers(recurse=False))}
        return {name: value.detach() for name, value in named.items() if value is not None}

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        """Also read ``weight`` and ``bias`` of a torch norm."""
        for theirs, ours in (("weight", "g"), ("bias", "b")):
            if prefix + theirs in state_dict:
                state_dict[prefix + ours] = state_dict.pop(prefix + theirs)
        state_dict.pop(f"{prefix}num_batches_tracked", None)  # read by momentum=None alone
        super()._load_from_state_dict(state_dict, prefix, *args)


class Identity(Normalizer):
    """No normalization: mu = 0, sigma = 1, no gain, no bias; returns ``a`` itself.

    Examples:
        >>> layer = lnlab.nn.Linear(8, 16, lnlab.nn.Identity, bias=True)
        >>> h = layer(torch.randn(4, 8))
    """

    stacks = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        return a

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        return MuSigma(a.new_zeros(()), a.new_ones(()))

    def torch_state_dict(self) -> dict[str, Tensor]:
        return {}
