"""A .tar.gz archive unpacked into a folder of its own: whole or not at all, nothing beside it.

``tarfile.extractall`` has let members out of its folder again and again (CVE-2025-4517 and its
kin), and says nothing of a bomb. Here only ordinary files with plain names are taken, links
are not even made, and no more is read than sound, text and pictures could hold.
"""

import gzip
import hashlib
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Any

from filelock import FileLock

MOST = 20
"""The largest ratio of unpacked to packed bytes: sound is packed to about half its size."""
ROOM = 2**20
"""Bytes that it may hold besides: tar fills up with zeros."""
LONGEST = 255
"""Letters in the name of a member."""
DAMAGED = (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile)


def unpacked(path: Path, root: Path) -> Path:
    """The folder under ``root`` that holds the files of the archive at ``path``.

    It is named after the archive's SHA-256, unpacked when it is first asked for, and there
    when it is whole. Processes that ask at the same time wait for one of them.

    Raises:
        ValueError: if the archive is damaged, or holds anything but folders and files with
            plain names (a link, a device, a way out, one file twice), or more than it may;
            names the member. Nothing of it is left.
        OSError: if the archive cannot be read, or ``root`` not be written.
    """
    with path.open("rb") as file:
        folder = root / hashlib.file_digest(file, "sha256").hexdigest()[:16]
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    part = folder.with_suffix(".part")
    with FileLock(folder.with_suffix(".lock")):
        if folder.is_dir():
            return folder
        try:
            shutil.rmtree(part, ignore_errors=True)  # of one that was killed
            _unpack(path, part)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


class _Bounded:
    """A stream that may be read so far and no further."""

    def __init__(self, stream: gzip.GzipFile, most: int, path: Path) -> None:
        self._stream, self._left, self._path = stream, most, path

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(
                f"{self._path}: more than {MOST} times its size is in it, as in no archive of "
                "sound or pictures: unpack it yourself if you know better, and name the folder."
            )
        return content


def _unpack(path: Path, folder: Path) -> None:
    folder.mkdir()
    try:
        with gzip.open(path) as stream:
            bounded: Any = _Bounded(stream, MOST * path.stat().st_size + ROOM, path)
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for member in archive:
                    if not member.isdir():
                        _write(archive, member, folder, path)
            while bounded.read(ROOM):  # to the end, where the checksum stands
                pass
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged, or no .tar.gz: {error}") from error


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, path: Path) -> None:
    """Write one file of the archive at ``path`` into the folder."""
    where = f"{path}: {member.name!r}"
    if not member.isreg() or member.issparse():
        raise ValueError(f"{where} is no ordinary file.")
    parts = [part for part in member.name.split("/") if part != "."]
    plain = member.name.isprintable() and not {"\\", ":"} & {*member.name}
    if not plain or len(member.name) > LONGEST or {"", ".."} & {*parts}:
        raise ValueError(f"{where} is no plain name of a file in the archive's own folder.")
    target = folder.joinpath(*parts)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{where} is in the place of another member.") from None
    with file:
        content = archive.extractfile(member)
        assert content is not None  # it is a file
        shutil.copyfileobj(content, file)
