"""The tensors in what a module returns."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from torch import Tensor


def tensors(output: Any) -> Iterator[Tensor]:
    """The tensors (any shapes) of tuples, lists, mappings and dataclasses, at any depth."""
    if isinstance(output, Tensor):
        yield output
        return
    parts: Any = output if isinstance(output, list | tuple) else ()
    if isinstance(output, Mapping):
        parts = output.values()
    elif is_dataclass(output):
        parts = vars(output).values()
    for part in parts:
        yield from tensors(part)


def first_tensor(output: Any) -> Tensor:
    """The first (any shape) of :func:`tensors`.

    Raises:
        TypeError: where there is none.
    """
    found = next(tensors(output), None)
    if found is None:
        raise TypeError(
            f"the module returned {type(output).__name__}, which holds no tensor: give read=, "
            "a function from what it returns to the tensor that is to be judged."
        )
    return found
