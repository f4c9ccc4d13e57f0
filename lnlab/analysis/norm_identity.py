"""Is this really layer normalization? A normalizer identified by what it computes.

Names are not trusted: many a module called LayerNorm divides by H - 1 or adds eps to sigma.
Every normalizer with statistics is taken to be of the form

    y = gain * d / s(var) + bias,      d = x - mean, or x,      var = mean of d²,

mean and var over some axes of x. What the axes are, whether the mean is removed, how s grows
with var and where its eps stands follow from how y responds to changes of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lnlab.analysis.magnitudes import relative_max_change
from lnlab.analysis.module_copy import (
    InputAndWeightOverrides,
    ModuleCopy,
    SelectOutput,
    check_model,
    check_nonempty_tensor,
    check_real,
    default_rms_eps,
    first_tensor,
)
from lnlab.analysis.random import normal
from lnlab.analysis.result import DataFrame, TextResult, make_frame
from lnlab.threads import in_one_thread_if_small

# The module as a black box.


CONSTANT = "the outputs do not depend on x"
"""The finding about a norm whose statistics are over one value."""

SAME = 1e-9
"""Relative difference of two outputs in float64 below which they are one."""

SAME_IN_FLOAT32 = 2e-6
"""The same for a module that casts its input to float32: some 16 units of rounding."""


class BlackBox:
    """A module in float64 of which only inputs and outputs are compared."""

    def __init__(self, module: ModuleCopy) -> None:
        self.module = module
        self.weights: dict[str, Tensor] = {}  # parameters by name, in place of its own
        self.computes_float64_in_float32 = (
            module.effective_output_dtype is not torch.float64
        )  # although its input is float64
        self.same = SAME_IN_FLOAT32 if self.computes_float64_in_float32 else SAME
        # of differences of outputs and of ratios, which lose some digits
        self.close = 1e-5 if self.computes_float64_in_float32 else 1e-6

    def __call__(self, x: Tensor, **weights: Tensor) -> Tensor:
        return self.module.run(InputAndWeightOverrides(x, {**self.weights, **weights})).y

    def odd_part(self, x: Tensor, **weights: Tensor) -> Tensor:
        """Return half of y(x) - y(-x), x (B, ...): what is left without the bias."""
        return (self(x, **weights) - self(-x, **weights)) / 2

    def constant_like_parameter(self, name: str, value: float) -> Tensor:
        """Return a parameter's shape full of ``value``."""
        return torch.full_like(self.module.parameters[name].data, value)

    def random_like_parameter(self, name: str) -> Tensor:
        """Return a parameter's shape of random numbers above 1.5."""
        p = self.module.parameters[name].data
        return (1.5 + normal(5, 0, p.numel()).abs().view_as(p)).to(p)


def _are_close(first: Tensor, second: Tensor, tolerance: float = SAME) -> bool:
    """Return True if two outputs are the same but for rounding."""
    return float((first - second).abs().max()) <= tolerance * float(second.abs().max())


# The values that a statistic is taken over.


@dataclass(frozen=True)
class StatisticExtent:
    """The values that one statistic is taken over."""

    axes: tuple[int, ...]  # those of x
    # the one of them that is cut into groups, each with a statistic; None: none is
    split_axis: int | None = None
    groups: int = 1  # into how many it is cut
    size: int = 0  # how many values one statistic is taken of; 0: not counted
    # whether a group is every so many-th index of the split axis; else they are consecutive
    is_interleaved: bool = False

    def unflatten_split_axis(self, x: Tensor) -> Tensor:
        """Return x (B, ...) with the split axis cut into groups and their members.

        It becomes (groups, members), or (members, groups) where groups are interleaved.
        """
        if self.split_axis is None:
            return x
        shape = (-1, self.groups) if self.is_interleaved else (self.groups, -1)
        return x.unflatten(self.split_axis, shape)

    @property
    def axes_after_split(self) -> tuple[int, ...]:
        """The axes of :meth:`unflatten_split_axis` that a statistic is taken over."""
        if self.split_axis is None:
            return self.axes
        # one axis more before these
        first = self.split_axis + self.is_interleaved
        return tuple(a + (a >= first) for a in self.axes)

    def expanded_mean(self, x: Tensor) -> Tensor:
        """Return the mean over the extent, in the shape of x (B, ...)."""
        grouped = self.unflatten_split_axis(x)
        return (
            grouped.mean(self.axes_after_split, keepdim=True)
            .expand_as(grouped)
            .reshape(x.shape)
        )

    def __str__(self) -> str:
        if self.size == 1:
            return "none: pointwise, each output depends on its own input alone"
        return f"of {self.size} values"


IRREGULAR = "of a set of inputs that was not recognized"
"""The words for values that are no :class:`StatisticExtent`."""


def find_extent_by_axis_position(
    box: BlackBox, x: Tensor, axis: int, *, max_positions: int = 64
) -> dict[int, StatisticExtent | None]:
    """Return the extents of at most so many inputs x (B, ...) along an axis by position."""
    middle = [n // 2 for n in x.shape]
    positions = range(0, x.shape[axis], -(-x.shape[axis] // max_positions))
    indices = {p: (*middle[:axis], p, *middle[axis + 1 :]) for p in positions}
    return {position: find_extent(box, x, index) for position, index in indices.items()}


def find_extent(
    box: BlackBox, x: Tensor, changed_index: tuple[int, ...] | None = None
) -> StatisticExtent | None:
    """Return the outputs that a change of one input of x (B, ...) reaches, if they are one.

    ``changed_index`` is that of the input; None: the middle.
    """
    if changed_index is None:
        changed_index = tuple(n // 2 for n in x.shape)
    y = box(x)
    reached = torch.zeros_like(y, dtype=torch.bool)
    # all values that share a statistic with the one that is changed, and no other: changed
    # twice, as one of thousands of outputs may stay the same by chance
    for step in (5.0, -3.0):
        changed = x.clone()
        changed[changed_index] += step
        reached |= (box(changed) - y).abs() > SAME * float(y.abs().max())
    if not bool(reached.any()):
        reached[changed_index] = True  # pointwise, and flat there, as a ReLU below 0
    lines = [
        reached[tuple(slice(None) if i == a else n for i, n in enumerate(changed_index))]
        for a in range(x.dim())
    ]
    # a statistic runs over a box of axes: what is reached must be the product of its lines
    product = torch.ones_like(reached)
    for axis, line in enumerate(lines):
        product &= line.reshape(tuple(-1 if i == axis else 1 for i in range(x.dim())))
    if not torch.equal(product, reached):
        return None
    members = {a: int(line.sum()) for a, line in enumerate(lines) if line.sum() > 1}
    partly = [a for a, n in members.items() if n < x.shape[a]]
    if len(partly) > 1 or any(x.shape[a] % members[a] for a in partly):
        return None
    size = int(reached.sum())
    if not partly:
        return StatisticExtent(tuple(members), size=size)
    (split,) = partly
    groups = x.shape[split] // members[split]
    index = torch.arange(x.shape[split], device=x.device)
    for is_interleaved in (False, True):
        group_of = index % groups if is_interleaved else index // members[split]
        if torch.equal(lines[split], group_of == group_of[changed_index[split]]):
            return StatisticExtent(tuple(members), split, groups, size, is_interleaved)
    return None


# The roles of the parameters.


@dataclass(frozen=True)
class ParameterRole:
    """The role of a parameter of a normalizer."""

    name: str  # of the parameter
    role: str  # a key of :data:`ROLES`
    axes: tuple[int, ...] = ()  # those of the output along which it varies
    # whether a gain that is a function of it is 1 where it is 0, as an exponential is
    is_1_at_0: bool = False


ROLES = {
    "gain": "multiplies the normalized",
    "gain, 1 + ": "1 + it multiplies the normalized",
    "gain, other": "a function of it multiplies the normalized",
    "bias": "added last",
    "bias, times the gain": "added before the gain multiplies",
    "unused": "unused",
    "inside": "acts before the statistics, or in another way",
}


def find_roles_and_reset_affine(box: BlackBox, x: Tensor) -> list[ParameterRole]:
    """Return the role of each parameter on x (B, ...), and set gains to 1 and biases to 0."""
    names = list(box.module.parameters)
    gains = {name: gain for name in names if (gain := _gain_role(box, x, name))}
    for name, gain in gains.items():
        box.weights[name] = box.constant_like_parameter(
            name, 1.0 if gain.role == "gain, 1 + " else 2.0
        )
    roles = [gains.get(name) or _bias_or_other_role(box, x, name) for name in names]
    for role in roles:
        if role.role not in ("inside", "unused"):
            start = role.role == "gain" or (role.role == "gain, other" and not role.is_1_at_0)
            box.weights[role.name] = box.constant_like_parameter(role.name, float(start))
    return roles


def _gain_role(box: BlackBox, x: Tensor, name: str) -> ParameterRole | None:
    """Return the role if it is a factor of what is left without the bias, whatever x."""
    one = box.constant_like_parameter(name, 1.0)
    # y = gain * n(x) + bias and n(-x) = -n(x): the odd part is gain * n(x), and its ratio to
    # that of a gain of 1 is the gain, whatever x. What acts before the statistics changes n,
    # and with it the ratio. Ratios are compared crosswise, as n(x) may be near 0.
    elsewhere, random = 2 * x.flip(0) + 1, {name: box.random_like_parameter(name)}
    odd, odd_elsewhere = (box.odd_part(each, **{name: one}) for each in (x, elsewhere))
    scaled, scaled_elsewhere = (box.odd_part(each, **random) for each in (x, elsewhere))
    same_ratio = _are_close(scaled * odd_elsewhere, scaled_elsewhere * odd, box.close)
    if not same_ratio or _are_close(scaled, odd, box.close):
        return None
    larger = odd.abs() > odd_elsewhere.abs()
    ratio = torch.where(larger, scaled / odd, scaled_elsewhere / odd_elsewhere)
    axes = _varying_axes(ratio, box.close)
    at_zero, at_half, at_minus_two = (
        box.odd_part(x, **{name: box.constant_like_parameter(name, value)})
        for value in (0.0, 0.5, -2.0)
    )
    is_0_at_0 = float(at_zero.abs().max()) <= box.same * float(odd.abs().max())
    step = odd - at_zero
    is_linear = all(
        _are_close(made, at_zero + value * step, box.close)
        for value, made in ((0.5, at_half), (-2.0, at_minus_two))
    )
    if is_linear and is_0_at_0:
        return ParameterRole(name, "gain", axes)
    if is_linear and _are_close(odd, 2 * at_zero, box.same):
        return ParameterRole(name, "gain, 1 + ", axes)
    return ParameterRole(name, "gain, other", axes, is_1_at_0=not is_0_at_0)


def _bias_or_other_role(box: BlackBox, x: Tensor, name: str) -> ParameterRole:
    """Return the role of a summand, after the gain or before it; gains are 2 by now."""
    random = {name: box.random_like_parameter(name)}
    zero = {name: box.constant_like_parameter(name, 0.0)}
    step, elsewhere = box(x, **random) - box(x, **zero), 2 * x.flip(0) + 1
    if not float(step.abs().max()):
        return ParameterRole(name, "unused")
    if not _are_close(box(elsewhere, **random) - box(elsewhere, **zero), step, box.close):
        return ParameterRole(name, "inside")
    # after the gain a bias of 1 adds 1; before it, a gain of 2 makes it 2
    by_one = box(x, **{name: box.constant_like_parameter(name, 1.0)}) - box(x, **zero)
    last = _are_close(by_one, torch.ones_like(by_one), box.close)
    role = "bias" if last else "bias, times the gain"
    return ParameterRole(name, role, _varying_axes(step, box.close))


def _varying_axes(v: Tensor, tolerance: float) -> tuple[int, ...]:
    """Return the axes along which v is not constant."""
    means = [v.mean(axis, keepdim=True).expand_as(v) for axis in range(v.dim())]
    return tuple(axis for axis, mean in enumerate(means) if not _are_close(v, mean, tolerance))


# What the deviation is divided by.


@dataclass(frozen=True)
class Divisor:
    """s(var) = (factor * var + eps) ** exponent, or with eps elsewhere."""

    is_numerator_centred: bool  # whether d is x less its mean
    is_variance_about_mean: bool  # whether var is about the mean; else the mean square
    variance_exponent: float  # 1/2 for a root
    variance_factor: float  # 1 for the biased variance, N/(N-1) for the unbiased
    eps: float  # the small number, 0 if none can be seen
    eps_position: str  # : "inside" the bracket, "outside", or "at least": s is never smaller


SCALES = (1e-30, *(10.0**k for k in range(-12, 3)), 1e6, 1e8)
"""Factors by which x is multiplied to see s."""


def find_divisor(box: BlackBox, x: Tensor, over: StatisticExtent) -> Divisor | None:
    """Return the law by which s (B, ...) grows with var; None if y is not of the form d / s."""
    outputs = {scale: box.odd_part(scale * x) for scale in SCALES}
    mean = over.expanded_mean(x)
    for centred in (True, False):
        d = x - mean if centred else x
        # by least squares in the extent of each statistic: y = d / s
        s = {
            k: k * over.expanded_mean(d * d) / over.expanded_mean(d * y)
            for k, y in outputs.items()
        }
        if all(_are_close(k * d / s[k], y, 1e-6) for k, y in outputs.items()):
            # x - mean over the root of mean x², or x over that of the variance, are half-made
            # copies: tried if the form that belongs together does not fit
            for about_mean in (centred, not centred):
                var = over.expanded_mean((x - mean).square() if about_mean else x.square())
                law = _fit_power_factor_eps_position(var, s)
                if law is not None:
                    return Divisor(centred, about_mean, *law)
    return None


def _fit_power_factor_eps_position(
    var: Tensor, s: dict[float, Tensor]
) -> tuple[float, float, float, str] | None:
    """Return (power, factor, eps, place) from s at each scale of x."""
    # far above any eps s = (factor scale² var)^power: its slope over log scale is 2 power
    power = float((s[1e8] / s[1e6]).log().mean()) / (2 * math.log(1e2))
    # the sum of squares over N makes it 1, over N - 1 it is N/(N-1), the sum itself N
    factors = s[1e8] ** (1 / power) / (1e16 * var)
    factor = float(factors.mean())
    if not _are_close(factors, torch.full_like(factors, factor), 1e-6):
        return None
    plain = {scale: (factor * scale**2 * var) ** power for scale in s}
    # far below it eps alone is left: eps^power inside the power, eps itself elsewhere
    floor = float(s[1e-30].mean())
    if _are_close(s[1e-30], plain[1e-30], 1e-6):
        return power, factor, 0.0, "inside"
    eps = floor ** (1 / power)
    models = {
        "inside": (eps, lambda p: (p ** (1 / power) + eps) ** power),
        "outside": (floor, lambda p: p + floor),
        "at least": (floor, lambda p: p.clamp(min=floor)),
    }
    for place, (value, model) in models.items():
        if all(_are_close(model(plain[scale]), s[scale], 1e-5) for scale in s):
            return power, factor, value, place
    return None


# The operator of torch.nn that a normalizer comes nearest to.


@dataclass(frozen=True)
class TorchOperator:
    """An operator of torch.nn without gain and bias."""

    # "LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm(4)", "InstanceNorm", or, if nothing
    # distinguishes them, "LayerNorm or InstanceNorm"
    name: str
    # the values of its statistics; torch.nn cuts no axis but 1 into groups
    over: StatisticExtent
    gain_axes: tuple[int, ...]  # along which its gain may vary

    def __call__(self, x: Tensor, eps: float) -> Tensor:
        d = x if self.name == "RMSNorm" else x - self.over.expanded_mean(x)
        return d / (self.over.expanded_mean(d.square()) + eps).sqrt()


def nearest_torch_operator(
    over: StatisticExtent,
    divisor: Divisor,
    roles: list[ParameterRole],
    x: Tensor,
    *,
    has_running_statistics: bool,
) -> TorchOperator:
    """Return the operator whose statistics are most like those found on x (B, ...).

    The extent decides, then whether anything is centred; between operators that differ only in
    what the gain belongs to, the gain does. What is over the whole of x comes nearest to batch
    norm if it keeps running statistics, else to an operator over the axes of an example.
    """
    gains = {axis for role in roles if role.role.startswith("gain") for axis in role.axes}
    of_example = tuple(range(1, x.dim()))
    is_over_all = all(axis in over.axes for axis in range(x.dim()) if x.shape[axis] > 1)
    if is_over_all and over.split_axis is None and not has_running_statistics:
        over = StatisticExtent(of_example)
    if 0 in over.axes:
        # the axis of the gain is that of the units, else the one that is left, else the second
        rest = [a for a in range(x.dim()) if a not in over.axes or a == over.split_axis]
        unit = rest[0] if len(rest) == 1 else 1
        if len(gains) == 1 and gains <= set(rest):
            (unit,) = gains
        others = tuple(a for a in range(x.dim()) if a != unit)
        return TorchOperator("BatchNorm", StatisticExtent(others), (unit,))
    if over.split_axis is not None and over.split_axis > 1 and over.axes == (over.split_axis,):
        name = (
            "LayerNorm"
            if divisor.is_numerator_centred or divisor.is_variance_about_mean
            else "RMSNorm"
        )
        return TorchOperator(name, StatisticExtent(over.axes), over.axes)
    if over.split_axis is not None:
        return TorchOperator(
            f"GroupNorm({over.groups})", StatisticExtent(of_example, 1, over.groups), (1,)
        )
    # The gain distinguishes what has the same statistics: over a whole example (C, T),
    # LayerNorm has one for each of the C T values, GroupNorm of one group one for each of the C
    # channels. Along an axis of a single value no statistic can be seen to run.
    seen = tuple(axis for axis in of_example if x.shape[axis] > 1 or axis in over.axes)
    joint = x.dim() > 2 and over.axes == seen and gains == {1}
    is_per_channel = x.dim() > 2 and over.axes == of_example[1:]
    if not (divisor.is_numerator_centred or divisor.is_variance_about_mean):
        if is_per_channel and gains == {1}:  # as filter response norm: but for the mean
            return TorchOperator("InstanceNorm", over, (1,))
        axes = over.axes if joint or not gains else tuple(sorted(gains))
        return TorchOperator("RMSNorm", StatisticExtent(axes), axes)
    if joint:
        return TorchOperator("GroupNorm(1)", StatisticExtent(of_example), (1,))
    if is_per_channel and gains <= {1}:
        # over T of (B, C, T) without a gain: LayerNorm(T) and InstanceNorm are one function
        either = x.dim() == 3 and not gains
        name = "LayerNorm or InstanceNorm" if either else "InstanceNorm"
        return TorchOperator(name, over, (1,))
    axes = tuple(sorted(gains)) or over.axes
    return TorchOperator("LayerNorm", StatisticExtent(axes), axes)


# The running statistics that a normalizer keeps of its batches.


@torch.no_grad()
def find_momentum_and_variance_estimator(
    box: BlackBox, x: Tensor, over: StatisticExtent, divisor: Divisor
) -> tuple[float | None, str] | None:
    """Return the momentum of running statistics, and the estimate of the variance in them.

    ``box`` is in training mode, gains 1 and biases 0, x a batch (B, ...). The momentum is the
    weight of the newest batch, 0.1 in torch, None if all batches weigh alike, NaN if it follows
    no such rule; the estimate "biased variance", "mean square" and the like, or "unknown".
    None if evaluation does not depend on the batches.
    """
    module = deepcopy(box.module.module)
    for name, value in box.weights.items():
        module.get_parameter(name).data = value

    def evaluate(x: Tensor) -> Tensor:
        module.eval()
        return box.module.select_output(module(x.clone())).clone()

    # an affine function has no second difference, and one x nudged moves one y
    curvature = evaluate(x + 2) - 2 * evaluate(x + 1) + evaluate(x)
    nudged = x.clone()
    nudged[(0,) * x.dim()] += 1
    changed = int((evaluate(nudged) != evaluate(x)).sum())
    if changed != 1 or not float(curvature.abs().max()) < 1e-9:
        return None
    batches = x, 2 * x.flip(0) + 1
    kept = [_read_running_stats(evaluate, x, divisor)]
    for batch in batches:
        module.train()
        module(batch.clone())
        kept.append(_read_running_stats(evaluate, x, divisor))
    means, variances = zip(*kept, strict=True)
    of_first, of_second = (_variance_estimates(batch, over) for batch in batches)
    if divisor.is_numerator_centred:
        weights = _weights_of_newest(means, [over.expanded_mean(batch) for batch in batches])
        estimator = _name_variance_estimator(variances[0], variances[1], of_first, weights[0])
        return _momentum_of_weights(*weights), estimator
    # without a running mean, the momentum is that of the estimate that fits
    for name, (root, estimate) in of_first.items():
        roots = [var**root for var in variances]
        weights = _weights_of_newest(roots, [estimate, of_second[name][1]])
        if not any(map(math.isnan, weights)):
            return _momentum_of_weights(*weights), name if abs(weights[0]) > 1e-9 else "unknown"
    return math.nan, "unknown"


def _weights_of_newest(states: Sequence[Tensor], targets: Sequence[Tensor]) -> list[float]:
    """Return the weight with which each batch moved a running statistic, NaN if it is not one.

    Args:
        states: the statistic before the first batch and after each.
        targets: the statistic of each batch.
    """
    weights = []
    for before, after, target in zip(states[:-1], states[1:], targets, strict=True):
        # after = before + weight (target - before), by least squares
        towards, step = target - before, after - before
        weight = float((step * towards).mean() / towards.square().mean())
        fits = _are_close(before + weight * towards, after, 1e-6)
        weights.append(weight if fits else math.nan)
    return weights


def _momentum_of_weights(first: float, second: float) -> float | None:
    """Return the weight of the newest batch; None for a mean of all; NaN for another rule."""
    if abs(first - 1) < 1e-6 and abs(second - 0.5) < 1e-6:
        return None  # a mean of all batches gives the n-th the weight 1/n
    return first if abs(first - second) < 1e-6 else math.nan


def _read_running_stats(
    evaluate: Callable[[Tensor], Tensor], like: Tensor, divisor: Divisor
) -> tuple[Tensor, Tensor]:
    """Return (mean, variance), each in the shape of x, of the affine map that evaluation is."""
    # y(0) = -mean / s and y(1) - y(0) = 1 / s, then s = var ** power, with eps in its place
    offset = evaluate(torch.zeros_like(like))
    slope = evaluate(torch.ones_like(like)) - offset
    s = 1 / slope
    if divisor.eps_position == "outside":
        s = s - divisor.eps
    var = s ** (1 / divisor.variance_exponent)
    return -offset / slope, var - divisor.eps if divisor.eps_position == "inside" else var


def _variance_estimates(
    batch: Tensor, over: StatisticExtent
) -> dict[str, tuple[float, Tensor]]:
    """Return the estimates of a batch's variance by name.

    Each with the power of the running variance that is averaged, and the estimate raised to it.
    """
    biased = over.expanded_mean((batch - over.expanded_mean(batch)).square())
    unbiased = biased * (over.size / (over.size - 1))
    square = over.expanded_mean(batch.square())
    return {
        "biased variance": (1.0, biased),
        "unbiased variance": (1.0, unbiased),
        "biased sigma": (0.5, biased.sqrt()),
        "unbiased sigma": (0.5, unbiased.sqrt()),
        "mean square": (1.0, square),
        "root mean square": (0.5, square.sqrt()),
    }


def _name_variance_estimator(
    before: Tensor, after: Tensor, estimates: Mapping[str, tuple[float, Tensor]], weight: float
) -> str:
    """Return which estimate of the batch's variance moved the running one."""
    if not abs(weight) > 1e-9:
        return "unknown"
    for name, (root, estimate) in estimates.items():
        # after = before + weight (target - before), solved for what the batch contributed
        target = before**root + (after**root - before**root) / weight
        if _are_close(target, estimate, 1e-6):
            return name
    return "unknown"


# The result: one line a property, beside torch's.


NOTHING = "no normalizer"


@dataclass(frozen=True)
class NormProperty:
    """One property of a normalizer."""

    name: str
    found: str  # how the module does it
    torch: str  # how torch.nn's operator does it
    differs_from_torch: bool  # whether that makes another function of it


def _compare_texts(name: str, found: str, torch: str) -> NormProperty:
    return NormProperty(name, found, torch, found != torch)


@dataclass(frozen=True)
class NormPropertyReport(TextResult):
    """The report of what a normalizer computes, one property per row; prints as a table.

    The last five fields are set only if the module is a normalizer.
    """

    class_name: str  # of the module; nothing is concluded from it
    kind: str  # the operator of torch.nn that it is, or comes nearest to; "no normalizer"
    properties: tuple[NormProperty, ...]  # one a line
    over: StatisticExtent | None = None  # the values that a statistic is taken over
    divisor: Divisor | None = None  # what it divides by
    # that of torch.nn that it is or comes nearest to
    nearest_operator: TorchOperator | None = None
    roles: tuple[ParameterRole, ...] = ()  # those of its parameters
    computes_float64_in_float32: bool = (
        False  # whether it computes in float32 although its input is float64
    )
    width = 200

    @property
    def conforms(self) -> bool:
        """True if it is torch.nn's operator, eps and parameters aside."""
        return self.kind != NOTHING and not self.differences

    @property
    def differences(self) -> list[str]:
        """The lines on what is done otherwise."""
        return [
            f"{p.name}: {p.found}, not {p.torch}"
            for p in self.properties
            if p.differs_from_torch
        ]

    def to_frame(self) -> DataFrame:
        """Return one row per property."""
        return make_frame(self.properties)

    def _lines_above_table(self) -> list[str]:
        texts = [p.found for p in self.properties]
        if self.kind == NOTHING and any("too few" in t or CONSTANT in t for t in texts):
            return [f"{self.class_name} was not identified"]
        if self.kind == NOTHING:
            return [f"{self.class_name} is {self.kind} that torch.nn has"]
        if self.conforms:
            moved = any(p.torch.endswith(MOVED) for p in self.properties)
            order = ", once the axes are in torch's order" if moved else ""
            return [f"{self.class_name} is {self.kind}{order}"]
        count = len(self.differences)
        things = "1 thing" if count == 1 else f"{count} things"
        return [f"{self.class_name} comes nearest to {self.kind}, but for {things}"]

    def _header_and_rows(self) -> list[Sequence[str]]:
        rows = [
            ("! " * p.differs_from_torch + p.name, p.found, p.torch) for p in self.properties
        ]
        return [("", "found", "torch.nn"), *rows]

    def _lines_below_table(self) -> Iterator[str]:
        eps = [p.found for p in self.properties if p.name == "eps" and not p.differs_from_torch]
        if eps and (self.differences or eps == ["none"]):
            yield "eps: its place counts as a difference; its value, or having none, does not."


class HalfPrecisionDetector(TorchFunctionMode):
    """Notes whether a function of torch returns numbers of 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype: torch.dtype | None = None

    def __torch_function__(
        self,
        func: Callable,
        types: Collection[type],
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dtype in (torch.float16, torch.bfloat16):
            self.dtype = result.dtype
        return result


EXAMPLES = 8
"""At least so many examples are made up: statistics of one or two values say nothing."""


@in_one_thread_if_small
def identify_norm(
    model: nn.Module, x: Tensor | None = None, *, select_output: SelectOutput = first_tensor
) -> NormPropertyReport:
    """Find out what a normalizer computes, and how this differs from the modules of torch.nn.

    Only inputs and outputs are used, in float64; hooks are not called. The report has the axes
    of the statistics, whether the mean is subtracted, the estimator of the variance, the
    divisor, the value and the place of eps, the roles of the parameters, the statistics that
    evaluation uses, and whether the variance loses its digits in float32.

    Args:
        model: the normalizer; its output has the shape of its input.
        x: an input; only its shape is used, and its device if the module has no tensors. A
            batch of fewer than 8 examples is enlarged to 8, and the report says so. None makes
            an input up from the module's ``normalized_shape``, ``num_features``,
            ``num_channels`` or ``units``.
        select_output: returns, from the output of the module, the tensor to analyze.

    Raises:
        ValueError: if no input can be made up, the module does not take it, or its output has
            another shape.

    Examples:
        >>> print(lnlab.identify_norm(nn.LayerNorm(16)))
    """
    check_model(model)
    if x is not None:
        check_nonempty_tensor(x)
        check_real("x", x)
        if x.dim() < 2:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: give examples along the first axis."
            )
    tensors = chain(model.parameters(), model.buffers(), () if x is None else (x,))
    device = next((tensor.device for tensor in tensors), torch.device("cpu"))
    shape = (
        _guess_input_shape(model, device)
        if x is None
        else (max(EXAMPLES, len(x)), *x.shape[1:])
    )
    # a mean of 1/2, a deviation of 2: if they are not removed, it shows
    z = (2 * normal(3, 0, *shape) + 0.5).to(device)
    training, evaluation = (
        BlackBox(
            ModuleCopy(
                model, z, dtype=torch.float64, bn_stats=bn_stats, select_output=select_output
            )
        )
        for bn_stats in ("batch", "running")
    )
    y = training(z)
    if y.shape != z.shape:
        raise ValueError(
            f"{type(model).__name__} makes {tuple(y.shape)} of {tuple(z.shape)}: identify_norm "
            "is for normalizers, which keep the shape; check_invariances takes any module."
        )
    report = _make_report(model, training, evaluation, z)
    if x is None or len(x) == len(z):
        return report
    return add_note_on_shape(report, f"batch enlarged from {len(x)} to {len(z)}")


def add_note_on_shape(report: NormPropertyReport, note: str) -> NormPropertyReport:
    """Return the report with a note behind the shape that statistics were found on."""
    properties = (
        replace(p, found=f"{p.found} ({note})") if p.name == "statistics over" else p
        for p in report.properties
    )
    return replace(report, properties=tuple(properties))


def _guess_input_shape(model: nn.Module, device: torch.device) -> tuple[int, ...]:
    """Return a shape that ``model`` says it takes."""
    if (shape := getattr(model, "normalized_shape", None)) is not None:
        return EXAMPLES, *((shape,) if isinstance(shape, int) else shape)
    if (units := getattr(model, "units", None)) is not None:
        return EXAMPLES, units, *(4,) * getattr(model, "space", 0)
    for name in ("num_channels", "num_features"):
        for space in ((5,), (4, 4), (3, 3, 3)) if hasattr(model, name) else ():
            x = torch.zeros(EXAMPLES, getattr(model, name), *space, device=device)
            with suppress(ValueError):
                ModuleCopy(model, x, dtype=torch.float64).run()
                return tuple(x.shape)
    raise ValueError(
        f"{type(model).__name__} does not say what it normalizes: give x, an input of the "
        "shape that it takes."
    )


def _make_report(
    model: nn.Module, training: BlackBox, evaluation: BlackBox, z: Tensor
) -> NormPropertyReport:
    name = type(model).__name__
    over, others = find_statistics_extent_or_objections(training, z)
    if over is None:
        return _make_report_without_operator(name, training, z, others)
    if _depends_on_earlier_batches(training, z):
        memory = NormProperty("statistics", "of this batch and earlier ones", "of one", True)
        return _make_report_without_operator(name, training, z, [memory])
    roles = find_roles_and_reset_affine(training, z)
    evaluation.weights = training.weights
    divisor = find_divisor(training, z, over)
    if divisor is None:
        form = NormProperty(
            "form", "no x or x - mean over a root of a mean square", "(x - mean) / sigma", True
        )
        properties = _compare_extent(over, z, None), form
        return _make_report_without_operator(name, training, z, properties)
    running = find_momentum_and_variance_estimator(training, z, over, divisor)
    operator = nearest_torch_operator(
        over, divisor, roles, z, has_running_statistics=running is not None
    )
    properties = [
        _compare_extent(over, z, operator),
        *_compare_groups(over, operator),
        *_compare_divisor(divisor, over, operator, isinstance(model, nn.RMSNorm)),
        *(_compare_role(role, operator) for role in roles),
        *_compare_evaluation(training, evaluation, z, running, operator),
        *_compare_cancellation_and_dtype(model, training, divisor),
        _compare_outputs(training, z, divisor, operator),
    ]
    if any(p.differs_from_torch and p.name not in OF_EVALUATION for p in properties):
        properties.append(_compare_gradient_with_differences(training, z))
    else:
        properties.append(_compare_gradient(training, z, divisor, operator))
    if float((training(z) + training(-z)).abs().max()) > training.same:
        properties.append(_compare_texts("sign", "y(-x) is not -y(x)", "y(-x) = -y(x)"))
    return NormPropertyReport(
        name, operator.name, tuple(properties), over, divisor, operator, tuple(roles),
        training.computes_float64_in_float32,
    )  # fmt: skip


@torch.no_grad()
def _depends_on_earlier_batches(training: BlackBox, x: Tensor) -> bool:
    """Return True if an output in training mode is another one after another batch."""
    copy = training.module
    module = deepcopy(copy.module).train()
    outputs = []
    for batch in (x, 2 * x.flip(0) + 1, x):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            # cloned, as some modules write into their input
            outputs.append(copy.select_output(module(batch.clone())).clone())
    return not _are_close(outputs[2], outputs[0], training.same)


def _make_report_without_operator(
    name: str, training: BlackBox, z: Tensor, properties: Sequence[NormProperty]
) -> NormPropertyReport:
    """Report no normalizer, or that a low precision hides which one it is."""
    with HalfPrecisionDetector() as detector:
        training(z)
    if detector.dtype is None:
        return NormPropertyReport(name, NOTHING, tuple(properties))
    dtype = str(detector.dtype).removeprefix("torch.")
    found = f"it computes in {dtype}, whatever its input is: too few digits to tell"
    precision = NormProperty("precision", found, "its input's", True)
    return NormPropertyReport(name, NOTHING, (precision,))


OF_EVALUATION = ("evaluation", "momentum", "running variance")
"""The properties on which no output in training depends."""


# The properties, each found and as torch.nn's operator has it.


MANY = 4
"""If the extents along an axis change more often, or come back, values choose the inputs."""


def find_statistics_extent_or_objections(
    training: BlackBox, z: Tensor
) -> tuple[StatisticExtent | None, tuple[NormProperty, ...]]:
    """Return the extent of all statistics on z (B, ...), or None and what there is instead."""
    # with all parameters away from 0: behind a gain of 0 nothing can be seen
    training.weights = {
        name: training.random_like_parameter(name) for name in training.module.parameters
    }
    over = find_extent(training, z)
    along = {
        axis: find_extent_by_axis_position(training, z, axis) for axis in range(1, z.dim())
    }
    training.weights = {}
    differing = [
        NormProperty(
            "statistics",
            f"along axis {axis}, {_describe_extents_along_axis(extents)}",
            "the same for all",
            True,
        )
        for axis, extents in along.items()
        if len({*extents.values()}) > 1
    ]
    if (differing or over is None or over.size == 1) and (
        clips := batch_extent_when_input_scaled_up(training, z)
    ):
        axes = _format_axes(clips.axes)
        found = f"of the batch ({axes}), with clips: only if inputs are large"
        return None, (NormProperty("statistics", found, "of all inputs", True),)
    if differing:
        return None, tuple(differing)
    # two values are -1 and 1 once they are normalized, whatever they were
    if over is None or over.size < 3:
        found = str(over or IRREGULAR)
        if over is not None and over.size == 1 and _is_constant(training, z):
            found = f"none: {CONSTANT}, as where a statistic is over one value"
        if over is not None and over.size > 1:
            found += ": too few to see what is done with them"
        return None, (NormProperty("statistics", found, "over axes of x", True),)
    return over, ()


def _is_constant(box: BlackBox, x: Tensor) -> bool:
    """Return True if outputs for x (B, ...) and another input differ by rounding only."""
    y = box(x)
    change = float((box(2 * x + 1) - y).abs().max())
    return change < 1e3 * box.same * max(1.0, float(y.abs().max()))


def batch_extent_when_input_scaled_up(box: BlackBox, x: Tensor) -> StatisticExtent | None:
    """Return the extent over examples x (B, ...) that only large inputs have, if there is one.

    Batch renormalization takes its running statistics until the batch's are far from them.
    """
    # a few of thousands of outputs may stay the same by chance; a median is reached by few
    extents = list(find_extent_by_axis_position(box, 1e4 * x, 1, max_positions=8).values())
    extent = max(extents, key=extents.count)
    regular = extents.count(extent) >= 0.75 * len(extents)
    return extent if regular and extent is not None and 0 in extent.axes else None


def _describe_extents_along_axis(extent_at_position: dict[int, StatisticExtent | None]) -> str:
    """Describe the outputs that inputs along an axis reach: "0 to 5: 6; 6 to 8: 3"."""
    groups = groupby(extent_at_position.items(), key=lambda item: item[1])
    runs = [(extent, [position for position, _ in run]) for extent, run in groups]
    if len(runs) > MANY or len({extent for extent, _ in runs}) < len(runs):
        return f"{IRREGULAR} (windows, a median, or a maximum or gate behind it can hide it)"
    reached = "; ".join(
        f"{at[0]} to {at[-1]}: {_count_outputs_reached(extent)}" for extent, at in runs
    )
    return f"an input reaches unlike numbers of outputs, {reached}"


def _count_outputs_reached(extent: StatisticExtent | None) -> str:
    if extent is None:
        return "no regular set"
    return "its own alone" if extent.size == 1 else str(extent.size)


def _format_axes(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


MOVED = ", moved to the end"
"""The words for axes that torch's layer and RMS norm take only as the last ones."""


def _compare_extent(
    over: StatisticExtent, z: Tensor, operator: TorchOperator | None
) -> NormProperty:
    right = over.axes if operator is None else operator.over.axes
    parts = "interleaved parts" if over.is_interleaved else "parts"
    groups = (
        "" if over.split_axis is None else f", axis {over.split_axis} in {over.groups} {parts}"
    )
    found = f"{_format_axes(over.axes)} of {tuple(z.shape)}{groups}: {over.size} values"
    # along an axis of a single value no statistic can be seen to run
    own, its = ([a for a in axes if z.shape[a] > 1] for axes in (over.axes, right))
    grouped = operator is not None and operator.name.startswith("GroupNorm")
    wrong = own != its or (over.split_axis is not None and not grouped)
    last = right == tuple(range(z.dim() - len(right), z.dim()))
    is_of_last = operator is not None and operator.name in ("LayerNorm", "RMSNorm")
    moved = MOVED if is_of_last and not last else ""
    return NormProperty("statistics over", found, _format_axes(right) + moved, wrong)


def _compare_groups(over: StatisticExtent, operator: TorchOperator) -> Iterator[NormProperty]:
    """Compare which units share a statistic, where torch's operator has groups, too."""
    if over.is_interleaved and operator.name.startswith("GroupNorm"):
        found = f"indices {over.groups} apart along axis {over.split_axis}"
        yield _compare_texts("a group is", found, "consecutive indices")


MEANS = {
    (True, True): "removed",
    (False, False): "kept",
    (True, False): "removed, but not from the variance",
    (False, True): "kept, but not in the variance",
}
"""The words for the mean, by whether d is less it, and whether var is about it."""


def _compare_divisor(
    divisor: Divisor,
    over: StatisticExtent,
    operator: TorchOperator,
    is_torchs_rms_norm: bool,
) -> Iterator[NormProperty]:
    """Compare what is subtracted and what is divided by."""
    N, factor = over.size, divisor.variance_factor
    square = "variance" if divisor.is_variance_about_mean else "mean square"
    estimators = (
        (1.0, "1/N"),
        (N / (N - 1), "1/(N-1), unbiased"),
        (N, "the sum: outputs 1/sqrt(N) as large"),
        (N**2, "N times the sum: outputs 1/N as large"),
        (factor, f"{factor:.6g}/N: outputs {factor**-0.5:.6g} times as large"),
    )
    near = (words for v, words in estimators if math.isclose(factor, v, rel_tol=1e-6))
    estimator = next(near)
    # outputs that are multiplied by a number have their eps in the root before that
    is_scaled = estimator == estimators[-1][1]
    scale = (factor if divisor.eps_position == "inside" else factor**0.5) if is_scaled else 1.0
    eps = f"{divisor.eps / scale:.1e}"
    is_root = abs(divisor.variance_exponent - 0.5) < 1e-6
    places = {
        "inside": f"{eps} added to the {square}",
        "outside": f"{eps} added to sigma",
        "at least": f"sigma at least {eps}",
    }
    misplaced = bool(divisor.eps) and divisor.eps_position != "inside"
    mean = MEANS[divisor.is_numerator_centred, divisor.is_variance_about_mean]
    yield _compare_texts("mean", mean, "kept" if operator.name == "RMSNorm" else "removed")
    yield _compare_texts(square, estimator, "1/N")
    root = "its root" if is_root else f"its power {divisor.variance_exponent:.3g}"
    yield _compare_texts("divided by", root, "its root")
    found = places[divisor.eps_position] if divisor.eps else "none"
    for dtype in (torch.float32, torch.float64) if is_torchs_rms_norm else ():
        if math.isclose(divisor.eps, default_rms_eps(dtype), rel_tol=1e-3):
            found += f", torch's default in {str(dtype).removeprefix('torch.')}"
    yield NormProperty("eps", found, f"added to the {square}", misplaced)


def _compare_role(role: ParameterRole, operator: TorchOperator) -> NormProperty:
    """Compare a gain, right along the operator's axes, or a bias, right after the gain."""
    along = f", along {_format_axes(role.axes)}" if role.axes else ""
    plain = role.role in ("gain", "bias", "unused")
    right = ROLES["bias" if role.role.startswith("bias") else "gain"]
    wrong = not plain or not set(role.axes) <= set(operator.gain_axes)
    expected = f"{right}, along {_format_axes(operator.gain_axes)}"
    return NormProperty(role.name, ROLES[role.role] + along, expected, wrong)


def _compare_evaluation(
    training: BlackBox,
    evaluation: BlackBox,
    z: Tensor,
    running: tuple[float | None, str] | None,
    operator: TorchOperator,
) -> Iterator[NormProperty]:
    """Compare evaluation, and the momentum and variance of ``running`` statistics, if any."""
    if 0 not in operator.over.axes:
        same = _are_close(evaluation(z), training(z), training.same)
        # of a module whose evaluation is affine, as instance norm with running statistics
        other = "by running statistics" if running else "another function"
        right = "as training"
        if not same and running and "InstanceNorm" in operator.name:
            right += " (the default)"
        yield _compare_texts("evaluation", "as training" if same else other, right)
        return
    right = "by running statistics"
    if running is None:
        yield _compare_texts("evaluation", "by the statistics of its own batch", right)
        return
    yield _compare_texts("evaluation", right, right)
    m, variance = running
    found = "all batches alike" if m is None else f"{m:.3g} for the newest batch"
    module = training.module.module
    declares_momentum, declared = hasattr(module, "momentum"), getattr(module, "momentum", None)
    expected, wrong = "0.1 for the newest batch", m is not None and math.isnan(m)
    if isinstance(declared, float) and m is not None:
        expected = f"{declared:.3g}, as declared"
        wrong = not math.isclose(m, declared, rel_tol=0.01)
    if wrong and math.isnan(m or 0.0) and declares_momentum and declared is None:
        # torch's mean of all batches: what the newest weighs depends on how many there were
        found, expected, wrong = "all batches alike, as declared", "None, as declared", False
    yield NormProperty("momentum", found, expected, wrong)
    # statistics that never move (momentum 0) say nothing of the variance that they would take
    wrong = variance != "unbiased variance" and m != 0
    yield NormProperty("running variance", variance, "unbiased variance", wrong)


LARGE_MEAN = 1e4
CANCELS = 0.05
"""Two passes are off by some 1e-3 there, E[x²] - E[x]² by 1 or more."""


def _compare_cancellation_and_dtype(
    model: nn.Module, training: BlackBox, divisor: Divisor
) -> Iterator[NormProperty]:
    """Tell whether mean(x²) - mean(x)² cancels: float32 at a mean of 1e4.

    With gains of 1 and biases of 0: a gain of 0, or a large bias, would hide it.
    """
    # mean x² is 1e8 here, which float32 holds to the nearest 8: of mean(x²) - mean(x)², a
    # variance of 1, nothing is left, while the mean of (x - mean)² has all its digits
    z, select_output = training.module.x, training.module.select_output
    x = (LARGE_MEAN + normal(4, 0, *z.shape)).float().to(z.device)
    weights = {name: w.float() for name, w in training.weights.items()}
    with suppress(ValueError):  # of a module that does not run in float32
        if divisor.is_variance_about_mean:
            single = ModuleCopy(
                model, x, dtype=torch.float32, bn_stats="batch", select_output=select_output
            )
            error = relative_max_change(
                single.run(InputAndWeightOverrides(x, weights)).y, training(x.double())
            )
            wrong = not error <= CANCELS
            found = "NaN" if math.isnan(error) else f"off by {error:.1g}"
            found += ", the variance cancels" * wrong
            yield NormProperty("float32 at mean 1e4", found, f"off by {CANCELS} at most", wrong)
    if training.computes_float64_in_float32:
        found = "float32, whatever its input is"
        yield NormProperty("computed in", found, "its input's type", False)


def _compare_outputs(
    training: BlackBox, z: Tensor, divisor: Divisor, operator: TorchOperator
) -> NormProperty:
    """Compare the outputs with torch's, gains 1 and biases 0."""
    # with torch's own eps if it is in another place, so that the place alone differs
    inside = divisor.eps_position == "inside" or not divisor.eps
    expected = operator(z, divisor.eps if inside else 1e-5)
    off = (training(z) - expected).abs()
    largest = float(off.max())
    where = tuple((off == off.max()).nonzero()[0].tolist())
    same = largest < training.same * float(expected.abs().max())
    nothing = (
        "nothing but rounding to float32" if training.computes_float64_in_float32 else "nothing"
    )
    found = nothing if same else f"up to {largest:.2g}, at {where}"
    return NormProperty("differs, with gains 1, by", found, "nothing", not same)


def _compare_gradient(
    training: BlackBox, z: Tensor, divisor: Divisor, operator: TorchOperator
) -> NormProperty:
    """Compare the gradient with respect to x, for which statistics must not be detached."""
    slope, right = normal(7, 0, *z.shape).to(z), f"{operator.name}'s"
    found = _gradient_by_input(training, z, slope)
    if found is None:
        return _compare_texts("gradient", "none", right)
    with torch.enable_grad():
        x = z.clone().requires_grad_()
        (expected,) = torch.autograd.grad(operator(x, divisor.eps), x, slope)
    same = _are_close(found, expected, 1e-4 if training.computes_float64_in_float32 else 1e-6)
    detached = "another one, as if a statistic were detached"
    return _compare_texts("gradient", right if same else detached, right)


def _compare_gradient_with_differences(training: BlackBox, z: Tensor) -> NormProperty:
    """Compare the gradient of a module of its own kind with differences of its outputs."""
    slope, right = normal(7, 0, *z.shape).to(z), "that of its output"
    found = _gradient_by_input(training, z, slope)
    if found is None:
        return _compare_texts("gradient", "none", right)
    step, tolerance = (1e-2, 1e-2) if training.computes_float64_in_float32 else (1e-5, 1e-4)
    directions = [normal(8, number, *z.shape).to(z) for number in range(3)]
    expected = [
        (slope * (training(z + step * v) - training(z - step * v))).sum() / (2 * step)
        for v in directions
    ]
    slopes = [(found * v).sum() for v in directions]
    same = _are_close(torch.stack(slopes), torch.stack(expected), tolerance)
    detached = "another one, as if a part were detached"
    return _compare_texts("gradient", right if same else detached, right)


def _gradient_by_input(training: BlackBox, z: Tensor, slope: Tensor) -> Tensor | None:
    """Return what the backward pass makes of dL/dy by dL/dx; None if it has none."""
    with torch.enable_grad():
        x = z.clone().requires_grad_()
        module = deepcopy(training.module.module)
        given = (x.clone(),)  # which may be written into
        output = torch.func.functional_call(module, training.weights, given, strict=False)
        y = training.module.select_output(output)
        return torch.autograd.grad(y, x, slope)[0] if y.requires_grad else None
