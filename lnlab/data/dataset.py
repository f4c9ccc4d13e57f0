"""Sources of data, with what they declare of themselves, and data sets, read when used."""

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays
from lnlab.paths import data_folder

if TYPE_CHECKING:
    import torch

DataOrigin = Literal["official", "embedded", "synthetic", "own"]
ExampleKind = Literal[
    "images", "speech", "text", "captions", "questions", "reviews", "strokes", "books", "tasks"
]
Part = TypeVar("Part")
DatasetChecksum = str
"""That of the examples, not of the files that they are read from."""
Note = str
"""A remark on what was done to the examples, said with every result; usually empty."""


@dataclass(frozen=True)
class File:
    """A file of a source, as it is downloaded.

    ``content_sha256`` is the hash of its unpacked bytes, by which a copy that a user has
    unpacked or packed again is known to be the official one; empty for an archive.
    """

    name: str
    size: int
    sha256: str
    content_sha256: str = ""


@dataclass(frozen=True)
class Source:
    """A data set by name: what it is, whose it is, and how to recognize it.

    Attributes:
        kind: ``official`` (the files of its authors), ``embedded`` (comes with a dependency),
            ``synthetic`` (made by a program) or ``own`` (a user's files).
        offers: the kind of examples it has.
        options: the options of :func:`lnlab.data.load` for it, each with what it does.
        mirror_folder_urls: folders that hold ``files``, tried in order.
        checksum: the ``Dataset.checksum`` that loading must give; empty where it depends on
            options or files.
    """

    name: str
    title: str
    kind: DataOrigin
    licence: str
    citation: str
    offers: ExampleKind
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    mirror_folder_urls: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    checksum: DatasetChecksum = ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files)

    def locate(self, path: Path | None, how_to_get: str = "") -> Path:
        """Return the path of the files: the one given, or the source's in the data folder.

        Args:
            how_to_get: how to get what cannot be downloaded, before "and name the place".
        """
        missing = f"{self.name}={path} names no file or folder"
        if path is None:
            path = data_folder() / self.name
            missing = f"{self.name} is not in {path}"
        if not path.exists():
            way = (
                f"run `lnlab data fetch {self.name}`, or"
                if self.mirror_folder_urls
                else how_to_get
            )
            place = f"{way} name the place of its files: {self.name}=PATH".lstrip()
            raise FileNotFoundError(f"{missing}: {place}")
        return path


@cache
def list_sources() -> tuple[Source, ...]:
    """Return all sources, as ``sources.toml`` beside this module lists them."""
    tables = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["mirror_folder_urls"] = tuple(table.get("mirror_folder_urls", ()))
        table["files"] = tuple(File(**file) for file in table.get("files", ()))
    return tuple(Source(name, **table) for name, table in tables.items())


def sources_offering(offers: ExampleKind) -> tuple[Source, ...]:
    """Return the sources of a kind of data."""
    return tuple(source for source in list_sources() if source.offers == offers)


def find_source(
    name: str, sources: Iterable[Source], given_options: Iterable[str] = ()
) -> Source:
    """Return the source called ``name``; the first one is also called ``embedded``."""
    by_name = {source.name: source for source in sources}
    by_name = {"embedded": next(iter(by_name.values()))} | by_name
    if name not in by_name:
        of_other_kinds = {source.name: source.offers for source in list_sources()}
        problem = f"unknown data {name!r}"
        if name in of_other_kinds:
            needed = by_name["embedded"].offers
            problem = f"{name!r} is data of {of_other_kinds[name]}, not of {needed}"
        raise ValueError(f"{problem}: choose from {', '.join(by_name)}")
    source = by_name[name]
    if unknown := sorted({*given_options} - {*source.options}):
        known = ", ".join(source.options) or "none"
        raise ValueError(f"{source.name} has no option {', '.join(unknown)}: it has {known}.")
    return source


def require_files(source: Source, folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the paths of the files that a source needs in a folder."""
    files = [folder / name for name in names]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{source.name} is not whole in {folder}, {missing[0]} is not there: its files are "
            f"{', '.join(names)} ({source.citation}). Name their folder, {source.name}=PATH."
        )
    return files


def read_text(file: Path, encodings: Sequence[str] = ("utf-8",)) -> str:
    """Return the text of a file in the first encoding that fits."""
    content = file.read_bytes()
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if "\0" not in text:
            return text
    raise ValueError(f"{file} is no text in {' or '.join(encodings)}: convert it to UTF-8.")


Item = TypeVar("Item")


def sort_by_hash(items: Iterable[Item], *seed: object, sep: str = " ") -> list[Item]:
    """Return items in an order that looks random, and is the same on every machine."""

    def digest(item: Item) -> bytes:
        return hashlib.sha256(sep.join(map(str, (*seed, item))).encode()).digest()

    return sorted(items, key=digest)


@dataclass(frozen=True, eq=False)
class Split:
    """The examples of one split, and what is to be learned of each, by their first index."""

    x: "torch.Tensor"
    y: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.y)


class Dataset(Generic[Part]):
    """A data set that says at once what it is and is read when a split is first used.

    ``name``, ``kind``, ``licence`` and ``checksum`` need no reading if the same files were read
    before on this machine.

    Args:
        source: what it is.
        read: reads the splits, and a note of what was done to the examples that has to be said
            with every result; usually empty.
        key: all that decides the examples besides the code: options, and the
            :func:`~lnlab.data.cache.hash_file_stats` of the files.
        noted: whether there may be a note.
    """

    checksum_of = "source"
    """The checksum is of what was read or made, not of what was computed from it."""

    def __init__(
        self,
        source: Source,
        read: Callable[[], tuple[Mapping[str, Part], Note]],
        key: Callable[[], str],
        *,
        noted: bool = False,
    ) -> None:
        self.source, self._read, self._key, self._noted = source, read, key, noted

    @cached_property
    def name(self) -> str:
        """The name of the source, and the note if there is one."""
        return f"{self.source.name}, {self.note}" if self.note else self.source.name

    @property
    def note(self) -> str:
        """A note, as "2 of 3000 recordings left out"; usually empty."""
        return self._cached_checksum_and_note["note"].tobytes().decode() if self._noted else ""

    @property
    def kind(self) -> DataOrigin:
        """``official``, ``embedded``, ``synthetic`` or ``own``."""
        return self.source.kind

    @property
    def licence(self) -> str:
        """The licence of the source."""
        return self.source.licence

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 of what is read, split by split."""
        return (
            self.source.checksum or self._cached_checksum_and_note["checksum"].tobytes().hex()
        )

    @property
    def train(self) -> Part:
        """The examples to train on."""
        return self._checksum_verified_splits["train"]

    @property
    def valid(self) -> Part | None:
        """The examples to validate on; None where the source has no such split."""
        return self._checksum_verified_splits.get("valid")

    @property
    def test(self) -> Part:
        """The examples to test on."""
        return self._checksum_verified_splits["test"]

    def compute_checksum(self) -> str:
        """Compute the checksum of what is read now, whatever is known of it."""
        return self._digest().hex()

    @cached_property
    def _splits_and_note(self) -> tuple[Mapping[str, Part], Note]:
        return self._read()

    @property
    def _splits(self) -> Mapping[str, Part]:
        """The splits as they were read; the checksum is computed from them."""
        return self._splits_and_note[0]

    @cached_property
    def _checksum_verified_splits(self) -> Mapping[str, Part]:
        """The splits, once their checksum is known to be right."""
        checksum = self.compute_checksum()
        if checksum != self.checksum:
            why = "" if self.source.checksum else ", that of files of this size and time"
            raise ValueError(
                f"{self.source.name}: its examples have checksum {checksum}, expected "
                f"{self.checksum}{why}"
            )
        return self._splits

    @cached_property
    def _cached_checksum_and_note(self) -> Arrays:
        """The checksum and the note, stored on disk once the examples have been read."""

        def checksum_and_note_arrays() -> Arrays:
            note = self._splits_and_note[1]
            return {
                "checksum": np.frombuffer(self._digest(), np.uint8),
                "note": np.frombuffer(note.encode(), np.uint8),
            }

        return cache_arrays(
            "identity", f"{self.source.name} {self._key()}", checksum_and_note_arrays
        )

    def _digest(self) -> bytes:
        """Return the SHA-256 of what was read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.kind} data: {self.source.name}"
