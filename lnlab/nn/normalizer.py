r"""One equation, and what a normalizer must say to complete it.

Ba, Kiros & Hinton (2016, arXiv:1607.06450), section 5.1, write batch, weight and layer
normalization as one map of the summed inputs :math:`a = W x` of a layer (their eq. 5,
before the nonlinearity f):

.. math:: \frac{g}{\sigma} \odot (a - \mu) + b

A normalizer is therefore a rule for :math:`(\mu, \sigma)`, and the map is written once.

Symbols follow the paper: ``a`` summed inputs, ``W`` weights (one row a unit), ``g`` gain,
``b`` bias, ``mu`` and ``sigma`` statistics; ``B`` cases, ``D`` inputs, ``H`` units.
Summed inputs have shape (*cases, H, *space): the ``space`` trailing axes are those of a
convolution, 0 of them in a dense layer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Stats(NamedTuple):
    """The two scalars of eq. 5, in any shape that broadcasts against ``a``."""

    mu: Tensor
    sigma: Tensor


Root = Callable[[Tensor, float], Tensor]
"""A rule that makes sigma of a variance and eps: inside or outside of the root."""


def inside_root(var: Tensor, eps: float) -> Tensor:
    """sqrt(var + eps), var of any shape: torch, and the LN authors' Theano code."""
    return (var + eps).sqrt()


def outside_root(var: Tensor, eps: float) -> Tensor:
    """sqrt(var) + eps, var of any shape: the LN authors' Torch code, RMSNorm's and AdaNorm's.

    The gradient at var = 0 is taken to be 0, where that of a bare square root is infinite.
    """
    # The inner where keeps 0 out of the root altogether: autograd multiplies the infinite
    # slope there by the 0 of the outer one, which gives NaN.
    spread = var != 0  # NaN stays NaN
    return torch.where(spread, torch.where(spread, var, 1.0).sqrt(), 0.0) + eps


def wide(a: Tensor) -> Tensor:
    """``a``, of any shape, in at least float32, in which statistics are taken."""
    return a if a.dtype in (torch.float32, torch.float64) else a.float()


def refuse_negative(eps: float) -> None:
    """Raise ValueError unless ``eps`` is 0 or more."""
    if not eps >= 0:
        raise ValueError(f"eps is {eps}: give 0 or a small positive number.")


class Normalizer(nn.Module, ABC):
    """The call that all normalizers share: ``norm(a, W, t)``, of the shape of ``a``.

    Args:
        units: H, the number of units (channels, in a convolution).
        space: number of trailing axes of ``a`` that belong to one unit of one case.

    Raises:
        ValueError: for less than one unit, or space below 0.
    """

    eps: float = 0.0
    """0 where the rule needs none."""

    stacks = False
    """True if S models are computed at once, a (S, B, H, *space), when its parameters have a
    leading axis S (:class:`lnlab.training.Stacked`). A subclass must say so for itself."""

    def __init__(self, units: int, *, space: int = 0) -> None:
        super().__init__()
        if units < 1:
            raise ValueError(f"units is {units}: a layer has at least one unit.")
        if space < 0:
            raise ValueError(f"space is {space}: give the number of spatial axes, 0 or more.")
        self.units, self.space = units, space

    @abstractmethod
    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        """Normalize summed inputs ``a`` (*cases, H, *space) made by ``W`` at time step ``t``.

        A normalizer that does not read ``W`` or ``t`` ignores it, so that all of them are
        interchangeable.
        """

    def weight(self, W: Tensor) -> Tensor:
        """The weights (H, D) that the layer multiplies by: ``W`` unless the rule is on W."""
        return W

    def start(self, W: Tensor) -> None:
        """The start, once, when the layer that owns W (H, D) has given it first values."""

    def extra_repr(self) -> str:
        return f"{self.units}" + (f", space={self.space}" if self.space else "")

    @property
    def unit_axis(self) -> int:
        """The axis of ``a`` along which the units stand."""
        return -1 - self.space

    @property
    def case_axes(self) -> tuple[int, ...]:
        """The axes of one case: its units and its space."""
        return tuple(range(-1 - self.space, 0))

    def along_units(self, v: Tensor) -> Tensor:
        """(H,) in the shape that broadcasts against ``a``; (S, H) against (S, B, H, *space)."""
        v = v.unsqueeze(-2) if v.dim() > 1 else v
        return v.reshape(v.shape + (1,) * self.space)

    def check(self, a: Tensor) -> None:
        """Raise unless ``a`` is (*cases, H, *space) with H = units, of real numbers.

        Raises:
            ValueError: another shape.
            TypeError: integers, which would be rounded to, or complex numbers.
        """
        if a.dim() <= self.space or a.shape[-1 - self.space] != self.units:
            raise ValueError(
                f"{type(self).__name__}({self.extra_repr()}) got summed inputs of shape "
                f"{tuple(a.shape)}: axis {self.unit_axis} must hold its {self.units} units."
            )
        # an integer tensor would be normalized and rounded to 0 and 1
        if not a.is_floating_point():
            raise TypeError(f"summed inputs are {a.dtype}: convert them to floating point.")


class AffineNormalizer(Normalizer):
    """Eq. 5. Subclasses give :meth:`stats` and change nothing else.

    Args:
        eps: the small number that keeps sigma away from 0; 0 is allowed.
        root: where eps stands.
        affine: whether there is a gain ``g`` (ones) and a bias ``b`` (zeros), each (H,).
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
        space: int = 0,
    ) -> None:
        super().__init__(units, space=space)
        refuse_negative(eps)
        self.eps, self.root = eps, root
        self.g = nn.Parameter(torch.ones(units)) if affine else None
        self.b = nn.Parameter(torch.zeros(units)) if affine else None

    @abstractmethod
    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        """(mu, sigma) for summed inputs ``a`` (*cases, H, *space), at least in float32.

        Each broadcasts against ``a``: () or (H, *1) where all cases share it, (*cases, 1, *1)
        where all units do. In training mode this is part of the step: rules that remember take
        ``a`` in.
        """

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        a_ = wide(a)
        mu, sigma = self.stats(a_, W, t)
        # The difference first: g/sigma * a - g/sigma * mu would cancel where |mu| >> sigma.
        return self.affine(a_ - mu, sigma).to(a.dtype)

    def affine(self, centred: Tensor, sigma: Tensor) -> Tensor:
        """g/sigma * (a - mu) + b (*cases, H, *space); affine=False: without g and b."""
        # eq. 5: one number g/sigma a unit or a case, where dividing a and then multiplying it
        # would make two more tensors of the shape of a
        scale = 1 / sigma if self.g is None else self.along_units(wide(self.g)) / sigma
        h = scale * centred
        return h if self.b is None else h + self.along_units(self.b)

    def sigma(self, var: Tensor) -> Tensor:
        """The sigma of a variance, in its shape, with eps in its place."""
        return self.root(var, self.eps)

    def extra_repr(self) -> str:
        place = "" if self.root is inside_root else f", root={self.root.__name__}"
        return f"{super().extra_repr()}, eps={self.eps}{place}"


class Identity(Normalizer):
    """No normalization: mu = 0, sigma = 1, no gain and no bias. ``a`` itself comes back."""

    stacks = True

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        return a

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        return Stats(a.new_zeros(()), a.new_ones(()))
