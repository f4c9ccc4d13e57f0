"""One thread for small work, the user's number for large work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

LARGE = 1_000_000
"""More parameters in a model, or more numbers in a tensor, than this are large work."""

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def one_thread(*unless_large: Any) -> Iterator[None]:
    """Let torch compute in one thread, unless the work is large; restore the number after.

    Threads share each operation and wait for each other at its end. In a small network an
    operation takes microseconds, so nothing is gained. If another program uses one of the
    cores, every operation waits until the scheduler gives that core back, milliseconds later.

    Args:
        unless_large: what is computed on: models, tensors, or objects with a ``module``. If
            one of them is large (:data:`LARGE`), the number of threads stays as it is.
    """
    before = torch.get_num_threads()
    if before == 1 or any(map(is_worth_threads, unless_large)):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_one_thread_if_small(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to compute as in :func:`one_thread`, by the size of its arguments."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread(*args, *kwargs.values()):
            return function(*args, **kwargs)

    return wrapper


def is_worth_threads(model_or_tensor: Any) -> bool:
    """Return True if a model or a tensor is so large that threads are worth their waiting."""
    work = model_or_tensor
    if isinstance(work, Tensor):
        return work.numel() > LARGE
    module = work if isinstance(work, nn.Module) else getattr(work, "module", None)
    return isinstance(module, nn.Module) and sum(p.numel() for p in module.parameters()) > LARGE
