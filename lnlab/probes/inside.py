"""The inputs of a module's nonlinearities: where an invariance may hide.

A ReLU that is shut makes its output stand still whatever is done to what it reads. What a
module computes is therefore looked at in two places: at its outputs, and *inside*, at all
that goes into an f or comes out of a normalizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.overrides import TorchFunctionMode

from lnlab.nn import Normalizer

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
