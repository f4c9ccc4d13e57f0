"""A module watched in one evaluation: what of it is called, with which numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lnlab.audit.call import tensors


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
