"""Units by their place in a map: how often they are on, and what their summed inputs are.

Ba et al. (2016), 6.7, explain with it why layer norm lags in convolutional nets: units whose
receptive field lies near the boundary of the image are rarely on, and have other statistics
than the rest of the layer, with which layer norm throws them together.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lnlab.analysis.module_copy import check_input, copy_module
from lnlab.threads import in_one_thread

CASES = 250
"""The number of cases in memory at a time."""


class Maps(NamedTuple):
    """Statistics of H units at each position, over the cases; each (H, height, width).

    Attributes:
        on: the part of the cases in which the normalized summed input is above 0.
        mean: of the summed inputs ``a``, before anything normalizes them.
        deviation: of the same, 1/B.
    """

    on: Tensor
    mean: Tensor
    deviation: Tensor


class Contrast(NamedTuple):
    """The border of a map, its outermost ring, beside its middle half.

    Attributes:
        border: the part of cases in which a unit of the ring is on, on average over units.
        middle: the same of the units at least a quarter of the side away from the edge.
        shift: how far the means of ``a`` of ring and middle are apart, in pooled deviations
            (Cohen's d, without its sign), on average over units.
    """

    border: float
    middle: float
    shift: float


@in_one_thread
def maps(module: nn.Module, x: Tensor, layers: Sequence[str]) -> dict[str, Maps]:
    """The :class:`Maps` of layers of ``module``, which it leaves as it was, in float64.

    Args:
        module: from x to anything; it is looked at in evaluation mode.
        x: cases (B, ...).
        layers: names of :class:`lnlab.nn.Conv2d` in it.

    Raises:
        ValueError: if there are no cases, or a layer's ``a`` has no positions.
    """
    copy = _copied(module, x)
    sums: dict[str, list[Tensor]] = {}

    def add(name: str, a: Tensor, h: Tensor) -> None:
        if a.dim() != 4:
            raise ValueError(f"{name} has no positions: its summed inputs are {a.dim()}-d.")
        first = sums.setdefault(name, [a[:0].sum(0), a[:0].sum(0), a[:0].sum(0), a.mean(0)])
        far = a - first[3]  # sums of squares about a mean nearby do not cancel
        for total, new in zip(first, ((h > 0).to(a), far, far.square()), strict=False):
            total += new.sum(0)

    with torch.no_grad(), _listening(copy, layers, add):
        for some in x.double().split(CASES):
            copy(some)
    n = len(x)
    found = {}
    for name, (on, far, squares, near) in sums.items():
        mean = far / n
        found[name] = Maps(on / n, near + mean, (squares / n - mean.square()).clamp(0).sqrt())
    return found


def contrast(of: Maps) -> Contrast:
    """The border of a map beside its middle.

    Raises:
        ValueError: for a map without a middle: its sides are below 4.
    """
    height, width = of.on.shape[1:]
    if min(height, width) < 4:
        raise ValueError(f"a map of {height} x {width} has no middle: its sides are below 4.")
    middle = torch.zeros(height, width, dtype=torch.bool, device=of.on.device)
    middle[height // 4 : height - height // 4, width // 4 : width - width // 4] = True
    ring = torch.ones_like(middle)
    ring[1:-1, 1:-1] = False
    (mean_r, var_r), (mean_m, var_m) = (_pooled(of, part) for part in (ring, middle))
    pooled = ((var_r + var_m) / 2).sqrt()
    # Cohen's d with var = (var_ring + var_middle) / 2; a unit that never changes has none
    apart = torch.where(pooled > 0, (mean_r - mean_m).abs() / pooled, 0.0)
    on = [float(of.on[:, part].mean()) for part in (ring, middle)]
    return Contrast(on[0], on[1], float(apart.mean()))


def over_units(of: Maps) -> dict[str, Tensor]:
    """A map (height, width) of each statistic, the mean over the units, without a unit.

    - ``on``: the part of cases in which a unit is on.
    - ``mean``: how far the mean of ``a`` here is from its mean over the map, in deviations of
      the unit.
    - ``deviation``: that of ``a`` here, as a multiple of the unit's over the map.
    """
    everywhere = torch.ones_like(of.on[0], dtype=torch.bool)
    mean, var = (statistic[:, None, None] for statistic in _pooled(of, everywhere))
    size = torch.where(var > 0, var.sqrt(), 1.0)
    shares = of.on, (of.mean - mean).abs() / size, of.deviation / size
    return {name: share.mean(0) for name, share in zip(of._fields, shares, strict=True)}


def _pooled(of: Maps, part: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (H,) of ``a`` over the cases and the positions of a part."""
    mean = of.mean[:, part].mean(1)
    # the variance of all values: that within a position, and that of the positions' means
    between = (of.mean[:, part] - mean[:, None]).square()
    return mean, (of.deviation[:, part].square() + between).mean(1)


@in_one_thread
def contributions(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    layers: Sequence[str],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """The share of each unit in the loss, |h dL/dh| on average over the cases, by layer.

    To first order this is what leaving out the unit, h = 0, changes in the loss of a case.

    Args:
        module: from x to outputs; looked at in evaluation mode, left as it was.
        x, y: cases (B, ...) and their targets.
        layers: names of layers whose output is rectified at once.
        loss: from outputs and targets to the sum of the losses of the cases.

    Returns:
        By layer (H, *space), in float64.
    """
    copy = _copied(module, x)
    heard: dict[str, Tensor] = {}

    def keep(name: str, a: Tensor, h: Tensor) -> None:
        heard[name] = h if h.requires_grad else h.requires_grad_()

    totals: dict[str, Tensor] = {}
    with torch.enable_grad(), _listening(copy, layers, keep):
        for some_x, some_y in zip(x.double().split(CASES), y.split(CASES), strict=True):
            total = loss(copy(some_x), some_y)
            slopes = torch.autograd.grad(total, [heard[name] for name in layers])
            for name, slope in zip(layers, slopes, strict=True):
                # L(h) - L(0) is about h dL/dh, with the h that ReLU lets through
                share = (heard[name].detach().clamp(0) * slope).abs().sum(0) / len(x)
                totals[name] = totals.get(name, torch.zeros_like(share)) + share
    return totals


def unlikeness(shares: Tensor) -> float:
    """The deviation of shares (any shape) over their mean; 0 where all contribute alike."""
    return float(shares.std(correction=0) / shares.mean())


def _copied(module: nn.Module, x: Tensor) -> nn.Module:
    check_input(x)
    return copy_module(module).double().eval()


@contextmanager
def _listening(
    module: nn.Module, layers: Sequence[str], hear: Callable[[str, Tensor, Tensor], None]
) -> Iterator[None]:
    """While it is called, ``hear(name, a, h)``: what each layer's normalizer is given, and
    what it makes of it."""

    def seen(name: str, _: nn.Module, args: tuple[Tensor, ...], h: Tensor) -> None:
        hear(name, args[0], h)

    parts = dict(module.named_modules())
    there = [name for name in parts if f"{name}.norm" in parts]
    if missing := sorted(set(layers) - set(there)):
        raise ValueError(
            f"no layer of lnlab.nn is called {missing}: there are {there or 'none'}."
        )
    norms = {name: parts[f"{name}.norm"] for name in layers}
    hooks = [norm.register_forward_hook(partial(seen, name)) for name, norm in norms.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
