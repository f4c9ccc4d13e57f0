"""Statistics over examples for a whole model: choose their source, compute them anew."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

from lnlab.nn.batch import BatchNormalizer, RecurrentBatchNorm, StatisticsMode, batch_moments
from lnlab.nn.normalizer import at_least_float32


@contextmanager
def use_statistics(model: nn.Module, mode: StatisticsMode) -> Iterator[nn.Module]:
    """Use batch statistics, or running ones, in all batch normalizers of ``model``.

    This is a context manager; on leaving it each normalizer has its former mode again. torch's
    own BatchNorm modules are not changed.

    Examples:
        >>> norm = lnlab.nn.BatchNorm(16)
        >>> with lnlab.nn.use_statistics(norm.eval(), lnlab.nn.StatisticsMode.BATCH):
        ...     h = norm(torch.randn(4, 16))
    """
    norms = [module for module in model.modules() if isinstance(module, BatchNormalizer)]
    before = [norm.mode for norm in norms]
    try:
        for norm in norms:
            norm.mode = mode
        yield model
    finally:
        for norm, was in zip(norms, before, strict=True):
            norm.mode = was


@torch.no_grad()
def recompute_statistics(model: nn.Module, batches: Iterable[Tensor]) -> nn.Module:
    """Recompute all running statistics from the ``batches``, taken as one population.

    Each batch normalizer, lnlab's or torch's, gets the mean and the biased variance of all its
    inputs. Meanwhile the model is in evaluation mode, but normalizes by the statistics of each
    batch. Nothing else changes; if a batch fails, nothing changes at all. Returns ``model``.

    Args:
        model: any module; its training mode and its parameters do not change.
        batches: one or more inputs x (B, ...) of ``model``.

    Raises:
        ValueError: if no batch reached a normalizer.

    Examples:
        >>> norm = lnlab.nn.BatchNorm(16)
        >>> lnlab.nn.recompute_statistics(norm, [torch.randn(64, 16) for _ in range(10)])
    """
    # In evaluation mode dropout is off. Each layer normalizes by the batch, so that the next
    # one reads what it read in training, whatever the running statistics are.
    ours = [module for module in model.modules() if isinstance(module, BatchNormalizer)]
    torch_norms = [
        module
        for module in model.modules()
        if isinstance(module, TorchBatchNorm) and module.track_running_stats
    ]
    pools: dict[tuple[nn.Module, int | None], _PooledMoments] = {}

    def pool_moments(norm: nn.Module, args: tuple, kwargs: dict, h: Tensor) -> None:
        a, axis, t = _input_unit_axis_and_step(norm, *args, **kwargs)
        step = t if isinstance(norm, RecurrentBatchNorm) else None  # the others pool the steps
        pool = pools.setdefault((norm, step), _PooledMoments())
        pool.add_batch(*batch_moments(at_least_float32(a), axis))

    hooks = [
        norm.register_forward_hook(pool_moments, with_kwargs=True)
        for norm in (*ours, *torch_norms)
    ]
    try:
        with (
            _evaluate_by_batch_statistics(model, torch_norms),
            use_statistics(model, StatisticsMode.BATCH),
        ):
            for x in batches:
                model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not pools and (ours or torch_norms):
        raise ValueError(
            "no batch reached a normalizer: a population has at least one example."
        )
    for (norm, t), pool in pools.items():
        if isinstance(norm, BatchNormalizer):
            norm.set_population_stats(pool.mu, pool.var, t)
        else:
            norm.get_buffer("running_mean").copy_(pool.mu)
            norm.get_buffer("running_var").copy_(pool.var)
    return model


def _input_unit_axis_and_step(
    norm: nn.Module, a: Tensor, W: Tensor | None = None, t: int | None = None
) -> tuple[Tensor, int, int | None]:
    """Return what statistics need of a call: ``a``, the axis of its units, and t."""
    return a, norm.unit_axis if isinstance(norm, BatchNormalizer) else 1, t


@contextmanager
def _evaluate_by_batch_statistics(
    model: nn.Module, torch_norms: list[TorchBatchNorm]
) -> Iterator[None]:
    """Set evaluation mode, but let ``torch_norms`` use the batch and no running statistics."""
    training = {module: module.training for module in model.modules()}
    running = {norm: (norm.running_mean, norm.running_var) for norm in torch_norms}
    try:
        model.eval()
        for norm in torch_norms:  # without statistics torch takes the batch's
            norm.running_mean = norm.running_var = None
        yield
    finally:
        for module, was in training.items():
            module.training = was
        for norm, (mean, var) in running.items():
            norm.running_mean, norm.running_var = mean, var


class _PooledMoments:
    """Mean and biased variance of several batches as if they were one."""

    m = 0

    def add_batch(self, mu: Tensor, var: Tensor, m: int) -> None:
        if not self.m:
            self.mu, self.var, self.m = mu, var, m
            return
        # Chan, Golub & LeVeque (1979): the pooled variance is the mean of the two variances,
        # weighted by m, plus that of the two means about the common one. Sums of squares
        # minus the squared mean would be shorter, and cancel.
        total = self.m + m
        step = mu - self.mu
        self.var = (self.m * self.var + m * var + step.square() * (self.m * m / total)) / total
        self.mu, self.m = self.mu + step * (m / total), total
