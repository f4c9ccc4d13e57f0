"""Somebody's module: copied, its statistics taken again, its buffers put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as TorchBatchNorm
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from lnlab.analysis.arguments import refuse_no_module, refuse_unreadable
from lnlab.nn import (
    BatchLayerNorm,
    BatchNorm,
    Mode,
    OverCases,
    recompute,
    statistics_from,
    wide,
)
from lnlab.nn.batch import batch_moments


class Buffers:
    """The contents of a module's buffers, put back at the end of each ``with`` block.

    Args:
        module: whose buffers are kept; they are cloned.
    """

    def __init__(self, module: nn.Module) -> None:
        self._kept = [(part, _clones(part)) for part in module.modules() if part._buffers]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part, buffers in self._kept:
            part._buffers.update(
                {n: None if b is None else b.clone() for n, b in buffers.items()}
            )

    def into(self, other: nn.Module) -> None:
        """Let ``other``, a copy of the module, hold the same."""
        parts = (part for part in other.modules() if part._buffers)
        for part, (_, buffers) in zip(parts, self._kept, strict=True):
            part._buffers.update(buffers)


def _clones(part: nn.Module) -> dict[str, Tensor | None]:
    return {name: None if b is None else b.clone() for name, b in part._buffers.items()}


def untouched(module: nn.Module) -> nn.Module:
    """A copy to be changed, without hooks that are not torch's own.

    Raises:
        TypeError: where it is no module.
        ValueError: where it cannot be copied, or is compiled by torch.jit, or holds parts that
            torch.compile made or parameters without numbers.
    """
    module = uncompiled(module)
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise ValueError(
                f"{name or type(module).__name__} is compiled by torch.jit, which keeps its "
                "parameters to itself: give the module that was scripted or traced."
            )
        if part is not uncompiled(part):
            raise ValueError(f"{name} is compiled: compile the whole, or give it as it was.")
    for name, p in (*module.named_parameters(), *module.named_buffers()):
        if not is_lazy(p):
            refuse_unreadable(name, p)
    try:
        copy = deepcopy(module, _passing(module))
    except Exception as error:
        raise ValueError(
            f"{type(module).__name__} cannot be copied, and only copies are changed. What it "
            f"keeps beside parameters and buffers must bear copy.deepcopy: {error}"
        ) from error
    for part in copy.modules():
        for hooks in (part._forward_hooks, part._forward_pre_hooks):
            for key in [k for k, hook in hooks.items() if not _torchs(hook)]:
                del hooks[key]
    return copy.requires_grad_(False)


def uncompiled(module: nn.Module) -> nn.Module:
    """The module behind torch.compile; any other is itself.

    Raises:
        TypeError: for what is no module.
    """
    refuse_no_module(module)
    return getattr(module, "_orig_mod", module)


def _passing(module: nn.Module) -> dict[int, Tensor]:
    """The tensors that a module keeps of its last call, for deepcopy, which takes none such."""
    kept = (value for part in module.modules() for value in tree_leaves(vars(part)))
    return {id(v): v.detach().clone() for v in kept if isinstance(v, Tensor) and not v.is_leaf}


def _torchs(hook: Callable) -> bool:
    """True if a hook is one of torch's own: old weight_norm makes its weight in one."""
    return type(hook).__module__.startswith("torch.nn.")


@torch.no_grad()
def remember(module: nn.Module, population: Any) -> None:
    """Let ``module`` know the statistics of ``population``, its input, as all the data.

    It is left in evaluation mode.
    """
    module.eval()
    mixtures = [part for part in module.modules() if isinstance(part, BatchLayerNorm)]
    for mixture in mixtures:
        mixture.forget()
        mixture.train()
    if mixtures:
        with statistics_from(module, Mode.BATCH):
            module(population)
    module.eval()
    recompute(module, [population])


def over_cases(module: nn.Module) -> list[nn.Module]:
    """The parts of ``module`` that remember statistics over cases."""
    return [
        part
        for part in module.modules()
        if isinstance(part, OverCases | BatchLayerNorm)
        or (isinstance(part, TorchBatchNorm) and part.running_mean is not None)
    ]


@torch.no_grad()
def in_one_pass(module: nn.Module, x: Tensor) -> bool:
    """True if :func:`taking_statistics` does what :func:`remember` does, on x (B, ...).

    It does where every statistic is that of a single call: of batch normalization alone, each
    called once.
    """
    parts, calls = over_cases(module), []
    if not all(isinstance(part, TorchBatchNorm) or type(part) is BatchNorm for part in parts):
        return False
    hooks = [part.register_forward_pre_hook(lambda *_: calls.append(1)) for part in parts]
    try:
        module(x.clone())
    finally:
        for hook in hooks:
            hook.remove()
    return len(calls) <= len(parts)


@contextmanager
def taking_statistics(module: nn.Module) -> Iterator[None]:
    """While it is called in evaluation mode, batch norms know what they are given.

    The statistics of a population that is a single batch: one pass in place of two.
    """

    def take(norm: nn.Module, args: tuple) -> None:
        axis = norm.unit_axis if isinstance(norm, OverCases) else 1
        mu, var, _ = batch_moments(wide(args[0]), axis)
        norm.get_buffer("running_mean").copy_(mu)
        norm.get_buffer("running_var").copy_(var)

    hooks = [part.register_forward_pre_hook(take) for part in over_cases(module)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
