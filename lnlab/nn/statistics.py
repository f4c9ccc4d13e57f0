"""Statistics over cases, chosen and computed again for a whole model."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm

from lnlab.nn.batch import Mode, OverCases, RecurrentBatchNorm, batch_moments
from lnlab.nn.normalizer import wide


@contextmanager
def statistics_from(model: nn.Module, mode: Mode) -> Iterator[nn.Module]:
    """``model`` with the statistics of every OverCases taken from ``mode``.

    Put back on leaving. Torch's own BatchNorm follows ``training`` alone.
    """
    norms = [module for module in model.modules() if isinstance(module, OverCases)]
    before = [norm.mode for norm in norms]
    try:
        for norm in norms:
            norm.mode = mode
        yield model
    finally:
        for norm, was in zip(norms, before, strict=True):
            norm.mode = was


@torch.no_grad()
def recompute(model: nn.Module, batches: Iterable[Tensor]) -> nn.Module:
    """Replace all running statistics by those of the population ``batches``; return model.

    Each OverCases, and each of torch's BatchNorm, is given the mean and the biased variance
    of all that it saw while the batches went through the model in evaluation mode, but
    normalized by their own statistics. Several batches are pooled as if they were one.
    Nothing else is changed; if a batch fails, nothing at all.

    Args:
        model: any module; its mode of training and its parameters are left alone.
        batches: inputs x (B, ...) of ``model``, at least one.

    Raises:
        ValueError: where no batch reached a normalizer.
    """
    # In evaluation mode dropout is off. Each layer normalizes by the batch, so that the next
    # one is shown what it was shown in training, whatever was remembered before.
    ours = [module for module in model.modules() if isinstance(module, OverCases)]
    torchs = [
        module
        for module in model.modules()
        if isinstance(module, TorchBatchNorm) and module.track_running_stats
    ]
    seen: dict[tuple[nn.Module, int | None], _Pool] = {}

    def see(norm: nn.Module, args: tuple, kwargs: dict, h: Tensor) -> None:
        a, axis, t = _asked(norm, *args, **kwargs)
        own = t if isinstance(norm, RecurrentBatchNorm) else None  # the others pool the steps
        seen.setdefault((norm, own), _Pool()).add(*batch_moments(wide(a), axis))

    hooks = [norm.register_forward_hook(see, with_kwargs=True) for norm in (*ours, *torchs)]
    try:
        with _normalized_by_batch(model, torchs), statistics_from(model, Mode.BATCH):
            for x in batches:
                model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not seen and (ours or torchs):
        raise ValueError("no batch reached a normalizer: a population has at least one case.")
    for (norm, t), pool in seen.items():
        if isinstance(norm, OverCases):
            norm.population(pool.mu, pool.var, t)
        else:
            norm.get_buffer("running_mean").copy_(pool.mu)
            norm.get_buffer("running_var").copy_(pool.var)
    return model


def _asked(
    norm: nn.Module, a: Tensor, W: Tensor | None = None, t: int | None = None
) -> tuple[Tensor, int, int | None]:
    """The arguments of a call that statistics need: ``a``, the axis of its units, and t."""
    return a, norm.unit_axis if isinstance(norm, OverCases) else 1, t


@contextmanager
def _normalized_by_batch(model: nn.Module, torchs: list[TorchBatchNorm]) -> Iterator[None]:
    """Evaluation mode, but ``torchs`` normalize by the batch and remember nothing of it."""
    training = {module: module.training for module in model.modules()}
    remembered = {norm: (norm.running_mean, norm.running_var) for norm in torchs}
    try:
        model.eval()
        for norm in torchs:  # without statistics torch takes the batch's
            norm.running_mean = norm.running_var = None
        yield
    finally:
        for module, was in training.items():
            module.training = was
        for norm, (mean, var) in remembered.items():
            norm.running_mean, norm.running_var = mean, var


class _Pool:
    """Mean and biased variance of several batches as if they were one."""

    m = 0

    def add(self, mu: Tensor, var: Tensor, m: int) -> None:
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
