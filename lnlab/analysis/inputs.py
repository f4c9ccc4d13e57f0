"""The inputs of a user's module: those of one call, and a copy that is called with one of them.

Analyses evaluate a module that is called with one tensor. A module of several inputs becomes
one: on a copy, the first floating point tensor is left open, and the others are fixed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.analysis.module_copy import frozen_copy_without_hooks, uncompiled_module

GIVEN = "_given_"
"""The beginning of the names of buffers that hold the inputs beside the open one."""


class Call:
    """The inputs of one call: ``module(*args, **kwargs)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    @classmethod
    def from_inputs(cls, inputs: Any) -> Call:
        """Return the call that has these inputs.

        A tensor or a dataclass is the only input; a tuple or list has all of them in order,
        a mapping all of them by keyword.
        """
        if isinstance(inputs, Call):
            return inputs
        if isinstance(inputs, Mapping):
            return cls(**inputs)
        plain = isinstance(inputs, tuple | list) and not hasattr(inputs, "_fields")
        return cls(*inputs) if plain else cls(inputs)


def map_tensors(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return ``tree`` with every tensor (any shape) changed.

    Those in tuples, lists, mappings and dataclasses are found.
    """
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: map_tensors(value, change) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        values = [map_tensors(value, change) for value in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    if is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in fields(tree) if field.init]
        return replace(tree, **{n: map_tensors(getattr(tree, n), change) for n in names})
    return tree


def list_tensors(tree: Any) -> list[Tensor]:
    """Return every tensor (any shape) of a tree, in order."""
    tensors: list[Tensor] = []
    map_tensors(tree, lambda tensor: tensors.append(tensor) or tensor)
    return tensors


def list_floating_tensors(tree: Any) -> list[Tensor]:
    """Return the floating point tensors (any shape) of a tree, in order."""
    return [tensor for tensor in list_tensors(tree) if tensor.is_floating_point()]


def argument_name_per_tensor(module: nn.Module, call: Call) -> list[str]:
    """Return the name of the argument that each tensor of a call belongs to, in order."""
    parameters = inspect.signature(module.forward).parameters.values()
    known = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    positional = known + [f"input {n}" for n in range(len(known) + 1, len(call.args) + 1)]
    arguments = [*zip(positional, call.args, strict=False), *call.kwargs.items()]
    return [name for name, value in arguments for _ in list_tensors(value)]


def raise_if_empty_or_nan(inputs: Any) -> None:
    """Raise ValueError where a tensor of the inputs is empty or holds NaN.

    Infinities are allowed: masks are made of them.
    """
    for v in list_tensors(inputs):
        if not v.numel() or bool(v.isnan().any()):
            wrong = "holds NaN" if v.numel() else "has no numbers"
            raise ValueError(
                f"an input of shape {tuple(v.shape)} {wrong}: give examples that are numbers."
            )


def copy_with_one_input(module: nn.Module, call: Call) -> tuple[nn.Module, Tensor]:
    """Return a copy of ``module`` that is called with one tensor (any shape), and that tensor.

    The open one is the first floating point tensor of ``call``, or the first tensor. The
    others are buffers of the copy, so that a change of precision reaches them. Modules and
    parameters keep their names.

    Raises:
        TypeError: where the call has no tensor.
        ValueError: where the module cannot be copied, or a tensor is empty or holds NaN.
    """
    parameters = uncompiled_module(module).named_parameters()
    trained = {name for name, p in parameters if p.requires_grad}
    copy = frozen_copy_without_hooks(module)
    for name, p in copy.named_parameters():
        p.requires_grad_(name in trained)
    given = list_tensors((call.args, call.kwargs))
    if not given:
        raise TypeError(
            f"the input of {type(copy).__name__} holds no tensor: give what it is called with, "
            "numbers and arrays as torch.as_tensor(x)."
        )
    raise_if_empty_or_nan(given)
    if len(given) == 1 and len(call.args) == 1 and isinstance(call.args[0], Tensor):
        return copy, given[0].detach().clone()
    open_index = next((i for i, v in enumerate(given) if v.is_floating_point()), 0)
    for i, tensor in enumerate(given):
        if i != open_index:
            copy.register_buffer(f"{GIVEN}{i}", tensor.detach().clone(), persistent=False)

    def forward(self: nn.Module, old: Callable, x: Tensor) -> Any:
        order = iter(range(len(given)))

        def input_or_buffer(_: Tensor) -> Tensor:
            i = next(order)
            return x if i == open_index else self.get_buffer(f"{GIVEN}{i}")

        args, kwargs = map_tensors((call.args, call.kwargs), input_or_buffer)
        return old(*args, **kwargs)

    wrap_forward(copy, forward)
    return copy, given[open_index].detach().clone()


def wrap_forward(module: nn.Module, wrapper: Callable) -> None:
    """Give ``module`` a subclass of its class, of the same name, with another forward.

    Args:
        module: changed in place.
        wrapper: a function of the module, its old forward, and the inputs.
    """
    base: Any = type(module)
    old = base.forward
    if isinstance(module, torch.fx.GraphModule):  # it would make a class of its own again
        base = nn.Module
    of_instance = "forward" in vars(module)  # which would go before that of the class
    if of_instance:
        module.instance_forward = vars(module).pop("forward")

    def new_forward(self: nn.Module, *args: Any) -> Any:
        inner = self.instance_forward if of_instance else partial(old, self)
        return wrapper(self, inner, *args)

    new_class: Any = type(type(module).__name__, (base,), {"forward": new_forward})
    module.__class__ = new_class
