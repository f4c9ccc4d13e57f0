"""Files out of a tar archive: those that are wanted, and nothing is unpacked.

`tarfile.extractall` has let members out of its folder again and again (CVE-2025-4517 and its
kin), and says nothing of a bomb. Here a member's bytes are handed over, under a name that the
caller has written down, and only if its size is the one that is known.
"""

import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

DAMAGED = (tarfile.TarError, zlib.error, EOFError, OSError)


def members(path: Path, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """The contents of the files in the archive at `path`, in its own order, one at a time.

    Args:
        path: a tar archive, plain or compressed.
        wanted: every file that it must hold, and its size in bytes.

    Raises:
        ValueError: if it holds anything else but folders (a link, a device, a file of another
            name or size, one of them twice), lacks one, or is damaged; names the member.
        FileNotFoundError: if there is no such archive.
    """
    missing = dict(wanted)
    with path.open("rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r|*") as archive:
                for member in archive:
                    if member.isdir():
                        continue
                    _check(member, missing, path)
                    content = archive.extractfile(member)
                    assert content is not None  # it is a file
                    yield member.name, content.read(missing.pop(member.name))
        except DAMAGED as error:
            raise ValueError(f"{path} is damaged: {error}") from error
    if missing:
        raise ValueError(f"{path} lacks {', '.join(sorted(missing)[:5])}.")


def _check(member: tarfile.TarInfo, missing: Mapping[str, int], path: Path) -> None:
    """Raise ValueError unless the member is one of those that are still missing."""
    if not member.isreg() or member.issparse():
        raise ValueError(f"{path}: {member.name!r} is no ordinary file.")
    if member.name not in missing:
        raise ValueError(f"{path}: {member.name!r} is not expected, or not again.")
    if member.size != missing[member.name]:
        raise ValueError(
            f"{path}: {member.name!r} has {member.size:,} bytes, expected "
            f"{missing[member.name]:,}."
        )
