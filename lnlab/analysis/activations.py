"""The inputs of the nonlinearities of a module, and the outputs of its normalizers.

A ReLU below 0 keeps its output, whatever happens to its input. Whether a change has an
effect is therefore asked in two places: at the outputs, and at the inputs of each f.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase as TorchNorm
from torch.overrides import TorchFunctionMode

from lnlab.nn import Normalizer

NORMALIZERS = (Normalizer, TorchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def is_known_norm(module: nn.Module) -> bool:
    """Return True for a normalizer of torch.nn or lnlab.nn, not for a subclass with a forward
    of its own, which may do anything."""
    if not isinstance(module, NORMALIZERS) or "forward" in vars(module):
        return False
    owner = next(kind for kind in type(module).__mro__ if "forward" in vars(kind))
    return owner.__module__.startswith(("torch.nn.", "lnlab.nn."))


_NAMES = """
    relu relu_ relu6 leaky_relu leaky_relu_ prelu rrelu elu elu_ selu selu_ celu celu_ gelu silu
    mish tanh tanh_ sigmoid sigmoid_ logsigmoid softplus softsign softshrink hardshrink hardtanh
    hardtanh_ hardsigmoid hardswish threshold threshold_
"""
NONLINEARITIES = {
    function: name.rstrip("_")
    for owner in (torch, F, Tensor)
    for name in _NAMES.split()
    if (function := getattr(owner, name, None)) is not None
}
"""Torch's elementwise nonlinearities. One written by hand, with ``torch.where`` say, is seen
only if it clamps at 0; those inside nn.LSTM and nn.GRU are not seen."""

_CLAMPS = {torch.clamp, torch.clamp_min, Tensor.clamp, Tensor.clamp_, Tensor.clamp_min}


ModuleAndFunctionName = str


class NonlinearityOrNormCall(NamedTuple):
    """One nonlinearity or normalizer in one evaluation."""

    name: ModuleAndFunctionName
    f_input_or_norm_output: Tensor
    h: Tensor | None  # the output of f; None for a normalizer
    # where f does not respond to a small change of its input; None for a normalizer
    is_flat: Tensor | None


class ActivationRecorder(TorchFunctionMode):
    """Records the activations of a module, in the order in which they are computed.

    The module is a copy of the user's: the hooks that tell where a function is called stay on
    it. ``called_modules`` has the names of the modules that were called.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.active = False
        for name, child in module.named_modules():
            child.register_forward_pre_hook(partial(self._enter_module, name))
            child.register_forward_hook(self._leave_module, always_call=True)

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        f = _nonlinearity_name(func, args, kwargs)
        # the output of a normalizer that goes into f at once has just been copied
        norm_output, self._norm_output = self._norm_output, None
        if f is None or not args or not isinstance(args[0], Tensor):
            return func(*args, **kwargs)
        same = norm_output if norm_output and norm_output[0] is args[0] else None
        a = same[1] if same else args[0].clone()
        h = func(*args, **kwargs)
        flat = _is_flat_at(func, a, args[1:], kwargs, h) if self.find_where_flat else None
        self.activations.append(
            NonlinearityOrNormCall(self._prefix_module_path(f), a, h.clone(), flat)
        )
        return h

    def _prefix_module_path(self, function_name: str) -> str:
        path = self._stack[-1] if self._stack else ""
        return f"{path}: {function_name}" if path else function_name

    @contextmanager
    def record_evaluation(
        self, *, find_where_flat: bool = False
    ) -> Iterator[list[NonlinearityOrNormCall]]:
        """Record one evaluation; with ``find_where_flat``, also where each f is flat."""
        self.find_where_flat = find_where_flat
        self.activations: list[NonlinearityOrNormCall] = []
        self.called_modules: set[str] = set()
        self._stack: list[str] = []
        self._norm_output: tuple[Tensor, Tensor] | None = None
        self.active = True
        try:
            with self:
                yield self.activations
        finally:
            # what is large is not kept
            self.active, self._norm_output, self.activations = False, None, []

    def _enter_module(self, name: str, module: nn.Module, args: tuple) -> None:
        if self.active:
            self._stack.append(name)
            self.called_modules.add(name)

    def _leave_module(self, module: nn.Module, args: tuple, output: Any) -> None:
        if not self.active:
            return
        if isinstance(module, NORMALIZERS) and isinstance(output, Tensor):
            with torch._C.DisableTorchFunction():  # the copy is no part of the computation
                activation = NonlinearityOrNormCall(
                    self._prefix_module_path(type(module).__name__), output.clone(), None, None
                )
            self.activations.append(activation)
            self._norm_output = output, activation.f_input_or_norm_output
        self._stack.pop()


def _nonlinearity_name(func: Callable, args: tuple, kwargs: dict) -> str | None:
    """Return the name of f if ``func`` is one."""
    if func in _CLAMPS:
        low = kwargs.get("min", args[1] if len(args) > 1 else None)
        high = kwargs.get("max", args[2] if len(args) > 2 else None)
        rectifies = isinstance(low, int | float) and low == 0 and high != 0
        return "clamp" if rectifies else None
    return NONLINEARITIES.get(func)


def _is_flat_at(
    func: Callable, a: Tensor, other_args: tuple, kwargs: dict, f_of_a: Tensor
) -> Tensor:
    """Return where f responds neither to a small step up nor to one down."""
    # relative to a, so that no precision rounds it away; at a = 0 it is still not 0, and where
    # f is not 0 there (a sigmoid), large enough to be seen beside it
    tiny = torch.finfo(a.dtype).tiny
    step = 1e-2 * torch.where(f_of_a == 0, a.abs() + tiny, a.abs().clamp(min=1e-4))
    kwargs = {**kwargs, **({"inplace": False} if "inplace" in kwargs else {})}
    up, down = (func((a + d).clone(), *other_args, **kwargs) for d in (step, -step))
    return (up == f_of_a) & (down == f_of_a)


def count_dead_units(activations: list[NonlinearityOrNormCall]) -> dict[str, tuple[int, int]]:
    """Return, for each f with units flat in all examples, how many, and of how many.

    Units are along the last axis, in images (B, H, height, width) along the second.
    """
    dead = {}
    for activation in activations:
        if activation.is_flat is None or activation.is_flat.dim() < 2:
            continue
        unit_axis = 1 if activation.is_flat.dim() == 4 else activation.is_flat.dim() - 1
        flat = activation.is_flat.movedim(unit_axis, 0).flatten(1).all(1)
        if bool(flat.any()):
            dead[activation.name] = (int(flat.sum()), flat.numel())
    return dead
