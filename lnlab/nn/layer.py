"""Rules that read one example: its units, and in a convolution its space.

None of them looks at another example, so training and evaluation are the same computation.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import AffineNormalizer, MuSigma, Root, inside_root


def moments(a: Tensor, axes: tuple[int, ...], correction: int = 0) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of ``a``, any shape, over ``axes``, kept with length 1.

    The variance is the sum of squares over n - ``correction``, but never over less than 1: that
    of a lone value is 0.
    """
    if not a.numel():  # no examples: var_mean would warn
        empty = a.sum(axes, keepdim=True)
        return empty, empty
    # prod of a list: torch.compile stops at a generator
    correction = min(correction, prod([a.shape[axis] for axis in axes]) - 1)
    # Two passes, first mu, then the mean of (a - mu)^2. The one-pass E[a^2] - E[a]^2 is the
    # difference of two numbers of size mu^2, each rounded: in float32 nothing is left of a
    # variance below 1e-7 mu^2.
    var, mu = torch.var_mean(a, dim=axes, correction=correction, keepdim=True)
    return mu, var


def get_single_axis_size(normalized_shape: int | Sequence[int]) -> int:
    """Return H of torch's ``normalized_shape``: H itself, or a sequence of H alone."""
    if isinstance(normalized_shape, int):
        return normalized_shape
    if len(normalized_shape) != 1:
        raise ValueError(
            f"normalized_shape is {tuple(normalized_shape)}: norms have one gain per unit "
            "here. Give the number of units, and space=1 or 2 for the axes behind them."
        )
    return int(normalized_shape[0])


class LayerNorm(AffineNormalizer):
    """Layer normalization: Ba et al. (2016), eq. 3, over the H units of one example.

    Reads (*, H), as torch.nn.LayerNorm(H) does. In a convolution statistics run over units and
    space together, as torch's GroupNorm of one group; ``per_position=True`` takes each position
    alone ("LN over channels").

    Args:
        normalized_shape, eps, elementwise_affine, bias: as in torch.nn.LayerNorm, of H units;
            eps may be 0. The gain is ``g``, the bias ``b``.
        root: eps inside or outside of the root.
        space: the number of spatial axes.
        correction: 0 divides by H, the paper's estimator; 1 by H-1, what many copies do. The
            variance of a lone value is 0 with either.
        per_position: whether each position in space is normalized alone.

    Examples:
        >>> norm = lnlab.nn.LayerNorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    stacks = in_torch = True

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        root: Root = inside_root,
        space: int = 0,
        correction: int = 0,
        per_position: bool = False,
    ) -> None:
        units, affine = get_single_axis_size(normalized_shape), elementwise_affine
        super().__init__(units, eps=eps, root=root, affine=affine, bias=bias, space=space)
        self.correction, self.per_position = correction, per_position

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        axes = (self.unit_axis,) if self.per_position else self.unit_and_spatial_axes
        mu, var = moments(a, axes, self.correction)
        return MuSigma(mu, self.sigma(var))

    def extra_repr(self) -> str:
        correction = f", correction={self.correction}" if self.correction else ""
        per_position = ", per_position" if self.per_position else ""
        return super().extra_repr() + correction + per_position


class RMSNorm(AffineNormalizer):
    """RMSNorm: Zhang & Sennrich (2019), eq. 4, :class:`LayerNorm` without re-centering.

    mu = 0, sigma = the root mean square of the units of one example (and of its space). The
    paper has no eps; torch puts one inside the root, the authors' code 1e-8 outside.

    Args:
        normalized_shape, elementwise_affine: as in torch.nn.RMSNorm, of H units.
        eps: added to the mean square. (torch's default is the machine epsilon instead.)
        bias: whether there is a ``b``. Their eq. 2 keeps the layer's; code commonly does not.
        root: eps inside or outside of the root.
        space: the number of spatial axes.

    Examples:
        >>> norm = lnlab.nn.RMSNorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    stacks = in_torch = True

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        *,
        bias: bool = False,
        root: Root = inside_root,
        space: int = 0,
    ) -> None:
        units, affine = get_single_axis_size(normalized_shape), elementwise_affine
        super().__init__(units, eps=eps, root=root, affine=affine, bias=bias, space=space)

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        # no mean is subtracted, so nothing can cancel
        mean_square = a.square().mean(self.unit_and_spatial_axes, keepdim=True)
        return MuSigma(a.new_zeros(()), self.sigma(mean_square))


class ScaleNorm(AffineNormalizer):
    """ScaleNorm: Nguyen & Salazar (2019), eq. 5, g a/||a|| with one scalar gain.

    mu = 0, sigma = max(||a||, eps); the gain starts at sqrt(H); no bias.

    Examples:
        >>> norm = lnlab.nn.ScaleNorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    def __init__(self, units: int, *, eps: float = 1e-5, space: int = 0) -> None:
        super().__init__(units, eps=eps, space=space, affine=False)
        # sqrt(H) / ||a|| is 1 over the root mean square of a: it starts as RMSNorm does
        self.g = nn.Parameter(torch.tensor(float(units) ** 0.5))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        norm = torch.linalg.vector_norm(a, dim=self.unit_and_spatial_axes, keepdim=True)
        return MuSigma(a.new_zeros(()), norm.clamp(min=self.eps))


class GroupNorm(AffineNormalizer):
    """Group normalization: Wu & He (2018), eq. 7, LayerNorm in each equal group of units.

    In a convolution a group's statistics run over its units and space together. As a factory:
    ``partial(GroupNorm, num_groups)``. ``space`` is the number of spatial axes; all else is as
    in torch.nn.GroupNorm.

    Examples:
        >>> norm = lnlab.nn.GroupNorm(4, 16)
        >>> h = norm(torch.randn(4, 16))
    """

    in_torch = True

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        space: int = 0,
    ) -> None:
        super().__init__(num_channels, eps=eps, affine=affine, space=space)
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"{num_channels} units cannot be split into {num_groups} equal groups."
            )
        self.num_groups = num_groups

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        group_size = self.units // self.num_groups
        grouped = a.unflatten(self.unit_axis, (self.num_groups, group_size))
        mu, var = moments(
            grouped, self.unit_and_spatial_axes
        )  # of one group: its units and space
        return MuSigma(self._repeat_for_units(mu), self._repeat_for_units(self.sigma(var)))

    def _repeat_for_units(self, statistic: Tensor) -> Tensor:
        """(*examples, groups, 1, *1) to (*examples, H, *1): each unit has its group's value."""
        of_groups = statistic.squeeze(self.unit_axis)  # (*examples, groups, *1)
        return of_groups.repeat_interleave(self.units // self.num_groups, dim=self.unit_axis)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, groups={self.num_groups}"


class InstanceNorm(AffineNormalizer):
    """Instance normalization: Ulyanov et al. (2016), eq. 3, each unit over its space alone.

    torch's InstanceNorm1d, 2d and 3d are ``space=1``, 2 and 3; without running statistics.

    Examples:
        >>> norm = lnlab.nn.InstanceNorm(3)
        >>> h = norm(torch.randn(4, 3, 8, 8))
    """

    in_torch = True

    def __init__(
        self, num_features: int, eps: float = 1e-5, *, affine: bool = False, space: int = 2
    ) -> None:
        super().__init__(num_features, eps=eps, affine=affine, space=space)
        if space < 1:
            raise ValueError("InstanceNorm normalizes over space: give space=1 or more.")

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        mu, var = moments(a, tuple(range(-self.space, 0)))
        return MuSigma(mu, self.sigma(var))
