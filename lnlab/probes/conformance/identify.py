"""The computation of a normalizer, found out from its outputs alone.

Every normalizer with statistics is taken to be of the form

    y = gain * d / s(var) + bias,      d = x - mean, or x,      var = mean of d²,

mean and var over some axes of x. What the axes are, whether the mean is removed, how s grows
with var and where its eps stands follow from how y answers to changes of x.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lnlab.probes.givens import normal
from lnlab.probes.subject import Subject, Trial

SAME = 1e-9
"""Relative difference of two outputs in float64 below which they are one."""


@dataclass(frozen=True)
class Extent:
    """The values that one statistic is taken over.

    Attributes:
        axes: those of x.
        split: the one of them that is cut into parts, each with a statistic; None: none is.
        groups: into how many parts it is cut.
        size: how many values one statistic is taken of.
    """

    axes: tuple[int, ...]
    split: int | None
    groups: int
    size: int

    def grouped(self, x: Tensor) -> Tensor:
        """x (B, ...) with the split axis cut into (groups, members)."""
        if self.split is None:
            return x
        return x.unflatten(self.split, (self.groups, -1))

    @property
    def grouped_axes(self) -> tuple[int, ...]:
        """The axes of :meth:`grouped` that a statistic runs over."""
        if self.split is None:
            return self.axes
        return tuple(a + (a >= self.split) for a in self.axes)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over the extent, in the shape of x."""
        grouped = self.grouped(x)
        mean = grouped.mean(self.grouped_axes, keepdim=True).expand_as(grouped)
        return mean.reshape(x.shape)


class Box:
    """A module in float64 of which only inputs and outputs are looked at."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.weights: dict[str, Tensor] = {}

    def __call__(self, x: Tensor, **weights: Tensor) -> Tensor:
        return self.subject.see(Trial(x, {**self.weights, **weights})).y

    def odd(self, x: Tensor, **weights: Tensor) -> Tensor:
        """Half of y(x) - y(-x), x (B, ...): what is left without the bias."""
        return (self(x, **weights) - self(-x, **weights)) / 2

    def even(self, x: Tensor, **weights: Tensor) -> Tensor:
        """Half of y(x) + y(-x), x (B, ...): the bias."""
        return (self(x, **weights) + self(-x, **weights)) / 2


def alike(one: Tensor, other: Tensor, tolerance: float = SAME) -> bool:
    """True if two outputs (B, ...) are the same but for rounding."""
    return float((one - other).abs().max()) <= tolerance * float(other.abs().max())


PLACES = 64
"""At most so many inputs along an axis are nudged, evenly spread over it."""


def open_gains(box: Box) -> None:
    """Let no parameter of ``box`` be 0 anywhere: behind a gain of 0 nothing can be seen."""
    box.weights |= {name: _drawn(box, name) for name in box.subject.parameters}


def extents(box: Box, x: Tensor) -> list[tuple[int, dict[int, Extent | None]]]:
    """The extents of inputs x (B, ...) along each axis but the first, where they differ."""
    middle = [n // 2 for n in x.shape]
    found = []
    for axis in range(1, x.dim()):
        places = range(0, x.shape[axis], -(-x.shape[axis] // PLACES))
        at = {p: (*middle[:axis], p, *middle[axis + 1 :]) for p in places}
        here = {place: extent(box, x, index) for place, index in at.items()}
        if len(set(here.values())) > 1:
            found.append((axis, here))
    return found


def extent(box: Box, x: Tensor, at: tuple[int, ...] | None = None) -> Extent | None:
    """The outputs that a change of one input of x (B, ...) reaches.

    None where they form no such pattern.

    Args:
        box: the module.
        x: its input.
        at: the place of the one that is changed; None: the middle.
    """
    at = tuple(n // 2 for n in x.shape) if at is None else at
    nudged = x.clone()
    nudged[at] += 1.0
    y = box(x)
    # all values that share a statistic with the one that was changed, and no other
    reached = (box(nudged) - y).abs() > SAME * float(y.abs().max())
    lines = [reached[tuple(slice(None) if i == a else n for i, n in enumerate(at))]
             for a in range(x.dim())]  # fmt: skip
    # a statistic runs over a box of axes: what is reached must be the product of its lines
    product = torch.ones_like(reached)
    for axis, line in enumerate(lines):
        product &= line.reshape(tuple(-1 if i == axis else 1 for i in range(x.dim())))
    if not torch.equal(product, reached) or not bool(reached.any()):
        return None
    axes = tuple(a for a, line in enumerate(lines) if int(line.sum()) > 1)
    parts = [(a, int(line.sum())) for a, line in enumerate(lines) if 1 < line.sum() < len(line)]
    if len(parts) > 1 or any(x.shape[a] % members for a, members in parts):
        return None
    split, groups = (
        (None, 1) if not parts else (parts[0][0], x.shape[parts[0][0]] // parts[0][1])
    )
    return Extent(axes, split, groups, int(reached.sum()))


@dataclass(frozen=True)
class Parameter:
    """The role of a parameter of a normalizer.

    Attributes:
        name: what the parameter is called.
        role: "gain", "gain, 1 + ", "bias", "bias, times the gain", "unused", or "inside": it
            acts before the statistics, or in some other way.
        axes: those of the output along which it varies.
    """

    name: str
    role: str
    axes: tuple[int, ...]


def parameters(box: Box, x: Tensor) -> list[Parameter]:
    """The role of each parameter on x (B, ...); gains become 1 and biases 0 in ``box``."""
    names = list(box.subject.parameters)
    gains = {name: found for name in names if (found := _gain(box, x, name))}
    for name, gain in gains.items():
        box.weights[name] = _filled(box, name, 2.0 if gain.role == "gain" else 1.0)
    roles = [gains.get(name) or _bias(box, x, name) for name in names]
    for role in roles:
        if role.role not in ("inside", "unused"):
            box.weights[role.name] = _filled(box, role.name, float(role.role == "gain"))
    return roles


def _filled(box: Box, name: str, value: float) -> Tensor:
    return torch.full_like(box.subject.parameters[name].data, value)


def _drawn(box: Box, name: str) -> Tensor:
    p = box.subject.parameters[name].data
    return (1.5 + normal(5, 0, p.numel()).abs().view_as(p)).to(p)


def _gain(box: Box, x: Tensor, name: str) -> Parameter | None:
    """A factor of what is left without the bias, whatever x."""
    zero, one = _filled(box, name, 0.0), _filled(box, name, 1.0)
    # y = gain * n(x) + bias and n(-x) = -n(x): the odd part is gain * n(x), and its ratio to
    # that of a gain of 1 is the gain, whatever x. What acts before the statistics changes n,
    # and with it the ratio.
    odd, drawn = box.odd(x, **{name: one}), {name: _drawn(box, name)}
    ratio = box.odd(x, **drawn) / odd
    elsewhere = 2 * x.flip(0) + 1
    again = box.odd(elsewhere, **drawn) / box.odd(elsewhere, **{name: one})
    if not alike(again, ratio, 1e-6) or alike(ratio, torch.ones_like(ratio), 1e-6):
        return None
    at_zero = box.odd(x, **{name: zero})
    if float(at_zero.abs().max()) <= SAME * float(odd.abs().max()):
        return Parameter(name, "gain", _varies(ratio))
    return Parameter(name, "gain, 1 + ", _varies(ratio)) if alike(odd, 2 * at_zero) else None


def _bias(box: Box, x: Tensor, name: str) -> Parameter:
    """A summand, behind the gain or before it; gains are 2 by now."""
    drawn, zero = {name: _drawn(box, name)}, {name: _filled(box, name, 0.0)}
    step, elsewhere = box(x, **drawn) - box(x, **zero), 2 * x.flip(0) + 1
    if not float(step.abs().max()):
        return Parameter(name, "unused", ())
    if not alike(box(elsewhere, **drawn) - box(elsewhere, **zero), step, 1e-6):
        return Parameter(name, "inside", ())
    # behind the gain a bias of 1 adds 1; before it, a gain of 2 makes it 2
    by_one = box(x, **{name: _filled(box, name, 1.0)}) - box(x, **zero)
    behind = alike(by_one, torch.ones_like(by_one), 1e-6)
    return Parameter(name, "bias" if behind else "bias, times the gain", _varies(step))


def _varies(v: Tensor) -> tuple[int, ...]:
    """The axes along which v is not constant."""
    means = [v.mean(axis, keepdim=True).expand_as(v) for axis in range(v.dim())]
    return tuple(axis for axis, mean in enumerate(means) if not alike(v, mean, 1e-6))


@dataclass(frozen=True)
class Divisor:
    """s(var) = (factor * var + eps) ** power, or with eps elsewhere.

    Attributes:
        centred: whether d is x less its mean.
        about_mean: whether var is about the mean; else the mean square.
        power: 1/2 for a root.
        factor: 1 for the biased variance, N/(N-1) for the unbiased.
        eps: the small number, 0 where none can be seen.
        place: of eps: "inside" the power, "outside", or "at least": s is never smaller.
    """

    centred: bool
    about_mean: bool
    power: float
    factor: float
    eps: float
    place: str


SIZES = (1e-30, *(10.0**k for k in range(-12, 3)), 1e6, 1e8)
"""Factors by which x is multiplied to see s."""


def divisor(box: Box, x: Tensor, over: Extent) -> Divisor | None:
    """The law by which s (B, ...) grows with var; None where y is not of the form d / s."""
    outputs = {size: box.odd(size * x) for size in SIZES}
    mean = over.mean(x)
    for centred in (True, False):
        d = x - mean if centred else x
        # By least squares in each statistic's extent: y = d / s.
        s = {size: size * over.mean(d * d) / over.mean(d * y) for size, y in outputs.items()}
        if all(alike(size * d / s[size], y, 1e-6) for size, y in outputs.items()):
            # x - mean over the root of mean x², or x over that of the variance, are half-made
            # copies: asked for where the form that belongs together does not fit
            for about_mean in (centred, not centred):
                var = over.mean((x - mean).square() if about_mean else x.square())
                found = _law(var, s)
                if found is not None:
                    return Divisor(centred, about_mean, *found)
    return None


def _law(var: Tensor, s: dict[float, Tensor]) -> tuple[float, float, float, str] | None:
    """(power, factor, eps, place) from s at each size of x."""
    # far above any eps s = (factor size² var)^power: its slope over log size is 2 power
    power = float((s[1e8] / s[1e6]).log().mean()) / (2 * math.log(1e2))
    # the sum of squares over N makes it 1, over N - 1 it is N/(N-1), the sum itself N
    factors = s[1e8] ** (1 / power) / (1e16 * var)
    factor = float(factors.mean())
    if not alike(factors, torch.full_like(factors, factor), 1e-6):
        return None
    plain = {size: (factor * size**2 * var) ** power for size in s}
    # far below it eps alone is left: eps^power inside the power, eps itself elsewhere
    floor = float(s[1e-30].mean())
    if alike(s[1e-30], plain[1e-30], 1e-6):
        return power, factor, 0.0, "inside"
    eps = floor ** (1 / power)
    models = {
        "inside": (eps, lambda p: (p ** (1 / power) + eps) ** power),
        "outside": (floor, lambda p: p + floor),
        "at least": (floor, lambda p: p.clamp(min=floor)),
    }
    for place, (eps, model) in models.items():
        if all(alike(model(plain[size]), s[size], 1e-5) for size in s):
            return power, factor, eps, place
    return None
