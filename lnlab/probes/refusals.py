"""Refusals of what no probe takes, by its name and where it enters."""

from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any

from torch import Tensor, nn

OPTIMIZER = "one of torch.optim's, SGD(model.parameters(), lr=0.1)"


def refuse_other(name: str, value: Any, kind: type | tuple[type, ...], give: str) -> None:
    """Raise TypeError, "NAME is a str: give GIVE.", unless ``value`` is a ``kind``."""
    if isinstance(value, kind):
        return
    wanted = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, type) and issubclass(value, wanted):
        made = value.__name__
        raise TypeError(f"{name} is the class {made}: make one of it, {made}(...).")
    what = "None" if value is None else f"of class {type(value).__name__}"
    raise TypeError(f"{name} is {what}: give {give}.")


def refuse_no_module(module: Any, name: str = "module") -> None:
    """Raise TypeError unless ``module``, called ``name``, is a torch.nn.Module."""
    refuse_other(name, module, nn.Module, "a torch.nn.Module")


def refuse_no_tensor(name: str, v: Any, meant: str = "a tensor") -> None:
    """Raise TypeError unless ``v``, called ``name``, is a tensor (any shape)."""
    refuse_other(name, v, Tensor, f"{meant}; of an array or a list torch.as_tensor makes one")


def refuse_no_function(name: str, value: Any, give: str) -> None:
    """Raise TypeError unless ``value`` can be called and is no class of modules."""
    if isinstance(value, type) and issubclass(value, nn.Module):
        refuse_other(name, value, nn.Module, give)
    refuse_other(name, value, Callable, give)  # type: ignore[arg-type]


def refuse_no_number(name: str, value: Any) -> None:
    """Raise TypeError unless ``value``, called ``name``, is a number."""
    refuse_other(name, value, (Real, Tensor), "a number")


def refuse_no_count(name: str, value: Any) -> None:
    """Raise TypeError unless ``value``, called ``name``, is a whole number."""
    refuse_other(name, value, Integral, "a whole number")


def several(name: str, value: Any, kind: type | tuple[type, ...], give: str) -> list:
    """``value`` as a list: a lone one of ``kind`` is a list of one.

    Raises:
        TypeError: where it is neither.
    """
    if isinstance(value, kind):
        return [value]
    refuse_other(name, value, kind if isinstance(value, str) else Collection, give)
    return list(value)
