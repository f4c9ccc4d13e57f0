"""A user's module, evaluated again and again without leaving a trace."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from lnlab.analysis.arguments import first_tensor, refuse_no_function, refuse_no_tensor
from lnlab.analysis.module_copy import (
    Buffers,
    in_one_pass,
    remember,
    taking_statistics,
    untouched,
)
from lnlab.nn import Conv2d, Linear, Normalizer
from lnlab.nn.table1 import Statistics

# The inputs of a module's nonlinearities: where an invariance may hide.
#
# A ReLU that is shut makes its output stand still whatever is done to what it reads. What a
# module computes is therefore looked at in two places: at its outputs, and *inside*, at all
# that goes into an f or comes out of a normalizer.


NORMALIZERS = (Normalizer, TorchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)

_NAMES = """
    relu relu_ relu6 leaky_relu leaky_relu_ prelu rrelu elu elu_ selu selu_ celu celu_ gelu silu
    mish tanh tanh_ sigmoid sigmoid_ logsigmoid softplus softsign softshrink hardshrink hardtanh
    hardtanh_ hardsigmoid hardswish threshold threshold_
"""
NONLINEARITIES = {
    function: name.rstrip("_")
    for place in (torch, F, Tensor)
    for name in _NAMES.split()
    if (function := getattr(place, name, None)) is not None
}
"""Torch's elementwise nonlinearities. One written by hand, of ``torch.where`` say, is seen
only if it clamps at 0; those inside nn.LSTM and nn.GRU are not seen."""

_CLAMPS = {torch.clamp, torch.clamp_min, Tensor.clamp, Tensor.clamp_, Tensor.clamp_min}


class Site(NamedTuple):
    """One place inside, and what was seen there.

    Attributes:
        name: the module and the function.
        a: what goes into f, or comes out of a normalizer.
        h: what f makes of it; None behind a normalizer.
        shut: where f answers no small change of ``a``; None behind a normalizer.
    """

    name: str
    a: Tensor
    h: Tensor | None
    shut: Tensor | None


class Inside(TorchFunctionMode):
    """Sees what passes inside ``module`` while it is watched.

    Hooks tell in which part a function is called; they stay on the module, which is a copy of
    our own, and say nothing while nobody is watching.

    Args:
        module: what is looked into.

    Attributes:
        sites: what was seen, in the order of the computation.
        called: the names of the modules that were called.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.watches = False
        for name, part in module.named_modules():
            part.register_forward_pre_hook(partial(self._enter, name))
            part.register_forward_hook(self._leave, always_call=True)

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        f = _nonlinearity(func, args, kwargs)
        # what a normalizer put out and goes into f at once has just been copied
        put_out, self._put_out = self._put_out, None
        if f is None or not args or not isinstance(args[0], Tensor):
            return func(*args, **kwargs)
        a = put_out[1] if put_out and put_out[0] is args[0] else args[0].clone()
        h = func(*args, **kwargs)
        shut = _shut(func, a, args[1:], kwargs, h) if self.find_shut else None
        self.sites.append(Site(self._name(f), a, h.clone(), shut))
        return h

    def _name(self, last: str) -> str:
        path = self._within[-1] if self._within else ""
        return f"{path}: {last}" if path else last

    @contextmanager
    def watching(self, *, find_shut: bool = False) -> Iterator[Self]:
        """Active, with nothing seen yet.

        Args:
            find_shut: whether to ask each f where it is shut.
        """
        self.find_shut = find_shut
        self.sites: list[Site] = []
        self.called: set[str] = set()
        self._within: list[str] = []
        self._put_out: tuple[Tensor, Tensor] | None = None
        self.watches = True
        try:
            with self:
                yield self
        finally:
            self.watches, self._put_out = False, None

    def _enter(self, name: str, module: nn.Module, args: tuple) -> None:
        if self.watches:
            self._within.append(name)
            self.called.add(name)

    def _leave(self, module: nn.Module, args: tuple, output: Any) -> None:
        if not self.watches:
            return
        if isinstance(module, NORMALIZERS) and isinstance(output, Tensor):
            with torch._C.DisableTorchFunction():  # looking is no part of the computation
                site = Site(self._name(type(module).__name__), output.clone(), None, None)
            self.sites.append(site)
            self._put_out = output, site.a
        self._within.pop()


def _nonlinearity(func, args: tuple, kwargs: dict) -> str | None:
    """The name of f, where ``func`` is one."""
    if func in _CLAMPS:
        low = kwargs.get("min", args[1] if len(args) > 1 else None)
        high = kwargs.get("max", args[2] if len(args) > 2 else None)
        rectifies = isinstance(low, int | float) and low == 0 and high != 0
        return "clamp" if rectifies else None
    return NONLINEARITIES.get(func)


def _shut(func, a: Tensor, rest: tuple, kwargs: dict, h: Tensor) -> Tensor:
    """The places where f answers neither a small step up nor one down."""
    # relative to a, to be no rounding in any precision; at a = 0 still not 0
    step = 1e-2 * (a.abs() + torch.finfo(a.dtype).tiny)
    kwargs = {**kwargs, **({"inplace": False} if "inplace" in kwargs else {})}
    up, down = (func((a + d).clone(), *rest, **kwargs) for d in (step, -step))
    return (up == h) & (down == h)


def dead_units(sites: list[Site]) -> dict[str, tuple[int, int]]:
    """The number of units that are shut in all cases, and of how many, for each f that has any.

    Units stand along the last axis, in pictures (B, H, height, width) along the second.
    """
    dead = {}
    for site in sites:
        if site.shut is None or site.shut.dim() < 2:
            continue
        unit_axis = 1 if site.shut.dim() == 4 else site.shut.dim() - 1
        shut = site.shut.movedim(unit_axis, 0).flatten(1).all(1)
        if bool(shut.any()):
            dead[site.name] = (int(shut.sum()), shut.numel())
    return dead


Read = Callable[[Any], Tensor]
"""A reader: from what a module returns to the tensor that is judged."""

GIVEN = "the tensor that the module is called on (a module around it can hold others)"
READER = "a function from what the module returns to the tensor that is judged"

GAINS = ("weight_g", "original0")
"""Parameters of torch's weight_norm that are gains, though they are matrices (H, 1)."""

SUMMING = (nn.Linear, _ConvNd, Linear, Conv2d)
"""Layers that make summed inputs, torch's and ours."""

EPS = ("eps", "epsilon", "variance_epsilon")
"""The names that modules have for it."""
NO_EPS = 1e-300
"""Torch's BatchNorm refuses 0 in training; no variance that float64 can hold notices this."""


@dataclass(frozen=True)
class Weight:
    """A matrix or kernel of a module.

    Attributes:
        name: what the parameter is called, "0.weight".
        owner: what the module is called that has it, "0".
        unit_axis: the axis along which its units stand.
        summed: whether its owner makes summed inputs when it is called.
    """

    name: str
    owner: str
    unit_axis: int
    summed: bool


def weights_of(module: nn.Module, names: list[str] | None = None) -> dict[str, Weight]:
    """The weights of ``module`` by name; the given ``names`` alone, where there are any.

    Found are all parameters of two axes or more but those of normalizers and embeddings.

    Raises:
        ValueError: for a name that is none, and for parameters not made yet.
    """
    found = {}
    first_names = {id(p): name for name, p in module.named_parameters()}
    for owner_name, owner in module.named_modules():
        for name, p in owner.named_parameters(recurse=False):
            path = first_names[id(p)]  # of a parameter that is shared by several parts
            if isinstance(p, UninitializedParameter):
                raise ValueError(f"{path} has no shape yet: call the module once first.")
            asked = names is not None and path in names
            gain = isinstance(owner, (*NORMALIZERS, nn.Embedding)) or name in GAINS
            if path not in found and p.dim() >= 2 and (asked or (names is None and not gain)):
                axis = 1 if isinstance(owner, _ConvTransposeNd) else 0
                summed = isinstance(owner, SUMMING)
                found[path] = Weight(path, owner_name, axis, summed)
    if missing := set(names or ()) - set(found):
        choice = ", ".join(weights_of(module)) or "none"
        raise ValueError(f"no weight is called {sorted(missing)}: there are {choice}.")
    return found


class Trial(NamedTuple):
    """A change: what is put in the place of what the module has.

    Attributes:
        x: its input.
        weights: parameters by name.
        shift: the owner of a weight, and what is done to the summed inputs it makes.
    """

    x: Tensor
    weights: Mapping[str, Tensor] = {}
    shift: tuple[str, Callable[[Tensor], Tensor]] | None = None


class Seen(NamedTuple):
    """The outputs of one evaluation, what was seen inside, and which modules were called."""

    y: Tensor
    inside: list[Site]
    called: set[str]


class Subject:
    """A copy of a module in one precision, with statistics over cases from one place.

    Each evaluation starts from the same buffers, and from the random state at hand, which it
    puts back. Hooks that are not torch's own are not copied.

    Args:
        module: what is copied; it is not touched.
        x: its input.
        dtype: the precision of the copy; None as it is.
        statistics: where those over cases come from. BATCH is training mode.
        read: what is judged.

    Raises:
        TypeError: where module, x or read are none.
        ValueError: where the module cannot be copied.
    """

    def __init__(
        self,
        module: nn.Module,
        x: Tensor,
        *,
        dtype: torch.dtype | None = None,
        statistics: Statistics = Statistics.FROZEN,
        read: Read = first_tensor,
    ) -> None:
        refuse_no_tensor("x", x, GIVEN)
        refuse_no_function("read", read, READER)
        self.statistics, self.read = statistics, read
        self.module = untouched(module)
        self.x = x.detach().clone()
        if dtype is not None:
            self.module.to(dtype)
            self.x = self.x.to(dtype) if x.is_floating_point() else self.x
        self.module.train(statistics is Statistics.BATCH)
        self._buffers = Buffers(self.module)
        self._devices = [x.device] if x.is_cuda else []
        self.parameters = dict(self.module.named_parameters())
        self._inside = Inside(self.module)
        self._one_pass: bool | None = None

    @torch.no_grad()
    def see(self, trial: Trial | None = None, *, find_shut: bool = False) -> Seen:
        """Evaluate the module with ``trial`` in the place of its own.

        Args:
            trial: the changes; None: none.
            find_shut: whether to ask each f where it is shut.

        Raises:
            TypeError: if what is read of the output is no tensor.
            ValueError: if the module does not take what it is given.
        """
        trial = Trial(self.x) if trial is None else trial
        with torch.random.fork_rng(self._devices), self._buffers, self._changed(trial):
            x, inside = trial.x.clone(), self._inside
            try:
                with self._taking_statistics(trial.x), inside.watching(find_shut=find_shut):
                    output = self.module(x)
            except Exception as error:  # whatever a module of the user's may raise
                raise ValueError(
                    f"{type(self.module).__name__} does not take x of shape "
                    f"{tuple(trial.x.shape)} in {trial.x.dtype}: {error}"
                ) from error
            y = self.read(output)
            if not isinstance(y, Tensor):
                raise TypeError(f"read= returned {type(y).__name__}: let it return a tensor.")
            return Seen(y.clone(), inside.sites, inside.called)

    def _taking_statistics(self, population: Tensor) -> AbstractContextManager:
        """A context in which recomputed statistics are those of the population."""
        if self.statistics is not Statistics.RECOMPUTED:
            return nullcontext()
        if self._one_pass is None:
            self._one_pass = in_one_pass(self.module, population)
        if self._one_pass:
            return taking_statistics(self.module)
        remember(self.module, population)
        return nullcontext()

    def without(self, *, eps: bool = False, bias: bool = False) -> "Subject | None":
        """Another one with every eps, or the bias inside every a, 0; None where there is none.

        A bias inside is that of a layer that makes summed inputs.
        """
        other = deepcopy(self)
        found = [eps and _drop_eps(part) for part in other.module.modules()]
        found += [bias and _drop_bias(part) for part in other.module.modules()]
        return other if any(found) else None

    @contextmanager
    def _changed(self, trial: Trial) -> Iterator[None]:
        own = {name: self.parameters[name].data for name in trial.weights}
        hook = None if trial.shift is None else self._shifting(*trial.shift)
        try:
            for name, W in trial.weights.items():
                self.parameters[name].data = W
            yield
        finally:
            for name, W in own.items():
                self.parameters[name].data = W
            if hook is not None:
                hook.remove()

    def _shifting(self, owner: str, shift: Callable[[Tensor], Tensor]):
        """A hook that shifts the summed inputs of ``owner``."""

        def before(norm: nn.Module, args: tuple) -> tuple:
            return shift(args[0]), *args[1:]

        def behind(layer: nn.Module, args: tuple, output: Tensor) -> Tensor:
            return shift(output)

        part = self.module.get_submodule(owner)
        if isinstance(part, Linear | Conv2d):
            return part.norm.register_forward_pre_hook(before)
        return part.register_forward_hook(behind)


def _drop_eps(part: nn.Module) -> bool:
    """True if there was one."""
    if isinstance(part, nn.RMSNorm) and part.eps is None:  # torch's: that of the precision
        part.eps = NO_EPS
        return True
    found = [n for n in EPS if isinstance(getattr(part, n, None), float) and getattr(part, n)]
    for name in found:
        setattr(part, name, NO_EPS)
    return bool(found)


def _drop_bias(part: nn.Module) -> bool:
    """True if there was one."""
    if not isinstance(part, SUMMING):
        return False
    b = part.b_inside if isinstance(part, Linear | Conv2d) else part.bias
    if not isinstance(b, Tensor) or not bool(b.any()):
        return False
    b.data = torch.zeros_like(b)
    return True
