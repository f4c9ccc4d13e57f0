"""Units by their position in a feature map: how often they are on, and their pre-activations.

Ba et al. (2016), 6.7, explain with it why layer norm lags in convolutional nets: units whose
receptive field lies near the boundary of the image are rarely on, and have other statistics
than the rest of the layer, with which layer norm throws them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.module_copy import (
    check_names,
    check_nonempty_tensor,
    frozen_copy_without_hooks,
)
from lnlab.analysis.result import AnalysisResult, DataFrame, make_frame
from lnlab.threads import in_one_thread_if_small

EXAMPLES = 250
"""The number of examples in memory at a time."""


ValuePerUnitAndPosition = Tensor  # over the examples (H, height, width)
UnitAveragedMap = Tensor  # the mean over the units (height, width)
AbsoluteCohensD = float  # a difference of means in pooled deviations, without its sign


@dataclass(frozen=True)
class PositionStatistics(AnalysisResult):
    """Statistics of H units at each position, over the examples; each (H, height, width)."""

    # the fraction of examples in which the normalized pre-activation is above 0
    active_fraction: ValuePerUnitAndPosition
    pre_activation_mean: ValuePerUnitAndPosition  # of ``a``, before anything normalizes it
    pre_activation_std: ValuePerUnitAndPosition  # of the same, 1/B

    def to_frame(self) -> DataFrame:
        """Return one row per unit and position."""
        index = torch.cartesian_prod(*(torch.arange(n) for n in self.active_fraction.shape))
        columns = dict(zip(("unit", "row", "column"), index.T.numpy(), strict=True))
        values = {name: v.flatten().cpu().numpy() for name, v in vars(self).items()}
        return make_frame({**columns, **values})


class BorderContrast(NamedTuple):
    """The border of a map, its outermost ring, beside its middle half."""

    # the fraction of examples in which a unit of the ring is on, on average over units
    border_active: float
    # the same for the units at least a quarter of the side away from the edge
    center_active: float
    # the difference of the means of ``a`` in ring and middle, in pooled deviations (Cohen's d,
    # without its sign), on average over units
    border_shift: AbsoluteCohensD


@in_one_thread_if_small
def map_statistics(
    model: nn.Module, x: Tensor, *, layers: Sequence[str]
) -> dict[str, PositionStatistics]:
    """Return the statistics of layers of ``model`` in evaluation mode, in float64.

    Args:
        model: called as ``model(x)``.
        x: examples (B, ...).
        layers: names of :class:`lnlab.nn.Conv2d` in it.
    """
    copy = _float64_copy_after_checking_x(model, x)
    sums: dict[str, list[Tensor]] = {}  # of what is on, of a, of a², and a mean nearby

    def add_to_sums(name: str, a: Tensor, h: Tensor) -> None:
        if a.dim() != 4:
            raise ValueError(f"{name} has no positions: its pre-activations are {a.dim()}-d.")
        zero = a[:0].sum(0)
        totals = sums.setdefault(name, [zero.clone(), zero.clone(), zero.clone(), a.mean(0)])
        far = a - totals[3]  # sums of squares about a mean nearby do not cancel
        for total, new in zip(totals, ((h > 0).to(a), far, far.square()), strict=False):
            total += new.sum(0)

    with torch.no_grad(), _observe_norms_of_layers(copy, layers, add_to_sums):
        for some in x.double().split(EXAMPLES):
            copy(some)
    n = len(x)
    statistics = {}
    for name, (on, far, squares, near) in sums.items():
        mean = far / n
        deviation = (squares / n - mean.square()).clamp(0).sqrt()
        statistics[name] = PositionStatistics(on / n, near + mean, deviation)
    return statistics


def border_contrast(statistics: PositionStatistics) -> BorderContrast:
    """Return the border of a map (H, height, width) beside its middle."""
    height, width = statistics.active_fraction.shape[1:]
    if min(height, width) < 4:
        raise ValueError(f"a map of {height} x {width} has no middle: its sides are below 4.")
    device = statistics.active_fraction.device
    middle = torch.zeros(height, width, dtype=torch.bool, device=device)
    middle[height // 4 : height - height // 4, width // 4 : width - width // 4] = True
    ring = torch.ones_like(middle)
    ring[1:-1, 1:-1] = False
    (mean_r, var_r), (mean_m, var_m) = (
        _pooled_mean_and_variance(statistics, where) for where in (ring, middle)
    )
    pooled = ((var_r + var_m) / 2).sqrt()
    # Cohen's d with var = (var_ring + var_middle) / 2; a unit that never changes has none
    apart = torch.where(pooled > 0, (mean_r - mean_m).abs() / pooled, 0.0)
    on = [float(statistics.active_fraction[:, where].mean()) for where in (ring, middle)]
    return BorderContrast(on[0], on[1], float(apart.mean()))


def dimensionless_map_per_statistic(
    statistics: PositionStatistics,
) -> dict[str, UnitAveragedMap]:
    """Return a map (height, width) of each statistic, the mean over the units, dimensionless.

    - ``active_fraction``: the fraction of examples in which a unit is on.
    - ``pre_activation_mean``: the distance of the mean of ``a`` here from its mean over the
      map, in deviations of the unit.
    - ``pre_activation_std``: that of ``a`` here, as a multiple of the unit's over the map.
    """
    everywhere = torch.ones_like(statistics.active_fraction[0], dtype=torch.bool)
    mean, var = (
        each[:, None, None] for each in _pooled_mean_and_variance(statistics, everywhere)
    )
    size = torch.where(var > 0, var.sqrt(), 1.0)
    shares = (
        statistics.active_fraction,
        (statistics.pre_activation_mean - mean).abs() / size,
        statistics.pre_activation_std / size,
    )
    names = vars(statistics)
    return {name: share.mean(0) for name, share in zip(names, shares, strict=True)}


def _pooled_mean_and_variance(
    statistics: PositionStatistics, where: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and variance (H,) of ``a`` over the examples and some positions."""
    mean = statistics.pre_activation_mean[:, where].mean(1)
    # the variance of all values: that within a position, and that of the positions' means
    between = (statistics.pre_activation_mean[:, where] - mean[:, None]).square()
    return mean, (statistics.pre_activation_std[:, where].square() + between).mean(1)


@in_one_thread_if_small
def mean_abs_unit_contributions(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    *,
    layers: Sequence[str],
) -> dict[str, Tensor]:
    """Return the share of each unit in the loss, |h dL/dh| on average over the examples.

    To first order this is the change of the loss of an example without the unit, h = 0.

    Args:
        model: called as ``model(x)``, in evaluation mode.
        x, y: examples (B, ...) and their targets.
        loss_fn: from outputs and targets to the sum of the losses of the examples.
        layers: names of layers whose output goes into a ReLU at once; results are (H, *space)
            each.
    """
    copy = _float64_copy_after_checking_x(model, x)
    outputs: dict[str, Tensor] = {}

    def keep_output(name: str, a: Tensor, h: Tensor) -> None:
        outputs[name] = h if h.requires_grad else h.requires_grad_()

    totals: dict[str, Tensor] = {}
    with torch.enable_grad(), _observe_norms_of_layers(copy, layers, keep_output):
        for some_x, some_y in zip(x.double().split(EXAMPLES), y.split(EXAMPLES), strict=True):
            total = loss_fn(copy(some_x), some_y)
            grads = torch.autograd.grad(total, [outputs[name] for name in layers])
            for name, grad in zip(layers, grads, strict=True):
                # L(h) - L(0) is about h dL/dh, with the h that ReLU lets through
                share = (outputs[name].detach().clamp(0) * grad).abs().sum(0) / len(x)
                totals[name] = totals.get(name, torch.zeros_like(share)) + share
    return totals


def coefficient_of_variation(shares: Tensor) -> float:
    """Return the deviation of shares (any shape) over their mean; 0 if all are equal."""
    return float(shares.std(correction=0) / shares.mean())


def _float64_copy_after_checking_x(model: nn.Module, x: Tensor) -> nn.Module:
    check_nonempty_tensor(x)
    return frozen_copy_without_hooks(model).double().eval()


@contextmanager
def _observe_norms_of_layers(
    model: nn.Module, layers: Sequence[str], observe: Callable[[str, Tensor, Tensor], None]
) -> Iterator[None]:
    """Call ``observe(name, a, h)`` with input and output of the normalizer of each layer."""

    def call_observer(name: str, _: nn.Module, args: tuple[Tensor, ...], h: Tensor) -> None:
        observe(name, args[0], h)

    modules = dict(model.named_modules())
    known = [name for name in modules if f"{name}.norm" in modules]
    check_names("layer of lnlab.nn", layers, known)
    with ExitStack() as hooks:
        for name in layers:
            norm = modules[f"{name}.norm"]
            hooks.enter_context(norm.register_forward_hook(partial(call_observer, name)))
        yield
