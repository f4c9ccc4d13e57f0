"""A file to which one writer adds, and in which nothing else may change meanwhile."""

import hashlib
import os
from pathlib import Path
from typing import Any

from lnlab.runs.files import naming, sha256, write


class Growing:
    """A file that is added to, and whose writer knows every byte of it.

    Attributes:
        path: where it is; it need not be there before the first addition.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._size, self._digest = path, 0, hashlib.sha256()

    def __bool__(self) -> bool:
        """True once something was added."""
        return self._size > 0

    def add(self, content: bytes) -> None:
        """Append; all of ``content``, or nothing. It is on its way to the disk after that.

        Raises:
            ValueError: if the file is not as long as what was added before.
            OSError: if the disk is full or may not be written; names the path.
        """
        try:
            with self.path.open("ab", buffering=0) as file:
                there = os.fstat(file.fileno()).st_size
                if there != self._size:
                    raise self._lost(f"it has {there} bytes")
                try:
                    written = file.write(content)
                    while written < len(content):
                        written += file.write(content[written:])
                except OSError:
                    file.truncate(there)
                    raise
        except OSError as error:
            raise naming(self.path, error) from error
        self._size += len(content)
        self._digest.update(content)

    def summary(self) -> dict[str, Any]:
        """The number of bytes that were added, and the SHA-256 of them all."""
        return {"size": self._size, "sha256": self._digest.hexdigest()}

    def cut(self, summary: Any) -> None:
        """Go on from where a :meth:`summary` was taken; what was added later is cut off.

        Raises:
            ValueError: if the file does not begin with what the summary is of.
        """
        content = self.path.read_bytes() if self.path.is_file() else b""
        size = summary.get("size") if isinstance(summary, dict) else None
        if type(size) is not int or not 0 <= size <= len(content):
            raise ValueError(f"{self.path} is not what checkpoints.json says it is.")
        self._size, self._digest = size, hashlib.sha256(content[:size])
        if self.summary() != summary:
            raise ValueError(f"{self.path} is not what checkpoints.json says it is.")
        if len(content) > size:
            write(self.path, content[:size])

    def check(self) -> None:
        """Read it once more.

        Raises:
            ValueError: if it is not what was added.
        """
        content = self.path.read_bytes() if self.path.is_file() else b""
        if sha256(content) != self._digest.hexdigest():
            other = "other " if len(content) == self._size else ""
            raise self._lost(f"it has {len(content)} {other}bytes")

    def sync(self) -> None:
        """Return when what was added is on the disk."""
        if self:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def _lost(self, found: str) -> ValueError:
        return ValueError(
            f"{self.path} is damaged: {found}, and not the {self._size} that this run has "
            "written; something else has changed it meanwhile."
        )
