"""The inputs of one call, and the tensors in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor


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
