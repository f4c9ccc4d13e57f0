"""Somebody's module with its input and its loss, made ready to be looked at.

All probes take a module that is called with one tensor. A module of several inputs becomes one:
on a copy, the first floating point tensor is left open and the others are put in its place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import IntEnum
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from lnlab.analysis.activations import NORMALIZERS
from lnlab.analysis.conformance import NOTHING, Report, conformance
from lnlab.analysis.module_copy import (
    EPS,
    Buffers,
    ModuleCopy,
    check_model,
    check_type,
    copy_module,
    original_module,
)
from lnlab.analysis.objective import Objective
from lnlab.analysis.random import normal
from lnlab.training.random_state import default_dtype

# Parameters that start at 0 and are multiplied: what feeds them has no effect until they move.
#
# The last layer of a branch, a gain, the scale of a residual: most often so that the net is the
# identity at its start.


ADDED = ("bias", "beta", "b")
"""The ends of names of what is added: at 0 it lets everything pass."""


def asleep(module: nn.Module) -> list[str]:
    """The names of all parameters that are 0 in every place and not called a bias."""
    return [
        name
        for name, p in module.named_parameters()
        if p.numel() and not p.any() and not _added(name)
    ]


def _added(name: str) -> bool:
    last = name.rpartition(".")[2].lower()
    return last in ADDED or last.endswith("bias")


def drawn(module: nn.Module) -> tuple[nn.Module, list[str]]:
    """A copy in which these are drawn, rows of length 1 or so, and their names."""
    other, names = deepcopy(module), asleep(module)
    for place, name in enumerate(names):
        p = other.get_parameter(name).data
        inputs = p[0].numel() if p.dim() > 1 else 1
        p.copy_(normal(11, place, p.numel()).view_as(p).to(p) / inputs**0.5)
    return other, names


# The inputs of one call, and the tensors in them.


class Call:
    """The inputs of one call: ``module(*args, **kwargs)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    @classmethod
    def of(cls, inputs: Any) -> Call:
        """A tensor or a dataclass is the one input, a tuple or list all of them in order, a
        mapping all of them by keyword."""
        if isinstance(inputs, Call):
            return inputs
        if isinstance(inputs, Mapping):
            return cls(**inputs)
        plain = isinstance(inputs, tuple | list) and not hasattr(inputs, "_fields")
        return cls(*inputs) if plain else cls(inputs)


def mapped(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """``tree`` with every tensor changed: in tuples, lists, mappings and dataclasses."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(value, change) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(mapped(value, change) for value in tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        new = {f.name: mapped(getattr(tree, f.name), change) for f in fields(tree) if f.init}
        return replace(tree, **new)
    return tree


def tensors(tree: Any) -> list[Tensor]:
    """Every tensor of a tree, in order."""
    found: list[Tensor] = []
    mapped(tree, lambda tensor: found.append(tensor) or tensor)
    return found


def refuse_nan(inputs: Any) -> None:
    """Raise ValueError where a tensor of the inputs is empty or holds NaN.

    Infinities are let through: masks are made of them.
    """
    for v in tensors(inputs):
        if not v.numel() or bool(v.isnan().any()):
            wrong = "holds NaN" if v.numel() else "has no numbers"
            raise ValueError(
                f"an input of shape {tuple(v.shape)} {wrong}: give cases that are numbers."
            )


# A module watched in one evaluation: what of it is called, with which numbers.


@dataclass(frozen=True)
class Visit:
    """One call of a part of the module.

    Attributes:
        name: what the part is called.
        part: the part itself.
        given: the tensors it was called with, as they were then.
        made: the tensors it returned, as they were then.
        taken: the memory, by a number, of those that it was called with.
        left: that of those that it returned.
    """

    name: str
    part: nn.Module
    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    taken: tuple[int, ...]
    left: tuple[int, ...]


class Watched(TorchFunctionMode):
    """Takes down, while it is active, what a module calls.

    Attributes:
        module: itself, hooks on it.
        visits: every call of a part, in the order of return.
        functions: every call of one of torch's functions by its name, with the part in which
            it stands.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.visits: list[Visit] = []
        self.functions: list[tuple[str, str]] = []
        self._within: list[str] = []
        self._held: list[Any] = []
        for name, part in module.named_modules():
            part.register_forward_pre_hook(partial(self._enter, name))
            part.register_forward_hook(self._leave, with_kwargs=True)

    def _enter(self, name: str, part: nn.Module, args: tuple) -> None:
        self._within.append(name)

    def _leave(self, part: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        both = tensors((args, kwargs)), tensors(output)
        self._held.append(both)  # what is freed may come again at the same place
        with torch._C.DisableTorchFunction():  # looking is no part of the computation
            given, made = (tuple(v.clone() for v in each) for each in both)
            taken, left = (tuple(map(_place, each)) for each in both)
        self.visits.append(Visit(self._within.pop(), part, given, made, taken, left))

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        where = self._within[-1] if self._within else ""
        self.functions.append((getattr(func, "__name__", ""), where))
        return func(*args, **kwargs or {})


def _place(tensor: Tensor) -> int:
    """The memory in which a tensor's numbers stand; views of one stand in the same."""
    # the storage itself: where it lies is no place on a device that is pretended
    return tensor.untyped_storage()._cdata


# The findings of checks: data, with one sentence of what each means and one of what to do.


class Severity(IntEnum):
    """The weight of a finding, worst first."""

    FAULT = 0
    RISK = 1
    FACT = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """One thing that was seen in a module.

    Attributes:
        severity: FAULT, something does not do what its name or its place promises; RISK, it
            may cost accuracy or a training; FACT, good to know.
        where: names of parts or parameters, the first few.
        seen: what was measured, with its numbers.
        means: what that means, in one sentence.
        do: what to do about it, in one sentence.
    """

    severity: Severity
    where: str
    seen: str
    means: str
    do: str

    def row(self) -> dict[str, str]:
        """The fields as text."""
        return asdict(self) | {"severity": self.severity.word}


@dataclass(frozen=True)
class Profile:
    """Numbers along the depth of a module, to be drawn.

    Attributes:
        title: what the numbers are.
        unit: what their axis is labelled with.
        names: the places, in the order of the computation.
        values: a line for each key, one number a place.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Result:
    """The result of one check.

    Attributes:
        findings: in no order.
        rows: the numbers behind them, a table.
        note: how they were measured, where that is not plain.
        profile: what is drawn of them.
    """

    findings: tuple[Finding, ...] = ()
    rows: tuple[dict, ...] = ()
    note: str = ""
    profile: Profile | None = None


class CannotCheck(ValueError):
    """A check does not apply, or cannot run; the message says why."""


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many others: "a, b and 4 others"."""
    names = list(dict.fromkeys(name or "the module itself" for name in names))
    rest = len(names) - most
    if rest < 2:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {rest} others"


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things in words: "1 weight", "3 weights"."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def span(low: str, high: str) -> str:
    """Two numbers as a range, or one where they read alike."""
    return low if low == high else f"{low} to {high}"


def number(value: float) -> str:
    """A number in three digits at most."""
    return f"{value:.3g}"


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
    trained = {
        name for name, p in original_module(module).named_parameters() if p.requires_grad
    }
    own = copy_module(module)
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
        check_model(module)
        if loss is not None:
            check_type("loss", loss, Callable, "a function of what the module returns")
        self.name = type(original_module(module)).__name__
        self.module, self.x = of_one_input(module, Call.of(inputs))
        self.module.train(original_module(module).training)
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

    def subject(self, bn_stats: str | None = None) -> ModuleCopy:
        """A float64 copy whose parameters can be tried out; as it trains, by default."""
        bn_stats = self.bn_stats if bn_stats is None else bn_stats
        return ModuleCopy(
            self.module, self.x, dtype=self.wide, bn_stats=bn_stats, read=self.read
        )

    @cached_property
    def objective(self) -> Objective:
        """The loss as a function of the parameters, as it trains, in float64 if that goes.

        Raises:
            CannotCheck: where there is no such function.
        """
        why = ""
        for dtype in (torch.float64, None):
            for bn_stats in ("batch", "running"):
                try:
                    with undrawn():
                        return Objective(
                            self.module, self.x, None, self.loss,
                            bn_stats=bn_stats, dtype=dtype,
                        )  # fmt: skip
                except Exception as error:  # whatever a loss of the user's may raise
                    why = why or str(error)
        raise CannotCheck(why)

    @cached_property
    def wide(self) -> torch.dtype | None:
        """float64 where the module can be evaluated in it; None: as it is."""
        for module in (self.module, of_one_precision(self.module)):
            try:
                ModuleCopy(module, self.x, dtype=torch.float64, read=self.read).run()
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
        _ = self.wide, self.bn_stats
        module, names = drawn(self.module)
        if not names:
            return self
        other = copy(self)
        other.module, other.kept = module, {"asleep": names}
        return other

    @cached_property
    def bn_stats(self) -> str:
        """Return "batch", as in training, if the module can be evaluated so; else "running"."""
        with suppress(Exception):
            ModuleCopy(
                self.module, self.x, dtype=self.wide, bn_stats="batch",
                read=self.read,
            ).run()  # fmt: skip
            return "batch"
        return "running"

    @cached_property
    def watched(self) -> Watched:
        """One evaluation, as it trains, with every call of a part and of a function."""
        return self.watch(self.x)

    def watch(self, x: Tensor, bn_stats: str | None = None) -> Watched:
        """The same of another input; as it trains, by default."""
        wide = self.wide  # which may exchange the module
        bn_stats = self.bn_stats if bn_stats is None else bn_stats
        module = deepcopy(self.module).to(wide)
        module.train(bn_stats == "batch")
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


# The normalizers of a module, told by what they compute.


SOUNDS_LIKE = re.compile(r"norm(?!al_)|^ln\d*$|^bn\d*$", re.IGNORECASE)
"""Class names that promise a normalizer."""

SHORT = 6
"""Axes that a normalizer does not insist on are cut to so many places: conformance looks at
shapes alone, and its work grows with them."""


@dataclass(frozen=True)
class Found:
    """Normalizers that are one but for their parameters.

    Attributes:
        visits: the first call of each.
        report: what they are; None where that could not be found out.
        why: then, the reason.
    """

    visits: tuple[Visit, ...]
    report: Report | None
    why: str = ""

    @property
    def names(self) -> list[str]:
        return [visit.name for visit in self.visits]

    @property
    def kind(self) -> str:
        return type(self.visits[0].part).__name__


def normalizers(audited: Audited) -> list[Found]:
    """All normalizers that are called, grouped by what they are.

    A part is one if torch or lnlab has it as one, if its class says so, or if it keeps the
    shape of its input and turns out to be one.
    """
    groups: dict[Any, list[Visit]] = {}
    for visit in first_calls(audited):
        if candidate(audited, visit):
            groups.setdefault(_likeness(visit), []).append(visit)
    found = [_identified(tuple(visits)) for visits in groups.values()]
    return [f for f in found if _is_one(f)]


def first_calls(audited: Audited) -> list[Visit]:
    """The first call of every part, in the order of the computation."""
    seen: dict[str, Visit] = {}
    for visit in audited.course:
        seen.setdefault(visit.name, visit)
    return list(seen.values())


def candidate(audited: Audited, visit: Visit) -> bool:
    """True if a part may be a normalizer: of the shape of its input, without layers inside."""
    part = visit.part
    if not visit.given or len(visit.made) != 1 or visit.made[0].shape != visit.given[0].shape:
        return isinstance(part, NORMALIZERS)
    if not visit.given[0].is_floating_point() or visit.given[0].dim() < 2:
        return False
    if isinstance(part, NORMALIZERS) or promised(part):
        return not audited.has_parts(part)
    torchs = type(part).__module__.startswith("torch.nn.")
    own = [p for p in part.parameters() if p.dim() > 1]
    return not torchs and not own and not any(part.children())


def promised(part: nn.Module) -> bool:
    """True if a class name promises a normalizer."""
    return bool(SOUNDS_LIKE.search(type(part).__name__))


def _likeness(visit: Visit) -> Any:
    """A key that is the same for normalizers which differ in their parameters alone."""
    plain = {
        key: value
        for key, value in vars(visit.part).items()
        if isinstance(value, int | float | str | tuple | None)
    }
    return type(visit.part), repr(sorted(plain.items())), visit.given[0].shape[1:]


def _identified(visits: tuple[Visit, ...]) -> Found:
    x = visits[0].given[0]
    part = plain(visits[0].part, x)
    why = ""
    for shape in _shapes(x.shape):
        try:
            with undrawn():
                return Found(visits, conformance(part, torch.zeros(shape)))
        except Exception as error:  # whatever a part of the user's may raise
            why = str(error)
    return Found(visits, None, why)


TORCHS = (
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)


def plain(part: nn.Module, x: Tensor) -> nn.Module:
    """A subclass of one of torch's that does the same but for rounding, as torch's.

    Many compute in float32 inside, whatever they are given, which a black box in float64
    would take for another function.
    """
    base = next((kind for kind in TORCHS if isinstance(part, kind)), None)
    if base is None or type(part) is base:
        return part
    same = copy_module(part).float()
    own = copy_module(part).float()
    same.__class__ = base
    with torch.no_grad(), undrawn():
        y, z = own(x.float()), same(x.float())
    return same if y.shape == z.shape and torch.allclose(y, z, atol=1e-5) else part


def _shapes(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    """Shapes of inputs to try a normalizer on: smaller ones first, the given one last."""
    cases, *rest = shape
    if len(rest) > 1:
        yield cases, rest[0], *(min(n, SHORT) for n in rest[1:])
        yield cases, *(min(n, SHORT) for n in rest[:-1]), rest[-1]
    yield tuple(shape)


def _is_one(found: Found) -> bool:
    part = found.visits[0].part
    if isinstance(part, NORMALIZERS) or promised(part):
        return True
    return found.report is not None and found.report.kind != NOTHING


def eps_of(part: nn.Module) -> float:
    """The eps that a part says it has; 0 where it says none."""
    said = (getattr(part, name, None) for name in EPS)
    return next((eps for eps in said if isinstance(eps, float)), 0.0)


def require(found: list[Found]) -> list[Found]:
    """``found``, where there are any.

    Raises:
        CannotCheck: where there are none.
    """
    if not found:
        raise CannotCheck("there is no normalizer.")
    return found
