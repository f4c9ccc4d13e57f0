"""Data by name: each source says its kind, its licence and its checksum.

- ``load(spec)`` gives a data set, read when a split of it is first used; ``spec`` is
  ``embedded``, ``NAME`` or ``NAME=PATH``.
- ``sources()`` lists what there is: ``lnlab data list``.
- ``fetch(name)`` downloads and verifies the files of a source: ``lnlab data fetch NAME``.

Nothing is substituted: what is missing is an error that says how to get it. Each kind of data
is a module with ``SOURCES`` and ``load(source, path, **options)``, imported when it is needed;
those of one experiment are in its folder.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from lnlab.data.cache import cached_call
from lnlab.data.dataset import (
    Dataset,
    ExampleKind,
    File,
    Source,
    Split,
    find_source,
    list_sources,
)
from lnlab.data.images import Images
from lnlab.data.text import CharacterWindows
from lnlab.data.vocabulary import Vocabulary
from lnlab.paths import data_folder

__all__ = [
    "CharacterWindows",
    "Dataset",
    "File",
    "Images",
    "Source",
    "Split",
    "Vocabulary",
    "cached_call",
    "data_folder",
    "fetch",
    "load",
    "sources",
]

MODULES: dict[ExampleKind, str] = {
    "images": "lnlab.data.images",
    "speech": "lnlab.papers.las.data",
    "text": "lnlab.data.text",
    "captions": "lnlab.papers.order_embeddings.data",
    "questions": "lnlab.papers.attentive_reader.data",
    "reviews": "lnlab.papers.batch_layer_norm.data",
    "books": "lnlab.papers.skip_thoughts.data",
    "tasks": "lnlab.papers.skip_thoughts.downstream",
    "strokes": "lnlab.papers.handwriting.data",
}
"""The module of each kind of data."""


def load(spec: str = "embedded", what: ExampleKind | None = None, **options: Any) -> Any:
    """Load a data set; its files are read when a split is first used.

    Args:
        spec: the name of a source, whose files are looked for in the data folder; ``NAME=PATH``
            for files elsewhere; or ``embedded``, the first source of the wanted kind that needs
            no download.
        what: the kind of data, such as ``"speech"``. None accepts all kinds; ``embedded`` then
            loads the digits.
        options: options of the source, see ``Source.options``; an option that is None, empty,
            False or 0 counts as not given.

    Raises:
        ValueError: if the kind, the name or an option is unknown (the message lists the known
            ones), if a number is negative, or if a path is given for data that come with lnlab.
        FileNotFoundError: if files are missing; the message says how to get them.

    Examples:
        >>> digits = lnlab.data.load("embedded")
        >>> print(digits, digits.train.x.shape, digits.licence)
    """
    if what is not None and what not in MODULES:
        raise ValueError(f"what is {what!r}: choose from {', '.join(MODULES)}.")
    given = {name: value for name, value in options.items() if value}
    name, equals, folder = spec.partition("=")
    if not name or (equals and not folder):
        raise ValueError(f"data {spec!r}: write embedded, NAME or NAME=PATH")
    path = Path(folder).expanduser() if equals else None
    source = find_source(name, [one for one in sources() if what in (None, one.offers)], given)
    for option, value in given.items():
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{option} is {value}: {source.options[option]}, not below 0.")
    if path and source.kind in ("embedded", "synthetic"):
        raise ValueError(f"{spec}: {source.name} is {source.kind}, give no path.")
    return import_module(MODULES[source.offers]).load(source, path, **given)


def sources() -> tuple[Source, ...]:
    """Return all sources of data that :func:`load` knows.

    Examples:
        >>> for source in lnlab.data.sources():
        ...     print(source.name, source.kind, source.licence)
    """
    return list_sources()


def fetch(name: str, *, progress: bool = True) -> Path:
    """Download the files of a source, check them, and return their folder.

    The folder is ``data_folder()`` / name, where :func:`load` looks for them.
    """
    from lnlab.data import downloads

    return downloads.fetch(find_source(name, sources()), progress=progress)
