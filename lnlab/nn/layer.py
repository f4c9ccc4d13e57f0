"""Rules that read one case: its units, and in a convolution its space.

None of them looks at another case, so training and evaluation are the same computation.
"""

from math import prod

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import AffineNormalizer, Root, Stats, inside_root


def moments(a: Tensor, axes: tuple[int, ...], correction: int = 0) -> tuple[Tensor, Tensor]:
    """The mean and the variance over ``axes``, which stay with length 1.

    Args:
        a: any shape.
        axes: what is averaged over, n values together.
        correction: the variance is the sum of squares over n - correction, but never over
            less than 1: that of a lone value is 0.
    """
    if not a.numel():  # no cases: var_mean would warn
        none = a.sum(axes, keepdim=True)
        return none, none
    # prod of a list: torch.compile stops at a generator
    correction = min(correction, prod([a.shape[axis] for axis in axes]) - 1)
    # Two passes, first mu, then the mean of (a - mu)^2. The one-pass E[a^2] - E[a]^2 is the
    # difference of two numbers of size mu^2, each rounded: in float32 nothing is left of a
    # variance below 1e-7 mu^2.
    var, mu = torch.var_mean(a, dim=axes, correction=correction, keepdim=True)
    return mu, var


class LayerNorm(AffineNormalizer):
    """Ba et al. (2016), eq. 3: statistics over the H units of one case, variance 1/H.

    In a convolution they run over units and space together, as torch's GroupNorm of one
    group; ``per_position=True`` takes each position alone ("LN over channels").

    Args:
        correction: 0 divides by H, the paper's estimator; 1 by H-1, what many copies do. The
            variance of a lone value is 0 with either.
    """

    stacks = True

    def __init__(
        self,
        units: int,
        *,
        eps: float = 1e-5,
        root: Root = inside_root,
        affine: bool = True,
        space: int = 0,
        correction: int = 0,
        per_position: bool = False,
    ) -> None:
        super().__init__(units, eps=eps, root=root, affine=affine, space=space)
        self.correction, self.per_position = correction, per_position

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        axes = (self.unit_axis,) if self.per_position else self.case_axes
        mu, var = moments(a, axes, self.correction)
        return Stats(mu, self.sigma(var))

    def extra_repr(self) -> str:
        correction = f", correction={self.correction}" if self.correction else ""
        per_position = ", per_position" if self.per_position else ""
        return super().extra_repr() + correction + per_position


class RMSNorm(AffineNormalizer):
    """Zhang & Sennrich (2019), eq. 4: :class:`LayerNorm` without re-centering.

    mu = 0, sigma = the root mean square of the units of one case (and of its space). The
    paper has no eps; torch puts one inside the root, the authors' code 1e-8 outside.

    Args:
        bias: whether there is a ``b``. Their eq. 2 keeps the layer's; code commonly does not.
    """

    stacks = True

    def __init__(
        self,
        units: int,
        *,
        eps: float = 1e-5,
        root: Root = inside_root,
        bias: bool = False,
        space: int = 0,
    ) -> None:
        super().__init__(units, eps=eps, root=root, space=space)
        if not bias:
            self.b = None

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        # no mean is taken out, so nothing can cancel
        mean_square = a.square().mean(self.case_axes, keepdim=True)
        return Stats(a.new_zeros(()), self.sigma(mean_square))


class ScaleNorm(AffineNormalizer):
    """Nguyen & Salazar (2019), eq. 5: g a/||a|| with one scalar gain, sqrt(H) at the start.

    mu = 0, sigma = max(||a||, eps); no bias.
    """

    def __init__(self, units: int, *, eps: float = 1e-5, space: int = 0) -> None:
        super().__init__(units, eps=eps, space=space, affine=False)
        # sqrt(H) / ||a|| is 1 over the root mean square of a: it starts as RMSNorm does
        self.g = nn.Parameter(torch.tensor(float(units) ** 0.5))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        norm = torch.linalg.vector_norm(a, dim=self.case_axes, keepdim=True)
        return Stats(a.new_zeros(()), norm.clamp(min=self.eps))


class GroupNorm(AffineNormalizer):
    """Wu & He (2018), eq. 7: LayerNorm inside each of ``groups`` equal groups of units.

    In a convolution a group's statistics run over its units and space together.

    Raises:
        ValueError: where the units cannot be cut into so many equal groups.
    """

    def __init__(
        self,
        units: int,
        groups: int,
        *,
        eps: float = 1e-5,
        affine: bool = True,
        space: int = 0,
    ) -> None:
        super().__init__(units, eps=eps, affine=affine, space=space)
        if groups < 1 or units % groups:
            raise ValueError(f"{units} units cannot be split into {groups} equal groups.")
        self.groups = groups

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        members = self.units // self.groups
        grouped = a.unflatten(self.unit_axis, (self.groups, members))
        mu, var = moments(grouped, self.case_axes)  # of one group: its members and space
        return Stats(self._to_units(mu), self._to_units(self.sigma(var)))

    def _to_units(self, statistic: Tensor) -> Tensor:
        """(*cases, groups, 1, *1) to (*cases, H, *1): each unit has its group's value."""
        of_groups = statistic.squeeze(self.unit_axis)  # (*cases, groups, *1)
        return of_groups.repeat_interleave(self.units // self.groups, dim=self.unit_axis)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, groups={self.groups}"


class InstanceNorm(AffineNormalizer):
    """Ulyanov et al. (2016), eq. 3: each unit of each case over its space alone.

    Needs at least one spatial axis; no gain and no bias unless asked for, as there.

    Raises:
        ValueError: for space below 1.
    """

    def __init__(
        self, units: int, *, eps: float = 1e-5, affine: bool = False, space: int = 2
    ) -> None:
        super().__init__(units, eps=eps, affine=affine, space=space)
        if space < 1:
            raise ValueError("InstanceNorm normalizes over space: give space=1 or more.")

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        mu, var = moments(a, tuple(range(-self.space, 0)))
        return Stats(mu, self.sigma(var))
