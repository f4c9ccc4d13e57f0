"""Results that take long to compute, stored on disk and found again by what decides them.

They are NumPy's .npz files in ``data_folder()`` / cache. After a change of lnlab's code, and if
a file is damaged, they are computed again. They may be deleted at any time.
"""

import hashlib
import inspect
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from dis import get_instructions
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from filelock import FileLock

import lnlab
from lnlab.paths import data_folder

Arrays = dict[str, np.ndarray]
SOURCES = (".py", ".cpp", ".cu", ".h", ".csv", ".jhf")
"""Endings of the files of the package that decide what it computes."""
LIBRARIES = ("numpy", "scipy", "torch")
CODE, TABLE = "code", "table"
"""Names of the arrays that hold the version of the code, and a table as JSON."""
DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def cache_arrays(name: str, key: str, compute: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that ``compute`` gives, computed once on this machine.

    Processes that ask at the same time wait for one of them. If nothing can be written, the
    arrays are computed each time.

    Args:
        name: what they are, for those who look into the folder.
        key: all that decides them besides the code of lnlab and its libraries.
        compute: its errors are raised here, and nothing is stored.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()
    path = data_folder() / "cache" / f"{name}-{digest[:32]}.npz"
    arrays = _read_if_current(path)
    if arrays is not None:
        return arrays
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock")).acquire()
    except OSError:
        return compute()
    with lock:
        arrays = _read_if_current(path)
        if arrays is None:
            arrays = compute()
            _write_arrays(path, arrays)
    return arrays


def hash_file_stats(paths: Iterable[Path]) -> str:
    """Return a hash of the paths, sizes and times of files, without reading them."""
    states = []
    for path in paths:
        state = path.stat() if path.exists() else None
        states.append((os.path.abspath(path), state and (state.st_size, state.st_mtime_ns)))
    return hashlib.sha256(repr(states).encode("utf-8", "surrogateescape")).hexdigest()


@cache
def _hash_code_and_versions() -> str:
    """Return a hash of the package's sources, and the versions of what computes for it."""
    package = Path(lnlab.__file__).parent
    total = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in SOURCES):
        total.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return " ".join([total.hexdigest(), *(f"{name} {version(name)}" for name in LIBRARIES)])


def _read_if_current(path: Path) -> Arrays | None:
    """Return the arrays in a file; None if it is missing, damaged, or of other code."""
    try:
        with path.open("rb") as file, np.load(file) as content:
            arrays = dict(content)  # the checksum of each is checked
        return arrays if arrays.pop(CODE) == _hash_code_and_versions() else None
    except DAMAGED:
        return None


def _write_arrays(path: Path, arrays: Arrays) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    content: dict[str, Any] = {**arrays, CODE: np.array(_hash_code_and_versions())}
    try:
        with part.open("wb") as file:
            np.savez(file, **content)
        part.replace(path)
    except OSError:  # a full disk: what was computed is not lost
        part.unlink(missing_ok=True)


def cached_call(function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(*args)`` for a function of a notebook, computed once on this machine.

    It is computed again when anything that decides it changes: the arguments, the source of the
    function and of the notebook's functions that it calls, the values that these read, the
    checksum of a data set among them, or the code of lnlab.

    Args:
        function: gives a table, or tensors by name; runs in one thread.
        args: numbers, text, and dataclasses, lists and mappings of these.

    Raises:
        TypeError: if an argument or a value that is read is not so plain that its text tells it
            from others, or the result is neither a table nor tensors.
    """
    from lnlab.threads import in_one_thread_if_small

    key = "\n".join(
        [
            _require_plain_repr("an argument", args),
            *_function_sources_and_globals(function, set()),
        ]
    )
    compute = in_one_thread_if_small(function)
    arrays = cache_arrays("call", key, lambda: _table_or_tensors_to_arrays(compute(*args)))
    return _arrays_to_table_or_tensors(arrays)


def _function_sources_and_globals(function: Any, seen: set[str]) -> Iterator[str]:
    """Yield the source of a function and of those beside it, and the values that they read."""
    seen.add(function.__name__)
    if function.__closure__:
        raise TypeError(f"{function.__name__} reads variables of a function around it.")
    yield inspect.getsource(function)
    yield _require_plain_repr("a default", [function.__defaults__, function.__kwdefaults__])
    notebook = function.__globals__
    for name in sorted(_global_names(function.__code__) & notebook.keys() - seen):
        value = notebook[name]
        if isinstance(value, FunctionType) and value.__globals__ is notebook:
            yield from _function_sources_and_globals(value, seen)
        elif hasattr(value, "checksum"):
            yield f"{name}: {value.checksum}"
        elif not _is_imported(value, function):
            yield f"{name} = {_require_plain_repr(name, value)}"


def _global_names(code: CodeType) -> set[str]:
    """Return the global names that a function reads, and the functions inside it."""
    inner = (_global_names(const) for const in code.co_consts if isinstance(const, CodeType))
    reads = (i for i in get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return {instruction.argval for instruction in reads}.union(*inner)


def _is_imported(value: Any, function: Any) -> bool:
    """Return True for modules, functions and classes from elsewhere: their code is hashed."""
    if isinstance(value, type):
        return value.__module__ != function.__module__
    return isinstance(value, ModuleType | FunctionType | BuiltinFunctionType)


def _require_plain_repr(name: str, value: Any) -> str:
    """Return the text of a plain value."""
    if not _has_plain_repr(value):
        raise TypeError(
            f"{name} is {value!r}, whose text may be that of another value: give plain "
            "values, or an experiment, or make it in the function."
        )
    return repr(value)


def _has_plain_repr(value: Any) -> bool:
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, tuple | list):
        return all(map(_has_plain_repr, value))
    return isinstance(value, int | float | str | None)


def _table_or_tensors_to_arrays(result: Any) -> Arrays:
    import pandas as pd
    import torch

    if isinstance(result, pd.DataFrame):
        text = json.dumps(result.to_dict("list"))
        arrays = {TABLE: np.frombuffer(text.encode(), np.uint8)}
        if _arrays_to_table_or_tensors(arrays).equals(result):
            return arrays
        raise TypeError("a table is cached if it has numbers and text by column and no index.")
    if isinstance(result, Mapping) and all(map(torch.is_tensor, result.values())):
        return {name: tensor.detach().cpu().numpy() for name, tensor in result.items()}
    raise TypeError(
        f"a {type(result).__name__} is not cached: give a table, or tensors by name."
    )


def _arrays_to_table_or_tensors(arrays: Arrays) -> Any:
    import pandas as pd
    import torch

    if set(arrays) == {TABLE}:
        return pd.DataFrame(json.loads(arrays[TABLE].tobytes()))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
