"""Arrays that were dear to compute, kept on disk and found again by what they are made of.

The checksum of a corpus, the lengths of its recordings, speech that was synthesised: each is a
file of named arrays in ``data_folder()`` / kept, in the safetensors format, called by the hash
of what decided it. It is written whole or not at all, and holds a hash of its arrays: one that
is damaged is made again. Nobody needs these files; they may be deleted at any time.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lnlab.data.source import data_folder

Arrays = dict[str, np.ndarray]
DAMAGED = (SafetensorError, ValueError, KeyError, TypeError)


def kept(name: str, of: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``make`` gives, computed once on this machine.

    Processes that ask at the same time wait for one of them. Where nothing can be written the
    arrays are computed each time.

    Args:
        name: what they are, for whoever looks into the folder: letters and ``-``.
        of: all that decides them, code included (:func:`code`); another text, other arrays.
        make: computes them; what it raises is raised here, and nothing is kept.
    """
    path = data_folder() / "kept" / f"{name}-{_sha256(of.encode())[:32]}.safetensors"
    found = _read(path)
    if found is not None:
        return found
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(path.with_suffix(".lock")).acquire()
    except OSError:
        return make()
    with held:
        found = _read(path)
        if found is None:
            found = make()
            _write(path, found)
    return found


def stamp(paths: Iterable[Path]) -> str:
    """A hash of the paths, sizes and times of change of files: another when one is changed.

    Nothing is read. A file that is not there counts as such.
    """
    total = hashlib.sha256()
    for path in paths:
        try:
            state = path.stat()
            line = f"{state.st_size} {state.st_mtime_ns}"
        except OSError:
            line = "missing"
        total.update(f"{os.path.abspath(path)}\0{line}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def code(*files: str | Path) -> str:
    """A hash of source files, those of the modules that make what is kept."""
    return _sha256(b"\0".join(Path(file).read_bytes() for file in files))


def _read(path: Path) -> Arrays | None:
    """The arrays in a file; None where it is not there or damaged."""
    try:
        with safe_open(path, "np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            promised = file.metadata()["sha256"]
    except (OSError, *DAMAGED):
        return None
    return arrays if promised == _hash(arrays) else None


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        with part.open("wb") as file:
            file.write(save(arrays, {"sha256": _hash(arrays)}))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:  # a full disk: what was computed is not lost
        part.unlink(missing_ok=True)


def _hash(arrays: Mapping[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
