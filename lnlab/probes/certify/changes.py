"""The transformations of Table 1, made to fit a module of any make.

A change is a transformation at one place of a module: at one of its weights, at the summed
inputs that a weight makes, or at its input.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.modules.conv import _ConvNd

from lnlab.nn import Conv2d
from lnlab.nn.table1 import TRANSFORMATIONS, Given, Statistics, Transformation, scale_rows
from lnlab.probes.givens import normal, uniform
from lnlab.probes.magnitudes import root_mean_square
from lnlab.probes.subject import Subject, Trial, Weight

OF_WEIGHTS, OF_INPUTS, OF_SUMMED = (1, 2, 3, 10), (4, 5, 6, 9), (7, 8)

OTHERS = Transformation(11, "the other cases replaced", "x₂…x_B → x′", lambda g, d, s: g, False)


@dataclass(frozen=True)
class Change:
    """One transformation at one place.

    Attributes:
        where: "x", or the name of a weight.
        transformation: the column.
        trial: makes, of a subject and delta (or the size of a shift, 1 being that of what
            is shifted), what is put in the place of its own.
        first_case_only: whether only the first case of the output is judged.
    """

    where: str
    transformation: Transformation
    trial: Callable[[Subject, float], Trial]
    first_case_only: bool = False


def changes_of(
    weights: Collection[Weight],
    subject: Subject,
    called: Collection[str],
    feature_axis: int | None,
) -> Iterator[Change]:
    """All that can be tried on ``subject``, weights first.

    Args:
        weights: what to try columns 1 to 3, 7, 8 and 10 on.
        subject: the module and its input.
        called: the modules that are called; the summed inputs of the others (those of an
            attention's projection, say) cannot be reached.
        feature_axis: of x, along which a case's inputs stand; None: 1 where the first
            weight is a kernel, else the last.
    """
    columns = {T.column: T for T in TRANSFORMATIONS}
    for weight in weights:
        summed = weight.summed and weight.owner in called
        for column in sorted(OF_WEIGHTS + (OF_SUMMED if summed else ())):
            of = _of_summed if column in OF_SUMMED else _of_weight
            change = partial(of, weight=weight, transformation=columns[column])
            yield Change(weight.name, columns[column], change)
    axis = _feature_axis(subject, weights) if feature_axis is None else feature_axis
    for column in OF_INPUTS:
        if column in (4, 6) or subject.x.dim() > 1:
            change = partial(_of_input, transformation=columns[column], axis=axis)
            yield Change("x", columns[column], change)
    if len(subject.x) > 1 and subject.statistics is not Statistics.RECOMPUTED:
        yield Change("x", OTHERS, _others_replaced, first_case_only=True)


def _feature_axis(subject: Subject, weights: Collection[Weight]) -> int:
    for weight in weights:
        owner = subject.module.get_submodule(weight.owner)
        return 1 if isinstance(owner, _ConvNd | Conv2d) else -1
    return 1 if subject.x.dim() == 4 else -1


def _of_weight(
    subject: Subject, delta: float, *, weight: Weight, transformation: Transformation
) -> Trial:
    own = subject.parameters[weight.name].data
    W = own.movedim(weight.unit_axis, 0)
    if transformation.column == 3:
        # A quarter of the rows, drawn: the first alone may belong to a dead unit.
        order = uniform(0, 6, len(W)).argsort().to(W.device)
        rows = max(1, len(W) // 4)
        transformation = replace(transformation, change=partial(scale_rows, rows=rows))
        changed = _transformed(W[order], transformation, delta)
        W = torch.empty_like(changed).index_copy_(0, order, changed)
    else:
        W = _transformed(W, transformation, delta)
    return Trial(subject.x, {weight.name: W.movedim(0, weight.unit_axis).contiguous()})


def _transformed(W: Tensor, transformation: Transformation, delta: float) -> Tensor:
    """W after the change; a shift is ``delta`` times as large as W."""
    nothing = W.new_zeros(())
    length = max(len(W), W[0].numel())
    shift = nothing if transformation.scales else _shift(W, delta, length)
    return transformation(Given(W, nothing, nothing), delta, shift).W


def _shift(like: Tensor, size: float, length: int) -> Tensor:
    """A random vector whose numbers are ``size`` times those of ``like``."""
    # of the size of what it is added to: a smaller one is lost in rounding, a larger one drowns
    # what was there
    rms = float(root_mean_square(like)) or 1.0
    return (size * rms * normal(0, 3, length)).to(like.dtype).to(like.device)


def _of_input(
    subject: Subject, delta: float, *, transformation: Transformation, axis: int
) -> Trial:
    x = subject.x if subject.x.dim() < 2 else subject.x.movedim(axis, 1)
    nothing = x.new_zeros(())
    shift = nothing if transformation.scales else _shift(x, delta, max(x.shape[:2]))
    changed = transformation(Given(nothing, x, nothing), delta, shift).x
    return Trial(changed if x.dim() < 2 else changed.movedim(1, axis).contiguous())


def _of_summed(
    subject: Subject, size: float, *, weight: Weight, transformation: Transformation
) -> Trial:
    owner = subject.module.get_submodule(weight.owner)

    def shift(a: Tensor) -> Tensor:
        unit_axis = 1 if isinstance(owner, _ConvNd | Conv2d) else a.dim() - 1
        # column 7: one number a case, the same for all its units; column 8: one a unit
        axis = 0 if transformation.column == 7 else unit_axis
        c = _shift(a, size, a.shape[axis])
        return a + c.reshape(tuple(-1 if i == axis else 1 for i in range(a.dim())))

    return Trial(subject.x, shift=(weight.owner, shift))


def _others_replaced(subject: Subject, delta: float) -> Trial:
    x = subject.x
    # in another order alone they would have the same mean and variance, and BatchNorm would not
    # see that they are others
    others = x[1:].flip(0) + _shift(x, 1.0, x[1:].numel()).view_as(x[1:])
    return Trial(torch.cat([x[:1], others]))


class Jitter:
    """A change of every input and weight of a subject by about one rounding, at random."""

    def __init__(self, subject: Subject, weights: Collection[str]) -> None:
        self.own = {name: subject.parameters[name].data for name in weights}
        self.factors = {
            name: _factors(W, 2 + i) for i, (name, W) in enumerate(self.own.items())
        }
        self.of_x = _factors(subject.x, 1)

    def __call__(self, trial: Trial) -> Trial:
        """``trial`` off by one rounding, its shifted summed inputs too."""
        weights = {**self.own, **trial.weights}
        off = {name: W * self.factors[name] for name, W in weights.items()}
        shift = trial.shift
        if shift is not None:
            owner, plain = shift
            shift = owner, lambda a: plain(a) * _factors(a, 0)
        return Trial(trial.x * self.of_x, off, shift)


def _factors(like: Tensor, stream: int) -> Tensor:
    """1 and one unit in the last place more or less."""
    if not like.is_floating_point():
        return torch.ones_like(like)
    # eps is the unit in the last place of 1; a rounding is off by half of one at most
    noise = torch.sign(normal(1, stream, like.numel())).view_as(like)
    return (1 + torch.finfo(like.dtype).eps * noise).to(like)
