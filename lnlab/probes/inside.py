"""What goes into the nonlinearities of a module: where an invariance may hide.

A ReLU that is shut makes its output stand still whatever is done to what it reads. What a
module computes is therefore looked at in two places: at its outputs, and *inside*, at all
that goes into an f or comes out of a normalizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.overrides import TorchFunctionMode

from lnlab.norms import Normalizer

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

_CLAMPS = (torch.clamp, torch.clamp_min, Tensor.clamp, Tensor.clamp_, Tensor.clamp_min)


class Site(NamedTuple):
    """What was seen at one place inside.

    Attributes:
        name: of the module and the function.
        a: what goes into f, or comes out of a normalizer.
        h: what f makes of it; None behind a normalizer.
        shut: where f answers no small change of ``a``; None behind a normalizer.
    """

    name: str
    a: Tensor
    h: Tensor | None
    shut: Tensor | None


class Inside(TorchFunctionMode):
    """Sees what passes inside ``module`` while it is the active mode.

    Attributes:
        sites: what was seen, in the order of the computation.
        called: the names of the modules that were called.
    """

    def __init__(self, module: nn.Module, *, find_shut: bool = False) -> None:
        super().__init__()
        self.module, self.find_shut = module, find_shut
        self.sites: list[Site] = []
        self.called: set[str] = set()
        self._within: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        f = _nonlinearity(func, args, kwargs)
        if f is None or not args or not isinstance(args[0], Tensor):
            return func(*args, **kwargs)
        a = args[0].clone()
        h = func(*args, **kwargs)
        shut = _shut(func, a, args[1:], kwargs, h) if self.find_shut else None
        self.sites.append(Site(self._name(f), a, h.clone(), shut))
        return h

    def _name(self, last: str) -> str:
        path = self._within[-1] if self._within else ""
        return f"{path}: {last}" if path else last

    @contextmanager
    def watching(self) -> Iterator["Inside"]:
        """Active, and told by hooks in which module a function is called."""
        hooks = []
        for name, module in self.module.named_modules():
            hooks.append(module.register_forward_pre_hook(self._entering(name)))
            hooks.append(module.register_forward_hook(self._leaving, always_call=True))
        try:
            with self:
                yield self
        finally:
            for hook in hooks:
                hook.remove()

    def _entering(self, name: str):
        def enter(module: nn.Module, args: tuple) -> None:
            self._within.append(name)
            self.called.add(name)

        return enter

    def _leaving(self, module: nn.Module, args: tuple, output: Any) -> None:
        if isinstance(module, NORMALIZERS) and isinstance(output, Tensor):
            name = self._name(type(module).__name__)
            self.sites.append(Site(name, output.clone(), None, None))
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
    """Where f answers neither a small step up nor one down."""
    step = 1e-2 * (a.abs() + torch.finfo(a.dtype).tiny)
    kwargs = {**kwargs, **({"inplace": False} if "inplace" in kwargs else {})}
    up, down = (func((a + d).clone(), *rest, **kwargs) for d in (step, -step))
    return (up == h) & (down == h)


def dead_units(sites: list[Site]) -> dict[str, tuple[int, int]]:
    """For each f with units that are shut in all cases: how many, and of how many.

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
