"""Somebody's module with its input and its loss, made ready to be looked at.

All probes take a module that is called with one tensor. A module of several inputs becomes one:
on a copy, the first floating point tensor is left open and the others are put in its place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from copy import copy, deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from lnlab.analysis.arguments import normal, refuse_no_function, refuse_no_module
from lnlab.analysis.module_copy import Buffers, uncompiled, untouched
from lnlab.analysis.objective import Objective
from lnlab.analysis.subject import Subject
from lnlab.audit.asleep import drawn
from lnlab.audit.call import Call, mapped, refuse_nan, tensors
from lnlab.audit.finding import CannotCheck
from lnlab.audit.watched import Visit, Watched
from lnlab.nn.table1 import Statistics
from lnlab.training.random_state import default_dtype

OwnLoss = Callable[[Any], Tensor]
"""A loss: from what a module returns to a scalar."""

CHANCES = ("dropout", "dropout_p", "drop_prob", "p_drop", "attn_dropout")
"""The names under which parts keep the probability of dropping something."""


def of_one_input(module: nn.Module, call: Call) -> tuple[nn.Module, Tensor]:
    """A copy of ``module`` called with one tensor, and that tensor.

    The open one is the first floating point tensor of ``call``, or the first tensor. The
    others are buffers of the copy, so that a change of precision reaches them. Parts and
    parameters keep their names.

    Raises:
        TypeError: where the call has no tensor.
        ValueError: where the module cannot be copied, or a tensor is empty or holds NaN.
    """
    trained = {name for name, p in uncompiled(module).named_parameters() if p.requires_grad}
    own = untouched(module)
    for name, p in own.named_parameters():
        p.requires_grad_(name in trained)
    given = tensors((call.args, call.kwargs))
    if not given:
        raise TypeError(
            f"the input of {type(own).__name__} holds no tensor: give what it is called with, "
            "numbers and arrays as torch.as_tensor(x)."
        )
    refuse_nan(given)
    place = next((i for i, v in enumerate(given) if v.is_floating_point()), 0)
    if len(given) == 1 and len(call.args) == 1 and isinstance(call.args[0], Tensor):
        return own, given[0].detach().clone()
    for i, tensor in enumerate(given):
        if i != place:
            own.register_buffer(f"_given_{i}", tensor.detach().clone(), persistent=False)
    kind = type(own)

    def forward(self: nn.Module, x: Tensor) -> Any:
        order = iter(range(len(given)))

        def put(_: Tensor) -> Tensor:
            i = next(order)
            return x if i == place else self.get_buffer(f"_given_{i}")

        args, kwargs = mapped((call.args, call.kwargs), put)
        return kind.forward(self, *args, **kwargs)

    own.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    return own, given[place].detach().clone()


def of_one_precision(module: nn.Module) -> nn.Module:
    """A copy that, where its parameters are in float64, makes its own numbers in float64 too.

    Many a forward makes numbers without naming a precision, frequencies of times say, which
    are in float32 then and do not go with the others.
    """
    own = deepcopy(module)
    kind = type(own)

    def forward(self: nn.Module, *args: Any) -> Any:
        wide = any(p.dtype == torch.float64 for p in self.parameters())
        with default_dtype(torch.float64) if wide else nullcontext():
            return kind.forward(self, *args)

    own.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    return own


def without_chance(module: nn.Module) -> list[str]:
    """Let nothing be dropped; the names of the parts where something was."""
    found = []
    for name, part in module.named_modules():
        own = (*CHANCES, "p") if isinstance(part, _DropoutNd) else CHANCES
        for key in own:
            if isinstance(getattr(part, key, None), float) and getattr(part, key):
                setattr(part, key, 0.0)
                found.append(name)
    return found


class Audited:
    """A module with its input and its loss, as every check is given it.

    Args:
        module: not touched.
        inputs: a :class:`Call`, or what :meth:`Call.of` understands.
        loss: the loss, a function of what the module returns; None: half the squared distance
            from a random target stands in for it.

    Attributes:
        name: the class of the module.
        module: a copy that is called with ``x`` alone and drops nothing.
        x: the open input.
        dropped: the parts whose dropout was put to 0.
        own_loss: whether a loss was given.
        kept: what several checks need and one has made.

    Raises:
        TypeError: where ``module`` is none, or the input holds no tensor.
        ValueError: where the module cannot be copied, or does not take the input.
    """

    def __init__(self, module: nn.Module, inputs: Any, loss: OwnLoss | None = None) -> None:
        refuse_no_module(module)
        if loss is not None:
            refuse_no_function("loss", loss, "a function of what the module returns")
        self.name = type(uncompiled(module)).__name__
        self.module, self.x = of_one_input(module, Call.of(inputs))
        self.module.train(uncompiled(module).training)
        self.dropped = without_chance(self.module)
        self.kept: dict[str, Any] = {}
        self.own_loss, self._loss = loss is not None, loss
        self.dtype = next(
            (p.dtype for p in self.module.parameters() if p.is_floating_point()), self.x.dtype
        )
        self.output = self._evaluated()

    def _evaluated(self) -> Any:
        """The output of the module, as it is."""
        module = deepcopy(self.module)
        try:
            with torch.no_grad(), undrawn():
                return module(self.x.clone())
        except Exception as error:  # whatever a module of the user's may raise
            raise ValueError(f"{self.name} does not take the input: {error}") from error

    def loss(self, output: Any, _: Any = None) -> Tensor:
        """The user's loss, or the one that stands in."""
        if self._loss is not None:
            return self._loss(output)
        made = [v for v in tensors(output) if v.is_floating_point()]
        if not made:
            raise CannotCheck("the module returns no floating point numbers.")
        apart = (v - normal(7, i, v.numel()).view_as(v).to(v) for i, v in enumerate(made))
        return torch.stack([d.square().mean() / 2 for d in apart]).mean()

    @cached_property
    def _scales(self) -> list[float]:
        made = [v for v in tensors(self.output) if v.is_floating_point()]
        return [float(v.double().abs().nan_to_num().max()) or 1.0 for v in made]

    def read(self, output: Any) -> Tensor:
        """The floating point outputs as one tensor; of several, each divided by its largest."""
        made = [v for v in tensors(output) if v.is_floating_point()]
        if len(made) == 1 and made[0].dim():
            return made[0]
        if not made:
            raise TypeError("the module returns no floating point numbers.")
        flat = [v.reshape(len(v) if v.dim() else 1, -1) for v in made]
        if len({len(v) for v in flat}) > 1:
            flat = [v.reshape(1, -1) for v in flat]
        return torch.cat([v / s for v, s in zip(flat, self._scales, strict=True)], dim=1)

    def subject(self, statistics: Statistics | None = None) -> Subject:
        """A float64 copy whose parameters can be tried out; as it trains, by default."""
        statistics = self.statistics if statistics is None else statistics
        return Subject(
            self.module, self.x, dtype=self.wide, statistics=statistics, read=self.read
        )

    @cached_property
    def objective(self) -> Objective:
        """The loss as a function of the parameters, as it trains, in float64 if that goes.

        Raises:
            CannotCheck: where there is no such function.
        """
        why = ""
        for dtype in (torch.float64, None):
            for statistics in (Statistics.BATCH, Statistics.FROZEN):
                try:
                    with undrawn():
                        return Objective(
                            self.module, self.x, None, self.loss,
                            statistics=statistics, dtype=dtype,
                        )  # fmt: skip
                except Exception as error:  # whatever a loss of the user's may raise
                    why = why or str(error)
        raise CannotCheck(why)

    @cached_property
    def wide(self) -> torch.dtype | None:
        """float64 where the module can be evaluated in it; None: as it is."""
        for module in (self.module, of_one_precision(self.module)):
            try:
                Subject(module, self.x, dtype=torch.float64, read=self.read).see()
            except Exception as error:  # whatever a module of the user's may raise
                self.kept.setdefault("why not in float64", str(error))
            else:
                self.module = module
                return torch.float64
        return None

    def require_wide(self) -> None:
        """Raise unless the module can be evaluated in float64, and say why it cannot.

        Raises:
            CannotCheck: where it cannot.
        """
        if self.wide is None:
            why = self.kept["why not in float64"]
            raise CannotCheck(f"the module cannot be evaluated in float64: {why}")

    @cached_property
    def awake(self) -> Audited:
        """The same with all drawn that starts at 0 and is multiplied; itself without any."""
        _ = self.wide, self.statistics
        module, names = drawn(self.module)
        if not names:
            return self
        other = copy(self)
        other.module, other.kept = module, {"asleep": names}
        return other

    @cached_property
    def statistics(self) -> Statistics:
        """BATCH, as in training, where the module can be evaluated so; else FROZEN."""
        with suppress(Exception):
            Subject(
                self.module, self.x, dtype=self.wide, statistics=Statistics.BATCH,
                read=self.read,
            ).see()  # fmt: skip
            return Statistics.BATCH
        return Statistics.FROZEN

    @cached_property
    def watched(self) -> Watched:
        """One evaluation, as it trains, with every call of a part and of a function."""
        return self.watch(self.x)

    def watch(self, x: Tensor, statistics: Statistics | None = None) -> Watched:
        """The same of another input; as it trains, by default."""
        wide = self.wide  # which may exchange the module
        statistics = self.statistics if statistics is None else statistics
        module = deepcopy(self.module).to(wide)
        module.train(statistics is Statistics.BATCH)
        x = x.to(wide) if x.is_floating_point() else x
        watched = Watched(module)
        with torch.no_grad(), undrawn(), Buffers(module), watched:
            module(x.clone())
        return watched

    @property
    def course(self) -> list[Visit]:
        """Every call of a part, in the order of return."""
        return self.watched.visits

    def has_parts(self, part: nn.Module) -> bool:
        """True if a part has parts with parameters of their own."""
        return any(next(child.parameters(), None) is not None for child in part.children())


@contextmanager
def undrawn() -> Iterator[None]:
    """Puts every generator of random numbers back at the end."""
    python, old = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(old)  # noqa: NPY002
