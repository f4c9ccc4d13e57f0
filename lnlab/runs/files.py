"""Files that are whole or not there, whatever happens while they are written."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

TEMPORARY = ".part"
"""The ending of a file's name while it is being written."""


def sha256(content: bytes | memoryview) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write(path: Path, content: bytes | memoryview) -> None:
    """Make ``content`` the file at ``path``: the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, to the disk, and into place.

    Raises:
        OSError: if the disk is full or may not be written; names the path, and what was
            there before is untouched.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise naming(path, error) from error


def whole_lines(content: bytes) -> list[bytes]:
    """The lines of a file that is being added to; a torn last one is left out."""
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def read_json(path: Path) -> Any:
    """The value in the JSON file at ``path``.

    Raises:
        ValueError: if it is not JSON; names the file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON that people can read, whole or not at all."""
    write(path, to_json(value))


def to_json(value: Any) -> bytes:
    """The bytes that :func:`write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=plain).encode() + b"\n"


def of_json(value: Any) -> str:
    """The SHA-256 of a value as JSON gives it back."""
    return sha256(json.dumps(value, sort_keys=True, default=plain).encode())


def plain(value: Any) -> Any:
    """A tensor, an array or one of their numbers as what JSON can hold.

    Raises:
        TypeError: for anything else.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _sync_folder(folder: Path) -> None:
    # A rename is on the disk when its folder is; only POSIX lets a folder be opened.
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def naming(path: Path, error: OSError) -> OSError:
    """The same error, which names the file."""
    return OSError(error.errno, error.strerror, str(path))
