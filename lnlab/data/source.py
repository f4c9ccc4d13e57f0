"""A source of data: what it declares about itself, and where its files are kept."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import platformdirs

Kind = Literal["official", "embedded", "synthetic", "own"]
What = Literal[
    "images", "speech", "text", "captions", "questions", "reviews", "strokes", "books", "judges"
]


@dataclass(frozen=True)
class File:
    """One file of a source, as it is downloaded and as it is once unpacked.

    ``content_sha256`` is over the unpacked bytes, so a copy that a user has unpacked, or
    packed again, is known to be the official one by what it holds; empty of an archive, whose
    members are known instead.
    """

    name: str
    size: int
    sha256: str
    content_sha256: str = ""


@dataclass(frozen=True)
class Source:
    """A data set by name: what kind of data it is, whose, and how to know it again.

    ``kind`` is ``official`` (the files of its authors), ``embedded`` (comes with a dependency),
    ``synthetic`` (made by a program) or ``own`` (a user's files, which we know nothing about).
    ``offers`` is what can be learned from it, for ``load(spec, what)``; ``options`` are those
    that ``load`` takes for it, by name, each with what it does. ``urls`` are folders that hold
    ``files``, tried in order. ``checksum`` is the ``Dataset.checksum`` that loading must give;
    empty where it cannot be known beforehand.
    """

    name: str
    title: str
    kind: Kind
    licence: str
    citation: str
    offers: What
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    urls: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    checksum: str = ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files)


def find(name: str, sources: Iterable[Source], options: Iterable[str] = ()) -> Source:
    """The source called ``name``; the first one is also called ``embedded``.

    Raises:
        ValueError: if there is none, or it does not have one of the ``options``; names those
            that exist.
    """
    named = {source.name: source for source in sources}
    first = next(iter(named))
    if name not in named and name != "embedded":
        raise ValueError(f"unknown data {name!r}: choose from embedded, {', '.join(named)}")
    source = named[first if name == "embedded" else name]
    unknown = sorted(set(options) - set(source.options))
    if unknown:
        raise ValueError(
            f"{source.name} has no option {', '.join(unknown)}: it has "
            f"{', '.join(source.options) or 'none'}."
        )
    return source


def require_files(source: Source, folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the paths of the files that a source needs in a folder.

    Raises:
        FileNotFoundError: if one is missing; names it, and says where they come from.
    """
    files = [folder / name for name in names]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{source.name} is not whole in {folder}, {missing[0]} is not there: its files are "
            f"{', '.join(names)} ({source.citation}). Name their folder, {source.name}=PATH."
        )
    return files


def split_spec(spec: str) -> tuple[str, Path | None]:
    """The name and the folder in ``NAME`` or ``NAME=PATH``; ``~`` in the path is expanded.

    Raises:
        ValueError: if the name or the path is empty.
    """
    name, equals, path = spec.partition("=")
    if not name or (equals and not path):
        raise ValueError(f"data {spec!r}: write embedded, NAME or NAME=PATH")
    return name, Path(path).expanduser() if equals else None


def data_folder() -> Path:
    """The folder that downloads land in, one sub-folder a source.

    ``$LNLAB_DATA`` if set; else ``data/`` of the checkout that lnlab runs from; else, where
    lnlab is installed without its checkout, the user's cache folder.
    """
    chosen = os.environ.get("LNLAB_DATA")
    if chosen:
        return Path(chosen).expanduser()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data"
    return platformdirs.user_cache_path("lnlab")
