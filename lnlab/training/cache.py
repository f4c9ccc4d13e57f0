"""The results of a notebook's own functions, kept on disk and found again by what made them."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from dis import get_instructions
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import lnlab
from lnlab.data.cache import Arrays, code, kept
from lnlab.threads import in_one_thread

FRAME = "columns"
"""The name of the one array of a table: the bytes of its columns as JSON."""
SHAPE = "shape of "
READING = ("LOAD_GLOBAL", "LOAD_NAME")
"""The instructions by which a function reads a name from beside it."""


@in_one_thread
def remembered(make: Callable[..., Any], *given: Any) -> Any:
    """The result of ``make(*given)``, computed once on this machine.

    It is made again as soon as anything that decides it is another: what is given, the source
    of ``make`` and of the functions beside it that it calls, the values that these read, the
    checksum of a data set among them, any source of lnlab, or torch's version.

    Args:
        make: a function whose source can be read; it gives a table, or tensors (any shape)
            by name.
        given: plain values, and dataclasses of these: tasks.

    Raises:
        TypeError: if ``make`` is given or reads something that cannot be told from another by
            what is written in it, or gives neither of the two.
    """
    for value in given:
        if not _plain(value):
            raise TypeError(
                f"{make.__name__} is given {value!r}: give plain values, or a task."
            )
    sources = sorted(Path(lnlab.__file__).parent.rglob("*.py"))
    told = [repr(given), *_written(make, set()), code(*sources), torch.__version__]
    return _unpacked(kept("remembered", "\n".join(told), lambda: _packed(make(*given))))


def _written(function: Any, seen: set[str]) -> Iterator[str]:
    """The source of a function and of those beside it, and the values that they read."""
    seen.add(function.__name__)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if function.__closure__ or not _plain(defaults):
        raise TypeError(
            f"{function.__name__} has something from around it, or a default that is not "
            "plain: give what decides its result as arguments."
        )
    yield f"{inspect.getsource(function)}{function.__defaults__!r}{function.__kwdefaults__!r}"
    beside = function.__globals__
    for name in sorted(_names(function.__code__) & beside.keys() - seen):
        value = beside[name]
        if isinstance(value, FunctionType) and value.__globals__ is beside:
            yield from _written(value, seen)
        elif hasattr(value, "checksum"):
            yield f"{name}: {value.checksum}"
        elif _plain(value):
            yield f"{name} = {value!r}"
        elif not _elsewhere(value, function):
            raise TypeError(
                f"{function.__name__} reads {name}, a {type(value).__name__}, of which nobody "
                "can tell whether it is still the same: make it in the function."
            )


def _elsewhere(value: Any, function: Any) -> bool:
    """True of modules, and of functions and classes that are not written beside a function:
    those of lnlab are told by its sources."""
    if isinstance(value, type):
        return value.__module__ != function.__module__
    return isinstance(value, ModuleType | FunctionType | BuiltinFunctionType)


def _names(of: CodeType) -> set[str]:
    """The names that a function reads, those of the functions inside it too; what it asks of
    another (``digits.x``) has a name that may be something else beside it."""
    inside = (_names(part) for part in of.co_consts if isinstance(part, CodeType))
    read = (each for each in get_instructions(of) if each.opname in READING)
    return {each.argval for each in read}.union(*inside)


def _plain(value: Any) -> bool:
    """True if a value is told from others by how it is written."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(vars(value))
    if isinstance(value, Mapping):
        return _plain([*value, *value.values()])
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, int | float | str | None)


def _packed(result: Any) -> Arrays:
    if isinstance(result, pd.DataFrame):
        text = json.dumps(result.to_dict("list"))
        arrays = {FRAME: np.frombuffer(text.encode(), np.uint8)}
        if _unpacked(arrays).equals(result):
            return arrays
        raise TypeError("of a table, numbers and words by column are kept, and no index.")
    if isinstance(result, Mapping) and all(isinstance(t, Tensor) for t in result.values()):
        # a number by itself would come back as a vector of one
        shapes = {f"{SHAPE}{name}": np.array(t.shape, np.int64) for name, t in result.items()}
        return {name: t.detach().cpu().flatten().numpy() for name, t in result.items()} | shapes
    raise TypeError(f"a {type(result).__name__} is not kept: give a table, or tensors by name.")


def _unpacked(arrays: Arrays) -> Any:
    if set(arrays) == {FRAME}:
        return pd.DataFrame(json.loads(arrays[FRAME].tobytes()))
    return {
        name: torch.from_numpy(array).view(tuple(arrays[f"{SHAPE}{name}"]))
        for name, array in arrays.items()
        if not name.startswith(SHAPE)
    }
