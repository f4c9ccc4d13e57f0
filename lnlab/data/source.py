"""What a source of data declares about itself, and where its files are kept."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

Kind = Literal["official", "embedded", "synthetic", "own"]


@dataclass(frozen=True)
class File:
    """One file of a source, as it is downloaded and as it is once unpacked.

    `content_sha256` is over the unpacked bytes, so a copy that a user has unpacked, or
    packed again, is known to be the official one by what it holds.
    """

    name: str
    size: int
    sha256: str
    content_sha256: str


@dataclass(frozen=True)
class Source:
    """A data set by name: what kind of data it is, whose, and how to know it again.

    `kind` is `official` (the files of its authors), `embedded` (comes with a dependency),
    `synthetic` (made by a program) or `own` (a user's files, which we know nothing about).
    `urls` are folders that hold `files`, tried in order. `checksum` is the
    `Dataset.checksum` that loading must give; empty where it cannot be known beforehand.
    """

    name: str
    title: str
    kind: Kind
    licence: str
    citation: str
    urls: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    checksum: str = ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files)


def find(name: str, sources: Iterable[Source]) -> Source:
    """The source called `name`.

    Raises:
        ValueError: if there is none; names those that exist.
    """
    named = {source.name: source for source in sources}
    if name not in named:
        raise ValueError(f"unknown data {name!r}: choose from embedded, {', '.join(named)}")
    return named[name]


def split_spec(spec: str) -> tuple[str, Path | None]:
    """The name and the folder in `NAME` or `NAME=PATH`; `~` in the path is expanded.

    Raises:
        ValueError: if the name or the path is empty.
    """
    name, equals, path = spec.partition("=")
    if not name or (equals and not path):
        raise ValueError(f"data {spec!r}: write embedded, NAME or NAME=PATH")
    return name, Path(path).expanduser() if equals else None


def data_folder() -> Path:
    """The folder that downloads land in, one sub-folder a source.

    `$LNLAB_DATA` if set; else `data/` of the checkout that lnlab runs from; else, where
    lnlab is installed without its checkout, the user's cache folder.
    """
    chosen = os.environ.get("LNLAB_DATA")
    if chosen:
        return Path(chosen).expanduser()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data"
    return platformdirs.user_cache_path("lnlab")
