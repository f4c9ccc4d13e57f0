"""Is this really layer normalization? A normalizer told by what it computes.

Names are not trusted: many a module called LayerNorm divides by H - 1 or adds eps to sigma.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from itertools import chain, groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.instancenorm import _InstanceNorm

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.module_copy import (
    ModuleCopy,
    Read,
    Replacement,
    check_model,
    check_type,
    first_tensor,
)
from lnlab.analysis.random import normal
from lnlab.threads import in_one_thread

if TYPE_CHECKING:
    import pandas as pd


# The computation of a normalizer, found out from its outputs alone.
#
# Every normalizer with statistics is taken to be of the form
#
#     y = gain * d / s(var) + bias,      d = x - mean, or x,      var = mean of d²,
#
# mean and var over some axes of x. What the axes are, whether the mean is removed, how s grows
# with var and where its eps stands follow from how y answers to changes of x.


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

    def __init__(self, subject: ModuleCopy) -> None:
        self.subject = subject
        self.weights: dict[str, Tensor] = {}

    def __call__(self, x: Tensor, **weights: Tensor) -> Tensor:
        return self.subject.run(Replacement(x, {**self.weights, **weights})).y

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


# The operator of torch.nn that a normalizer comes nearest to.


@dataclass(frozen=True)
class Peer:
    """An operator of torch.nn, on inputs of a certain shape.

    Attributes:
        name: "LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm(4)", "InstanceNorm", or, where
            nothing tells them apart, "LayerNorm or InstanceNorm".
        axes: what its statistics run over.
        groups: into how many parts it cuts axis 1; 1 for all but GroupNorm.
        gain_axes: along which its gain may vary.
    """

    name: str
    axes: tuple[int, ...]
    gain_axes: tuple[int, ...]
    groups: int = 1

    @property
    def over_cases(self) -> bool:
        """True if its statistics are over the cases."""
        return 0 in self.axes

    def __call__(self, x: Tensor, eps: float) -> Tensor:
        """The operator without gain and bias, as torch computes it."""
        if self.name == "BatchNorm":
            (unit,) = (a for a in range(x.dim()) if a not in self.axes)
            moved = x.movedim(unit, 1)
            return F.batch_norm(moved, None, None, training=True, eps=eps).movedim(1, unit)
        if self.groups > 1:
            return F.group_norm(x, self.groups, eps=eps)
        last = tuple(range(-len(self.axes), 0))
        moved = x.movedim(self.axes, last)
        shape = moved.shape[-len(self.axes) :]
        operator = F.rms_norm if self.name == "RMSNorm" else F.layer_norm
        return operator(moved, shape, eps=eps).movedim(last, self.axes)


def nearest(over: Extent, law: Divisor, roles: list[Parameter], x: Tensor) -> Peer:
    """The operator whose statistics are most like those found on x (B, ...).

    The extent decides, then whether anything is centred; between operators that differ only
    in what the gain belongs to, the gain does.
    """
    gains = {axis for role in roles if role.role.startswith("gain") for axis in role.axes}
    of_case = tuple(range(1, x.dim()))
    if 0 in over.axes:
        unit = _unit_axis(over, gains, x)
        return Peer("BatchNorm", tuple(a for a in range(x.dim()) if a != unit), (unit,))
    if over.split is not None:
        return Peer(f"GroupNorm({over.groups})", of_case, (1,), over.groups)
    # The gain tells apart what has the same statistics: over a whole case (C, T), LayerNorm has
    # one for each of the C T values, GroupNorm of one group one for each of the C channels.
    joint = x.dim() > 2 and over.axes == of_case and gains == {1}
    if not (law.centred or law.about_mean):
        axes = over.axes if joint or not gains else tuple(sorted(gains))
        return Peer("RMSNorm", axes, axes)
    if joint:
        return Peer("GroupNorm(1)", of_case, (1,))
    if x.dim() > 2 and over.axes == of_case[1:] and gains <= {1}:
        # over T of (B, C, T) without a gain: LayerNorm(T) and InstanceNorm are one function
        either = x.dim() == 3 and not gains
        name = "LayerNorm or InstanceNorm" if either else "InstanceNorm"
        return Peer(name, over.axes, (1,))
    axes = tuple(sorted(gains)) or over.axes
    return Peer("LayerNorm", axes, axes)


def _unit_axis(over: Extent, gains: set[int], x: Tensor) -> int:
    """The axis that a batch normalization keeps apart: that of the gain, else the second."""
    rest = [axis for axis in range(x.dim()) if axis not in over.axes or axis == over.split]
    if len(gains) == 1 and gains <= set(rest):
        return gains.pop()
    return rest[0] if len(rest) == 1 else 1


# The findings of `conformance`: one finding a property, and how they are read.


NOTHING = "no normalizer"


@dataclass(frozen=True)
class Aspect:
    """One thing about a normalizer.

    Attributes:
        what: it is about.
        found: how the module does it.
        torch: how torch.nn's operator does it.
        wrong: whether that makes another function of it.
    """

    what: str
    found: str
    torch: str
    wrong: bool


@dataclass(frozen=True)
class Report:
    """The normalizer that a module turned out to be; prints as a table.

    Attributes:
        module: its class, which nothing is concluded from.
        kind: the operator of torch.nn that it is, or comes nearest to; "no normalizer".
        findings: one a property.
        over: the values that a statistic is taken over; None of what is no normalizer.
    """

    module: str
    kind: str
    findings: tuple[Aspect, ...]
    over: Extent | None = None

    @property
    def conforms(self) -> bool:
        """True if it is torch.nn's operator, eps and parameters aside."""
        return self.kind != NOTHING and not self.defects

    @property
    def defects(self) -> list[str]:
        """The lines on what is done otherwise."""
        return [f"{f.what}: {f.found}, not {f.torch}" for f in self.findings if f.wrong]

    def frame(self) -> pd.DataFrame:
        """One row a finding."""
        import pandas as pd

        return pd.DataFrame(self.findings)

    def _head(self) -> str:
        if self.kind == NOTHING:
            return f"{self.module} is {self.kind} that torch.nn has"
        if self.conforms:
            return f"{self.module} is {self.kind}"
        return f"{self.module} comes nearest to {self.kind}, but for {len(self.defects)} things"

    def __str__(self) -> str:
        rows = [("", "found", "torch.nn")] + [
            (f"{'!' if f.wrong else ' '} {f.what}", f.found, f.torch) for f in self.findings
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) for text, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self._head(), *lines])

    def _repr_html_(self) -> str:
        import pandas as pd

        rows = [(("! " if f.wrong else "") + f.what, f.found, f.torch) for f in self.findings]
        table = pd.DataFrame(rows, columns=["", "found", "torch.nn"])
        return f"<p>{escape(self._head())}</p>{table.to_html(index=False, border=0)}"


# The memory that a normalizer has of its batches, found out from its outputs alone.


@dataclass(frozen=True)
class Running:
    """The memory that evaluation has of a training batch.

    Attributes:
        momentum: the weight of the newest batch, 0.1 in torch; None where all batches weigh
            alike; NaN where it follows no such rule.
        variance: what is averaged: "biased variance", "unbiased variance", "biased sigma",
            "unbiased sigma", or "unknown".
    """

    momentum: float | None
    variance: str


@torch.no_grad()
def running(box: Box, x: Tensor, over: Extent, law: Divisor) -> Running | None:
    """The memory of batches like x (B, ...); None where evaluation knows nothing of them.

    Evaluation then is an affine map of each unit, and slope and offset of it give away the
    mean and variance that are remembered.

    Args:
        box: the module in training mode, gains 1 and biases 0.
        x: a batch.
        over: what statistics run over in training.
        law: how they enter.
    """
    module = deepcopy(box.subject.module)
    for name, value in box.weights.items():
        module.get_parameter(name).data = value

    def evaluate(x: Tensor) -> Tensor:
        module.eval()
        return box.subject.read(module(x)).clone()

    if not _elementwise(evaluate, x):
        return None
    seen = [_remembered(evaluate, x, law)]
    batches = (x, 2 * x.flip(0) + 1)
    for batch in batches:
        module.train()
        module(batch)
        seen.append(_remembered(evaluate, x, law))
    return _rule(seen, batches, over)


def _elementwise(evaluate: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """True if each y is an affine function of its own x."""
    # an affine function has no second difference, and one x nudged moves one y
    bend = evaluate(x + 2) - 2 * evaluate(x + 1) + evaluate(x)
    nudged = x.clone()
    nudged[(0,) * x.dim()] += 1
    reached = int((evaluate(nudged) != evaluate(x)).sum())
    return reached == 1 and float(bend.abs().max()) < 1e-9


def _remembered(
    evaluate: Callable[[Tensor], Tensor], like: Tensor, law: Divisor
) -> tuple[Tensor, Tensor]:
    """(mean, variance), each in the shape of x: y = (x - mean) / s(variance)."""
    # y(0) = -mean / s and y(1) - y(0) = 1 / s, then s = var ** power, with eps where it stands
    offset = evaluate(torch.zeros_like(like))
    slope = evaluate(torch.ones_like(like)) - offset
    s = 1 / slope
    if law.place == "outside":
        s = s - law.eps
    var = s ** (1 / law.power)
    return -offset / slope, var - law.eps if law.place == "inside" else var


def _rule(
    seen: list[tuple[Tensor, Tensor]], batches: tuple[Tensor, ...], over: Extent
) -> Running:
    """The momentum from the means, then the estimator from the variances."""
    weights = []
    for (before, _), (after, _), batch in zip(seen, seen[1:], batches, strict=False):
        # after = before + momentum (mean of the batch - before): momentum by least squares
        towards, step = over.mean(batch) - before, after - before
        weight = float((step * towards).mean() / towards.square().mean())
        weights.append(weight if alike(before + weight * towards, after, 1e-6) else torch.nan)
    first, second = weights
    momentum = first if abs(first - second) < 1e-6 else torch.nan
    # a mean of all batches gives the n-th the weight 1/n
    if abs(first - 1) < 1e-6 and abs(second - 0.5) < 1e-6:
        momentum = None
    return Running(momentum, _estimator(seen[0][1], seen[1][1], batches[0], first, over))


def _estimator(
    before: Tensor, after: Tensor, batch: Tensor, weight: float, over: Extent
) -> str:
    """The estimate of the batch's variance that moved the remembered one."""
    biased = over.mean((batch - over.mean(batch)).square())
    unbiased = biased * (over.size / (over.size - 1))
    if not abs(weight) > 1e-9:
        return "unknown"
    for what, root in (("variance", 1.0), ("sigma", 0.5)):
        # after = before + weight (target - before), solved for what the batch brought in
        target = before**root + (after**root - before**root) / weight
        for name, estimate in (("biased", biased), ("unbiased", unbiased)):
            if alike(target, estimate**root, 1e-6):
                return f"{name} {what}"
    return "unknown"


CASES = 8
"""At least so many cases are made up: statistics of one or two values say nothing."""

LARGE_MEAN = 1e4
UNBIASED = "unbiased variance"
PARTS = 4
"""The most parts of an axis that are told: where there are more, no place sets inputs apart."""


@in_one_thread
def conformance(
    module: nn.Module, x: Tensor | None = None, *, read: Read = first_tensor
) -> Report:
    """Tell what a normalizer computes, and where that is not what torch.nn's does.

    It is a black box in float64: what statistics run over, whether the mean is removed, the
    estimator of the variance, what it is divided by, where eps stands and what it is, what
    gains and biases do, what is remembered for evaluation, and whether the variance cancels
    in float32. The module itself is not touched.

    Args:
        module: the normalizer; its output has the shape of its input.
        x: an input, of which only the shape is used, and the device where the module has no
            tensor of its own; None: made up from the module's ``normalized_shape``,
            ``num_features``, ``num_channels`` or ``units``.
        read: what is judged.

    Raises:
        TypeError: where ``module`` is none, or x no tensor.
        ValueError: where no input can be made up, the module does not take one, or its
            output has another shape.
    """
    check_model(module)
    if x is not None:
        check_type("x", x, Tensor, "an input of the shape that the module takes")
    if x is not None and x.dim() < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: give cases along the first axis.")
    own = chain(module.parameters(), module.buffers(), () if x is None else (x,))
    device = next((tensor.device for tensor in own), torch.device("cpu"))
    shape = _shape(module, device) if x is None else (max(CASES, len(x)), *x.shape[1:])
    # a mean of 1/2, a deviation of 2: where they are not removed, it shows
    z = (2 * normal(3, 0, *shape) + 0.5).to(device)
    training, evaluation = (
        Box(ModuleCopy(module, z, dtype=torch.float64, bn_stats=statistics, read=read))
        for statistics in ("batch", "running")
    )
    y = training(z)
    if y.shape != z.shape:
        raise ValueError(
            f"{type(module).__name__} makes {tuple(y.shape)} of {tuple(z.shape)}: conformance "
            "is for normalizers, which keep the shape; certify takes any module."
        )
    return _report(module, training, evaluation, z)


def _shape(module: nn.Module, device: torch.device) -> tuple[int, ...]:
    """A shape that ``module``, on this device, says it takes."""
    if (shape := getattr(module, "normalized_shape", None)) is not None:
        return CASES, *((shape,) if isinstance(shape, int) else shape)
    if (units := getattr(module, "units", None)) is not None:
        return CASES, units, *(4,) * getattr(module, "space", 0)
    if (channels := getattr(module, "num_channels", None)) is not None:
        return CASES, channels, 5
    if (channels := getattr(module, "num_features", None)) is not None:
        for space in ((), (5,), (4, 4), (3, 3, 3))[isinstance(module, _InstanceNorm) :]:
            x = torch.zeros(CASES, channels, *space, device=device)
            try:
                ModuleCopy(module, x, dtype=torch.float64).run()
            except ValueError:
                continue
            return CASES, channels, *space
    raise ValueError(
        f"{type(module).__name__} does not say what it normalizes: give x, an input of the "
        "shape that it takes."
    )


def _report(module: nn.Module, training: Box, evaluation: Box, z: Tensor) -> Report:
    name = type(module).__name__
    over, differing = _extent_of(training, z)
    if differing:
        return Report(name, NOTHING, tuple(differing))
    # two values are -1 and 1 once they are normalized, whatever they were
    if over is None or over.size < 3:
        return Report(name, NOTHING, (_no_statistics(over),))
    roles = parameters(training, z)
    evaluation.weights = training.weights
    law = divisor(training, z, over)
    if law is None:
        form = Aspect("form", "no multiple of x or of x - mean", "(x - mean) / sigma", True)
        return Report(name, NOTHING, (_over(over, z, over.axes), form))
    peer = nearest(over, law, roles, z)
    findings = [
        _over(over, z, peer.axes),
        *_of_law(law, over, peer),
        *(_of_parameter(role, peer) for role in roles),
        *_of_evaluation(training, evaluation, z, over, law, peer),
        *_of_precision(module, training, peer, law),
        _difference(training, z, law, peer),
    ]
    if float(training.even(z).abs().max()) > SAME:
        findings.append(Aspect("sign", "y(-x) is not -y(x)", "y(-x) = -y(x)", True))
    return Report(name, peer.name, tuple(findings), over)


def _extent_of(training: Box, z: Tensor) -> tuple[Extent | None, list[Aspect]]:
    """Over what statistics run, behind gains of 0 too; or what is said where that differs."""
    open_gains(training)
    over, differing = extent(training, z), extents(training, z)
    training.weights.clear()
    return over, [_differing(axis, found) for axis, found in differing]


def _differing(axis: int, found: dict[int, Extent | None]) -> Aspect:
    """The places along an axis, and what their statistics are over: "0 to 5: of 6 values"."""
    places, said = list(found), []
    for _, group in groupby(range(len(places)), key=lambda i: found[places[i]]):
        run = list(group)
        first, last = places[run[0]], places[run[-1]]
        said.append(f"{first} to {last}: {_of(found[first])}")
    if len(said) > PARTS:
        said = ["of inputs that their values choose, as by a median or a maximum"]
    return Aspect(
        "statistics", f"along axis {axis}, {'; '.join(said)}", "the same for all", True
    )


def _of(over: Extent | None) -> str:
    if over is None:
        return "of no regular set of inputs"
    if over.size == 1:
        return "none, each output depends on its own input alone"
    return f"of {over.size} values"


def _axes(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


def _no_statistics(over: Extent | None) -> Aspect:
    found = _of(over)
    if over is not None and over.size > 1:
        found += ": too few to tell what is done with them; give a larger x"
    return Aspect("statistics", found, "over axes of x", True)


def _over(over: Extent, z: Tensor, right: tuple[int, ...]) -> Aspect:
    part = "" if over.split is None else f", axis {over.split} in {over.groups} parts"
    found = f"{_axes(over.axes)} of {tuple(z.shape)}{part}: {over.size} values"
    wrong = _wide(over.axes, z) != _wide(right, z) or (
        over.split is not None and (over.split, 0) != (1, right[0] - 1)
    )
    return Aspect("statistics over", found, _axes(right), wrong)


def _wide(axes: tuple[int, ...], z: Tensor) -> tuple[int, ...]:
    """The axes along which z has several values: over the others nothing can run."""
    return tuple(axis for axis in axes if z.shape[axis] > 1)


def _of_law(law: Divisor, over: Extent, peer: Peer) -> list[Aspect]:
    """The lines on what is subtracted and what is divided by."""
    centring = peer.name != "RMSNorm"
    means = {(True, True): "removed", (False, False): "kept"}
    mean = means.get(
        (law.centred, law.about_mean),
        "removed, but not from the variance"
        if law.centred
        else "kept, but not in the variance",
    )
    right_mean = "removed" if centring else "kept"
    square = "variance" if law.about_mean else "mean square"
    found, wrong = _factor(law.factor, over.size)
    root = "its root" if abs(law.power - 0.5) < 1e-6 else f"its power {law.power:.3g}"
    places = {
        "inside": f"{law.eps:.1e} added to the {square}",
        "outside": f"{law.eps:.1e} added to sigma",
        "at least": f"sigma at least {law.eps:.1e}",
    }
    eps = places[law.place] if law.eps else "none"
    return [
        Aspect("mean", mean, right_mean, mean != right_mean),
        Aspect(square, found, "1/N", wrong),
        Aspect("divided by", root, "its root", root != "its root"),
        Aspect("eps", eps, f"added to the {square}", bool(law.eps) and law.place != "inside"),
    ]


def _factor(factor: float, N: int) -> tuple[str, bool]:
    """The divisor of the sum of squares, or what it makes of the outputs."""
    known = {
        1.0: ("1/N", False),
        N / (N - 1): ("1/(N-1), unbiased", True),
        float(N): ("the sum: outputs 1/sqrt(N) as large", True),
        float(N) ** 2: ("N times the sum: outputs 1/N as large", True),
    }
    for value, said in known.items():
        if math.isclose(factor, value, rel_tol=1e-6):
            return said
    return f"{factor:.6g}/N: outputs {factor**-0.5:.4g} times as large", True


def _of_parameter(role: Parameter, peer: Peer) -> Aspect:
    """A gain behind the statistics along the peer's axes, a bias behind the gain."""
    said = {
        "gain": "multiplies the normalized",
        "gain, 1 + ": "1 + it multiplies the normalized",
        "bias": "added last",
        "bias, times the gain": "added before the gain multiplies",
        "unused": "unused",
        "inside": "acts before the statistics are taken, or on none of this form",
    }[role.role]
    along = f", along {_axes(role.axes)}" if role.axes else ""
    plain = role.role in ("gain", "bias", "unused")
    right = "added last" if role.role.startswith("bias") else "multiplies the normalized"
    wrong = not plain or not set(role.axes) <= set(peer.gain_axes)
    return Aspect(role.name, said + along, f"{right}, along {_axes(peer.gain_axes)}", wrong)


def _of_evaluation(
    training: Box, evaluation: Box, z: Tensor, over: Extent, law: Divisor, peer: Peer
) -> list[Aspect]:
    """The lines on what it does in evaluation, and what it remembers for that."""
    if not peer.over_cases:
        same = alike(evaluation(z), training(z))
        found = "as training" if same else "another function"
        return [Aspect("evaluation", found, "as training", not same)]
    remembered = running(training, z, over, law)
    if remembered is None:
        found = "by the statistics of its own batch"
        return [Aspect("evaluation", found, "by running statistics", True)]
    m = remembered.momentum
    weight = "all batches alike" if m is None else f"{m:.3g} for the newest batch"
    variance = remembered.variance
    return [
        Aspect("evaluation", "by running statistics", "by running statistics", False),
        Aspect("momentum", weight, "0.1 for the newest batch", m is not None and math.isnan(m)),
        Aspect("running variance", variance, UNBIASED, variance != UNBIASED),
    ]


def _of_precision(module: nn.Module, training: Box, peer: Peer, law: Divisor) -> list[Aspect]:
    """The line on whether mean(x²) - mean(x)² cancels: float32 at a mean of 1e4.

    With gains of 1 and biases of 0: a gain of 0, or a large bias, would hide it.
    """
    if not law.about_mean:
        return []
    # mean x² is 1e8 here, which float32 holds to the nearest 8: of mean(x²) - mean(x)², a
    # variance of 1, nothing is left, while the mean of (x - mean)² has all its digits
    z = training.subject.x
    x = (LARGE_MEAN + normal(4, 0, *z.shape)).float().to(z.device)
    try:
        single = ModuleCopy(
            module, x, dtype=torch.float32, bn_stats="batch",
            read=training.subject.read,
        )  # fmt: skip
        weights = {name: w.float() for name, w in training.weights.items()}
        y = single.run(Replacement(x, weights)).y
    except ValueError:
        return []
    error = relative_change(y, training(x.double()))
    torchs = relative_change(peer(x, 1e-5), peer(x.double(), 1e-5))
    wrong = not error <= max(0.05, 10 * torchs)
    found = f"off by {error:.1g}" + (", the variance cancels" if wrong else "")
    return [Aspect("float32 at mean 1e4", found, f"off by {torchs:.1g}", wrong)]


def _difference(training: Box, z: Tensor, law: Divisor, peer: Peer) -> Aspect:
    """The difference of the outputs from torch's, gains 1 and biases 0."""
    # with torch's own eps where there is one in another place, so that the place alone is what
    # differs; 1e-300 stands for none, which torch does not take
    eps = law.eps if law.place == "inside" and law.eps else 1e-5 if law.eps else 1e-300
    off = (training(z) - peer(z, eps)).abs()
    largest = float(off.max())
    where = tuple((off == off.max()).nonzero()[0].tolist())
    same = largest < SAME
    found = "nothing" if same else f"up to {largest:.2g}, at {where}"
    return Aspect(f"differs from {peer.name} by", found, "nothing", not same)
