"""Files of kept runs, compressed: their hashes are of what they hold, however it is packed."""

import lzma
from pathlib import Path

from lnlab.runs.files import write

ENDING = ".xz"
"""LZMA: a fifth smaller than gzip on metrics, and all that are kept unpack in 0.1 s."""


def pack(path: Path, content: bytes) -> None:
    """Write ``content`` packed, in place of the file at ``path``; the same makes the same."""
    write(_packed(path), lzma.compress(content))
    path.unlink(missing_ok=True)


def unpacked(path: Path) -> bytes:
    """The bytes of a file, unpacked where it is kept compressed.

    Raises:
        FileNotFoundError: if it is there in neither form.
        ValueError: if it cannot be unpacked; names the file.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if not _packed(path).is_file():
            raise
    try:
        return lzma.decompress(_packed(path).read_bytes())
    except lzma.LZMAError as error:
        raise ValueError(f"{_packed(path)} is damaged: {error}") from error


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ENDING)
