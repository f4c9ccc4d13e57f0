"""Rules that read the other examples of the batch.

A statistic over examples comes from the batch while training and from running statistics
afterwards. Which of the two is used is explicit here: ``norm.mode`` is
``StatisticsMode.BATCH``, ``StatisticsMode.RUNNING``, or None, which follows ``norm.training``
as torch does. Running statistics change in training mode only, and only where the batch is
used.
"""

from abc import abstractmethod
from enum import Enum

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import AffineNormalizer, MuSigma, Root, at_least_float32, inside_root


class StatisticsMode(Enum):
    """The source of a statistic over examples."""

    BATCH = "the batch"
    RUNNING = "the running statistics"


def batch_moments(a: Tensor, unit_axis: int) -> tuple[Tensor, Tensor, int]:
    """Return mean and biased variance (H,) over all axes of ``a`` but ``unit_axis``, and m."""
    axes = [i for i in range(a.dim()) if i != unit_axis % a.dim()]
    m = a.numel() // a.shape[unit_axis]
    if not axes or m == 0:
        raise ValueError(f"a batch of shape {tuple(a.shape)} has no examples to average over.")
    var, mu = torch.var_mean(a, dim=axes, correction=0)
    return mu, var, m


def update_running_average_(running: Tensor, new: Tensor, momentum: float) -> None:
    """Update ``running`` (H,) to (1 - momentum) running + momentum new (H,), in place.

    After k batches the newest weighs momentum, the one before it momentum (1 - momentum), and
    the start value still (1 - momentum)^k: 0.35 after ten batches at 0.1.
    """
    # in place, as buffers are shared with fused models and saved by name
    running.mul_(1 - momentum).add_(new, alpha=momentum)


class BatchNormalizer(AffineNormalizer):
    """A normalizer whose statistics run over examples (and space), one pair for each unit.

    Args:
        momentum: weight of the newest batch in the running statistics.
        correction: 0 normalizes by the biased variance 1/m, as torch; 1 by the unbiased,
            as Ba et al. (2016), 6.6, do for the small batch.
    """

    running_mean: Tensor
    mode: StatisticsMode | None = None

    def __init__(
        self,
        units: int,
        *,
        eps: float = 1e-5,
        root: Root = inside_root,
        affine: bool = True,
        space: int = 0,
        momentum: float = 0.1,
        correction: int = 0,
    ) -> None:
        super().__init__(units, eps=eps, root=root, affine=affine, space=space)
        self.momentum, self.correction = momentum, correction

    @property
    def uses_batch(self) -> bool:
        """True if the statistics come from the batch."""
        return self.training if self.mode is None else self.mode is StatisticsMode.BATCH

    def apply_correction_option(self, biased_var: Tensor, m: int) -> Tensor:
        """Return a biased variance (H,) of m values with ``correction``; of one value, 0."""
        # a variance of one value is 0/0; 0 is what the biased one is
        if m <= self.correction:
            return biased_var
        return biased_var * (m / (m - self.correction))

    @abstractmethod
    def update_running_stats(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        """Add mu and the biased var (H,) of m values to the running statistics."""

    @abstractmethod
    def set_population_stats(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        """Set the running statistics (of step ``t``) to mu and var (H,) of a population."""


class BatchNorm(BatchNormalizer):
    """Batch normalization: Ioffe & Szegedy (2015), Ba et al. (2016), eq. 2.

    Statistics of each unit run over the examples (and space). torch's BatchNorm1d of (N, C),
    1d of (N, C, L), 2d and 3d are ``space=0``, 1, 2 and 3. The running variance is unbiased, as
    in torch. Of a single value (m = 1) there is none: the running variance stays as it was, the
    running mean changes, and the output is ``b``.

    Args:
        num_features, eps, momentum, affine: as in torch.nn.BatchNorm1d.
        settings: ``root``, ``space``, ``correction``: see :class:`BatchNormalizer`.

    Examples:
        >>> norm = lnlab.nn.BatchNorm(16)
        >>> h = norm(torch.randn(4, 16))
        >>> h = norm.eval()(torch.randn(4, 16))  # with running statistics
    """

    running_var: Tensor
    in_torch = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        **settings,
    ) -> None:
        super().__init__(num_features, eps=eps, momentum=momentum, affine=affine, **settings)
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        if not self.uses_batch:
            mu, var = (
                at_least_float32(statistic) for statistic in self.running_mean_and_var(t)
            )
        else:
            # eq. 2 of Ba et al. (2016): expectations over the data, estimated by the mini-batch
            mu, var, m = batch_moments(a, self.unit_axis)
            if self.training:
                self.update_running_stats(mu.detach(), var.detach(), m, t)
            var = self.apply_correction_option(var, m)
        return MuSigma(self.broadcast_units(mu), self.broadcast_units(self.sigma(var)))

    def running_mean_and_var(self, t: int | None) -> tuple[Tensor, Tensor]:
        """Return the running mean and variance, each (H,)."""
        return self.running_mean, self.running_var

    def update_running_stats(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        mean, variance = self.running_mean_and_var(t)
        update_running_average_(mean, mu, self.momentum)
        # Bessel: a batch of m varies about its own mean by (m-1)/m of the population's variance
        if m > 1:
            update_running_average_(variance, var * (m / (m - 1)), self.momentum)

    def set_population_stats(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        for running, statistic in zip(self.running_mean_and_var(t), (mu, var), strict=True):
            running.copy_(statistic)


class RecurrentBatchNorm(BatchNorm):
    """Recurrent batch normalization: Cooijmans et al. (2016), section 3.

    BatchNorm with statistics of its own for each time step. The gain starts at 0.1, as there.
    In evaluation a step past the last uses the last one's statistics; training on one raises
    ValueError.

    Args:
        steps: the number of time steps with statistics of their own.
        gain: the gain at the start.

    Examples:
        >>> norm = lnlab.nn.RecurrentBatchNorm(16, steps=10)
        >>> h = norm(torch.randn(4, 16), t=0)
    """

    def __init__(self, units: int, steps: int, *, gain: float = 0.1, **settings) -> None:
        super().__init__(units, **settings)
        self.steps = steps
        self.running_mean = torch.zeros(steps, units)
        self.running_var = torch.ones(steps, units)
        if self.g is not None:
            nn.init.constant_(self.g, gain)

    def running_mean_and_var(self, t: int | None) -> tuple[Tensor, Tensor]:
        """Return the running mean and variance of step t, each (H,)."""
        if t is None or t < 0:
            raise ValueError(
                f"RecurrentBatchNorm has statistics per time step, and t is {t}: call "
                "norm(a, W, t) with t = 0, 1, ..."
            )
        if self.training and t >= self.steps:
            raise ValueError(f"time step {t} of a norm with statistics for {self.steps} steps.")
        # Rows of the buffers, not copies: they are updated in place. Each step has its own
        # because h_t starts at 0 and reaches its usual spread only after some steps.
        last = min(t, self.steps - 1)
        return self.running_mean[last], self.running_var[last]

    def set_population_stats(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        if t is not None and t < self.steps:  # a later step has no statistics of its own
            super().set_population_stats(mu, var, t)


class GhostBatchNorm(BatchNorm):
    """Ghost batch normalization: Hoffer et al. (2017), algorithm 1.

    BatchNorm inside each ghost batch: the batch is cut in order into parts of ``ghost``
    examples; the last may be smaller. The running statistics are updated by one ghost batch
    after the other; the algorithm prints another weighting, and a running sigma.

    Examples:
        >>> norm = lnlab.nn.GhostBatchNorm(16, ghost=8)
        >>> h = norm(torch.randn(32, 16))
    """

    def __init__(self, units: int, ghost: int, **settings) -> None:
        super().__init__(units, **settings)
        self.ghost = ghost

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        if not self.uses_batch:
            return super().stats(a, W, t)
        examples = a.flatten(0, a.dim() - 2 - self.space)  # (m, H, *space)
        mu, sigma = [], []
        for ghost in examples.split(self.ghost):
            # BatchNorm's rule for each ghost batch, which also updates the running statistics
            stats = super().stats(ghost)  # each (H, *1)
            mu.append(stats.mu.expand(len(ghost), *stats.mu.shape))
            sigma.append(stats.sigma.expand(len(ghost), *stats.sigma.shape))
        shape = (*a.shape[: a.dim() - 1 - self.space], *mu[0].shape[1:])
        return MuSigma(torch.cat(mu).reshape(shape), torch.cat(sigma).reshape(shape))


class BatchRenorm(BatchNormalizer):
    r"""Batch renormalization: Ioffe (2017), algorithm 1.

    :math:`\hat a = \frac{a - \mu_B}{\sigma_B} r + d` with r and d held constant in the
    backward pass; in the form of eq. 5, sigma = sigma_B / r and mu = mu_B - d sigma_B / r.
    The running statistic is of sigma, not of the variance, and biased. The paper raises
    ``r_max`` from 1 to 3 and ``d_max`` from 0 to 5 while training; 1 and 0 are BatchNorm,
    infinity leaves a forward pass by the running statistics alone.

    Args:
        r_max: bounds r to [1/r_max, r_max].
        d_max: bounds d to [-d_max, d_max].
        momentum: weight of the newest batch in the running statistics.

    Examples:
        >>> norm = lnlab.nn.BatchRenorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    running_sigma: Tensor

    def __init__(
        self,
        units: int,
        *,
        r_max: float = 3.0,
        d_max: float = 5.0,
        momentum: float = 0.01,
        **settings,
    ) -> None:
        super().__init__(units, momentum=momentum, **settings)
        self.r_max, self.d_max = r_max, d_max
        self.register_buffer("running_mean", torch.zeros(units))
        self.register_buffer("running_sigma", torch.ones(units))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> MuSigma:
        # With r and d as they are when no clip is reached, (a - mu_B)/sigma_B r + d is
        # (a - mu)/sigma, the running statistics: only the gradient goes through the batch.
        # A copy: running statistics may change before the backward pass divides by them.
        mu = at_least_float32(self.running_mean)
        sigma = at_least_float32(self.running_sigma).clone()
        if self.uses_batch:
            mu_B, var, m = batch_moments(a, self.unit_axis)
            sigma_B = self.sigma(self.apply_correction_option(var, m))
            r = (sigma_B / sigma).clamp(1 / self.r_max, self.r_max).detach()
            d = ((mu_B - mu) / sigma).clamp(-self.d_max, self.d_max).detach()
            mu, sigma = mu_B - d * sigma_B / r, sigma_B / r
            if self.training:
                self.update_running_stats(mu_B.detach(), var.detach(), m, t)
        return MuSigma(self.broadcast_units(mu), self.broadcast_units(sigma))

    def update_running_stats(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        sigma = self.sigma(self.apply_correction_option(var, m))
        update_running_average_(self.running_mean, mu, self.momentum)
        update_running_average_(self.running_sigma, sigma, self.momentum)

    def set_population_stats(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        self.running_mean.copy_(mu)
        self.running_sigma.copy_(self.sigma(var))
