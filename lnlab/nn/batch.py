"""Rules that read the other cases of the batch.

A statistic over cases is taken from the batch while training and from what was remembered
of the batches afterwards. Which of the two is used is explicit here: ``norm.mode`` is
``Mode.BATCH``, ``Mode.RUNNING``, or None, "as ``training`` says", which is torch's habit.
What is remembered moves in training mode only, and only where the batch is used.
"""

from abc import abstractmethod
from enum import Enum

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import AffineNormalizer, Root, Stats, inside_root, wide


class Mode(Enum):
    """The source of a statistic over cases."""

    BATCH = "the cases at hand"
    RUNNING = "the remembered statistics"


def batch_moments(a: Tensor, axis: int) -> tuple[Tensor, Tensor, int]:
    """The mean and the biased variance (H,) over all axes of ``a`` but one, and their m.

    Args:
        a: summed inputs (*cases, H, *space).
        axis: that of the units. All others count as cases, m values to a unit.

    Raises:
        ValueError: where there is nothing to average over.
    """
    axes = [i for i in range(a.dim()) if i != axis % a.dim()]
    m = a.numel() // a.shape[axis]
    if not axes or m == 0:
        raise ValueError(f"a batch of shape {tuple(a.shape)} has no cases to average over.")
    var, mu = torch.var_mean(a, dim=axes, correction=0)
    return mu, var, m


def move(running: Tensor, new: Tensor, momentum: float) -> None:
    """Let ``running`` (H,) go the fraction ``momentum`` of its way to ``new`` (H,), in place.

    After k batches the newest weighs momentum, the one before it momentum (1 - momentum), and
    the start value still (1 - momentum)^k: 0.35 after ten batches at 0.1.
    """
    # in place, as buffers are shared with fused models and saved by name
    running.mul_(1 - momentum).add_(new, alpha=momentum)


class OverCases(AffineNormalizer):
    """A normalizer whose statistics run over cases (and space), one pair for each unit.

    Args:
        momentum: weight of the newest batch in the running statistics.
        correction: 0 normalizes by the biased variance 1/m, as torch; 1 by the unbiased,
            as Ba et al. (2016), 6.6, do for the small batch.
    """

    running_mean: Tensor
    mode: Mode | None = None

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
    def from_batch(self) -> bool:
        """True if the statistics come from the cases at hand."""
        return self.training if self.mode is None else self.mode is Mode.BATCH

    def corrected(self, var: Tensor, m: int) -> Tensor:
        """A biased variance (H,) of m values with the asked-for correction; of one value, 0."""
        # a variance of one value is 0/0; 0 is what the biased one is
        return var * (m / (m - self.correction)) if m > self.correction else var

    @abstractmethod
    def remember(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        """Let the running statistics take in mu and the biased var (H,) of m values."""

    @abstractmethod
    def population(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        """Replace the running statistics (of step ``t``) by mu and var (H,) of a population."""


class BatchNorm(OverCases):
    """mu and sigma of a unit over the cases: Ioffe & Szegedy (2015), Ba et al. (2016), eq. 2.

    The running variance is unbiased, as in torch. Of a single value (m = 1) there is none:
    the running variance stays as it was, the running mean moves, and the output is ``b``.
    """

    running_var: Tensor

    def __init__(self, units: int, **settings) -> None:
        super().__init__(units, **settings)
        self.register_buffer("running_mean", torch.zeros(units))
        self.register_buffer("running_var", torch.ones(units))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        if not self.from_batch:
            mu, var = (wide(statistic) for statistic in self.recalled(t))
        else:
            # eq. 2 of Ba et al. (2016): expectations over the data, estimated by the mini-batch
            mu, var, m = batch_moments(a, self.unit_axis)
            if self.training:
                self.remember(mu.detach(), var.detach(), m, t)
            var = self.corrected(var, m)
        return Stats(self.along_units(mu), self.along_units(self.sigma(var)))

    def recalled(self, t: int | None) -> tuple[Tensor, Tensor]:
        """The running mean and variance, each (H,)."""
        return self.running_mean, self.running_var

    def remember(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        mean, variance = self.recalled(t)
        move(mean, mu, self.momentum)
        # Bessel: a batch of m varies about its own mean by (m-1)/m of the population's variance
        if m > 1:
            move(variance, var * (m / (m - 1)), self.momentum)

    def population(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        for remembered, statistic in zip(self.recalled(t), (mu, var), strict=True):
            remembered.copy_(statistic)


class RecurrentBatchNorm(BatchNorm):
    """Cooijmans et al. (2016), section 3: BatchNorm with each time step's own statistics.

    Gain 0.1 at the start, as there. In evaluation a step past the last is given the last
    one's statistics; training on one raises ValueError.

    Args:
        steps: T, how many time steps are told apart.

    Raises:
        ValueError: for less than one step.
    """

    def __init__(self, units: int, steps: int, *, gain: float = 0.1, **settings) -> None:
        super().__init__(units, **settings)
        if steps < 1:
            raise ValueError(f"steps is {steps}: give the number of time steps, at least 1.")
        self.steps = steps
        self.running_mean = torch.zeros(steps, units)
        self.running_var = torch.ones(steps, units)
        if self.g is not None:
            nn.init.constant_(self.g, gain)

    def recalled(self, t: int | None) -> tuple[Tensor, Tensor]:
        """The running mean and variance of step t, each (H,).

        Raises:
            ValueError: without a step, and in training for one past the last.
        """
        if t is None or t < 0:
            raise ValueError(
                f"RecurrentBatchNorm has statistics per time step, and t is {t}: call "
                "norm(a, W, t) with t = 0, 1, ..."
            )
        if self.training and t >= self.steps:
            raise ValueError(f"time step {t} of a net with statistics for {self.steps} steps.")
        # Rows of the buffers, not copies: what is moved in them is remembered. Steps are apart
        # because h_t starts at 0 and comes to its usual spread only after some of them.
        last = min(t, self.steps - 1)
        return self.running_mean[last], self.running_var[last]

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        self.recalled(t)  # says what is wrong with t before anything is computed
        return super().stats(a, W, t)

    def population(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        if t is not None and t < self.steps:  # a later step has no statistics of its own
            super().population(mu, var, t)


class GhostBatchNorm(BatchNorm):
    """Hoffer et al. (2017), algorithm 1: BatchNorm inside each ghost batch of the batch.

    The cases are cut in order into ghosts of ``ghost`` cases; the last may be smaller. The
    running statistics take in one ghost after the other, as BatchNorm's do batches; the
    algorithm prints another weighting of the ghosts, and a running sigma.

    Raises:
        ValueError: for a ghost batch of no case.
    """

    def __init__(self, units: int, ghost: int, **settings) -> None:
        super().__init__(units, **settings)
        if ghost < 1:
            raise ValueError(f"ghost is {ghost}: a ghost batch holds at least one case.")
        self.ghost = ghost

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        if not self.from_batch:
            return super().stats(a, W, t)
        cases = a.flatten(0, a.dim() - 2 - self.space)  # (m, H, *space)
        # each ghost is a batch to BatchNorm's own rule, which also remembers it
        parts = [super(GhostBatchNorm, self).stats(part) for part in cases.split(self.ghost)]
        sizes = [len(part) for part in cases.split(self.ghost)]
        return Stats(*(self._to_cases(s, sizes, a) for s in zip(*parts, strict=True)))

    def _to_cases(self, parts: tuple[Tensor, ...], sizes: list[int], a: Tensor) -> Tensor:
        """One statistic (H, *1) a ghost to one (*cases, H, *1) a case."""
        each = [s.expand(n, *s.shape) for s, n in zip(parts, sizes, strict=True)]
        return torch.cat(each).reshape(*a.shape[: a.dim() - 1 - self.space], *parts[0].shape)


class BatchRenorm(OverCases):
    r"""Ioffe (2017), algorithm 1: BatchNorm corrected towards its running statistics.

    :math:`\hat a = \frac{a - \mu_B}{\sigma_B} r + d` with r and d held constant in the
    backward pass; in the form of eq. 5, sigma = sigma_B / r and mu = mu_B - d sigma_B / r.
    The running statistic is of sigma, not of the variance, and biased. The paper raises
    ``r_max`` from 1 to 3 and ``d_max`` from 0 to 5 while training; 1 and 0 are BatchNorm,
    infinity leaves a forward pass by the running statistics alone.

    Raises:
        ValueError: for an ``r_max`` below 1 or a ``d_max`` below 0.
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
        if not (r_max >= 1 and d_max >= 0):
            raise ValueError(f"r_max is {r_max}, d_max {d_max}: give at least 1 and 0.")
        self.r_max, self.d_max = r_max, d_max
        self.register_buffer("running_mean", torch.zeros(units))
        self.register_buffer("running_sigma", torch.ones(units))

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        # With r and d as they are when no clip is reached, (a - mu_B)/sigma_B r + d is
        # (a - mu)/sigma, the running statistics: only the gradient goes through the batch.
        # A copy: what is remembered may move on before the backward pass divides by it.
        mu, sigma = wide(self.running_mean), wide(self.running_sigma).clone()
        if self.from_batch:
            mu_B, var, m = batch_moments(a, self.unit_axis)
            sigma_B = self.sigma(self.corrected(var, m))
            r = (sigma_B / sigma).clamp(1 / self.r_max, self.r_max).detach()
            d = ((mu_B - mu) / sigma).clamp(-self.d_max, self.d_max).detach()
            mu, sigma = mu_B - d * sigma_B / r, sigma_B / r
            if self.training:
                self.remember(mu_B.detach(), var.detach(), m, t)
        return Stats(self.along_units(mu), self.along_units(sigma))

    def remember(self, mu: Tensor, var: Tensor, m: int, t: int | None) -> None:
        sigma = self.sigma(self.corrected(var, m))
        move(self.running_mean, mu, self.momentum)
        move(self.running_sigma, sigma, self.momentum)

    def population(self, mu: Tensor, var: Tensor, t: int | None) -> None:
        self.running_mean.copy_(mu)
        self.running_sigma.copy_(self.sigma(var))
