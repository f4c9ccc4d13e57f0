"""A set of cases that says what it is at once, and is read when a split of it is first used."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from lnlab.data.cache import Arrays, code, kept
from lnlab.data.source import Kind, Source

Part = TypeVar("Part")


class Dataset(Generic[Part]):
    """The part that all kinds of data sets share; each kind adds what its cases are.

    ``name``, ``kind``, ``licence`` and ``checksum`` cost no reading of cases, if they were
    read once before on this machine and the files have the same sizes and times.

    Args:
        source: what it is by name.
        read: reads the splits, and a note of what was done to the cases that has to be said
            with every result; empty as a rule.
        of: what decides the cases beside the code: options, and the stamp of the files, see
            :func:`lnlab.data.cache.stamp`.
        noted: whether there may be a note.
    """

    checksum_of = "source"
    """The checksum is of what was read or synthesised, never of what was computed of it."""

    def __init__(
        self,
        source: Source,
        read: Callable[[], tuple[Mapping[str, Part], str]],
        of: Callable[[], str],
        *,
        noted: bool = False,
    ) -> None:
        self.source, self._read, self._of, self._noted = source, read, of, noted

    @cached_property
    def name(self) -> str:
        """The name of the source, and the note, if there is one."""
        return f"{self.source.name}, {self.note}" if self.note else self.source.name

    @property
    def note(self) -> str:
        """A note of what was done to cases, as "2 of 3000 recordings left out"; often empty."""
        return self._identity["note"].tobytes().decode() if self._noted else ""

    @property
    def kind(self) -> Kind:
        """Official, embedded, synthetic, or somebody's own."""
        return self.source.kind

    @property
    def licence(self) -> str:
        """The licence of the source."""
        return self.source.licence

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of what is read, split by split: the same checksum, the same cases.

        Raises:
            ValueError, FileNotFoundError: as reading, where it was not read before.
        """
        return self.source.checksum or self._identity["checksum"].tobytes().hex()

    @property
    def train(self) -> Part:
        """The cases to train on."""
        return self._checked["train"]

    @property
    def valid(self) -> Part | None:
        """The cases to validate on; None where the source has no such split."""
        return self._checked.get("valid")

    @property
    def test(self) -> Part:
        """The cases to test on."""
        return self._checked["test"]

    @cached_property
    def _parts(self) -> tuple[Mapping[str, Part], str]:
        return self._read()

    @cached_property
    def _checked(self) -> Mapping[str, Part]:
        """The splits, of which it is certain that they are those of the checksum."""
        splits, found = self._parts[0], self._digest().hex()
        if found != self.checksum:
            known = "" if self.source.checksum else ", the one of files of this size and time"
            raise ValueError(
                f"{self.source.name}: its cases have checksum {found}, expected "
                f"{self.checksum}{known}"
            )
        return splits

    @cached_property
    def _identity(self) -> Arrays:
        """The checksum and the note, kept on disk once the cases have been read."""

        def made() -> Arrays:
            _, note = self._parts
            return {
                "checksum": np.frombuffer(self._digest(), np.uint8),
                "note": np.frombuffer(note.encode(), np.uint8),
            }

        return kept("identity", f"{self.source.name} {self._of()} {self.code}", made)

    @property
    def code(self) -> str:
        """A hash of the code that reads it: of the class's folder, and of this one."""
        folders = {Path(inspect.getfile(type(self))).parent, Path(__file__).parent}
        return code(*sorted(file for folder in folders for file in folder.glob("*.py")))

    def _digest(self) -> bytes:
        """The SHA-256 of what was read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.kind} data: {self.source.name}"
