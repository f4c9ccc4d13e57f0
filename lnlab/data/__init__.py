"""Data by one door, ``load``: each source says its kind, its licence and its checksum.

- ``load(spec, what)`` gives a data set, read when a split of it is first used: ``what`` is
  ``"images"``, ``"speech"``, ``"text"``, ``"captions"``, ``"questions"``, ``"reviews"``,
  ``"books"``, ``"judges"`` or ``"strokes"``;
  ``spec`` is ``embedded``, ``NAME`` or ``NAME=PATH``.
- ``sources()`` lists what there is: ``lnlab data list``.
- ``fetch(name)`` downloads and verifies the files of a source: ``lnlab data fetch NAME``.

Nothing is substituted: what cannot be had is an error that says how to get it. Downloads
land in ``data_folder()``: ``$LNLAB_DATA`` if set, else ``data/`` of the checkout, else the
user's cache folder. A kind of data is a module of its own, with ``SOURCES`` and
``load(source, path, **options)``; :data:`MODULES` names it, and it is imported when data of
its kind are first asked for.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

from lnlab.data.dataset import Dataset
from lnlab.data.images import Images, Split
from lnlab.data.source import File, Source, What, data_folder, find, split_spec
from lnlab.data.text import Text
from lnlab.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lnlab.papers.attentive_reader.data import Questions
    from lnlab.papers.batch_layer_norm.data import Reviews
    from lnlab.papers.handwriting.data import Strokes
    from lnlab.papers.las.data import Speech
    from lnlab.papers.order_embeddings.data import Captions
    from lnlab.papers.skip_thoughts.data import Books
    from lnlab.papers.skip_thoughts.sentence_tasks import Judges

__all__ = [
    "Dataset",
    "File",
    "Images",
    "Source",
    "Split",
    "Text",
    "Vocabulary",
    "data_folder",
    "fetch",
    "load",
    "sources",
]

MODULES: dict[What, str] = {
    "images": "lnlab.data.images",
    "speech": "lnlab.papers.las.data",
    "text": "lnlab.data.text",
    "captions": "lnlab.papers.order_embeddings.data",
    "questions": "lnlab.papers.attentive_reader.data",
    "reviews": "lnlab.papers.batch_layer_norm.data",
    "books": "lnlab.papers.skip_thoughts.data",
    "judges": "lnlab.papers.skip_thoughts.sentence_tasks",
    "strokes": "lnlab.papers.handwriting.data",
}
"""The module of each kind of data."""


def module_of(what: What) -> ModuleType:
    """Import the module of a kind of data."""
    return import_module(MODULES[what])


@overload
def load(spec: str = ..., what: Literal["images"] = ..., **options: Any) -> Images: ...
@overload
def load(spec: str, what: Literal["speech"], **options: Any) -> "Speech": ...
@overload
def load(spec: str, what: Literal["text"], **options: Any) -> Text: ...
@overload
def load(spec: str, what: Literal["captions"], **options: Any) -> "Captions": ...
@overload
def load(spec: str, what: Literal["questions"], **options: Any) -> "Questions": ...
@overload
def load(spec: str, what: Literal["reviews"], **options: Any) -> "Reviews": ...
@overload
def load(spec: str, what: Literal["books"], **options: Any) -> "Books": ...
@overload
def load(spec: str, what: Literal["judges"], **options: Any) -> "Judges": ...
@overload
def load(spec: str, what: Literal["strokes"], **options: Any) -> "Strokes": ...
def load(spec: str = "embedded", what: What = "images", **options: Any) -> Dataset:
    """The data set that ``spec`` names, at once: its cases are read when they are first used.

    Args:
        spec: ``embedded``, the first source of its kind; ``NAME``, in the data folder; or
            ``NAME=PATH``.
        what: which kind of cases it is to give.
        options: those that the source has, see ``Source.options`` and its module; one
            that is None, empty or False is not given.

    Raises:
        ValueError: for an unknown kind, name or option; names those there are. For a path
            where the data come with lnlab or are generated.
        FileNotFoundError: where its files are not; says how to get them.
    """
    if what not in MODULES:
        raise ValueError(f"what is {what!r}: choose from {', '.join(MODULES)}.")
    given = {
        name: value
        for name, value in options.items()
        if not (value is None or value is False or value == "")
    }
    name, path = split_spec(spec)
    module = module_of(what)
    source = find(name, module.SOURCES, given)
    if path and source.kind in ("embedded", "synthetic"):
        raise ValueError(f"{spec}: {source.name} is {source.kind}, give no path.")
    return module.load(source, path, **given)


def sources() -> tuple[Source, ...]:
    """Every source by name, kind by kind; each says what it offers."""
    return tuple(source for what in MODULES for source in module_of(what).SOURCES)


def fetch(name: str, folder: Path | None = None, *, progress: bool = True) -> Path:
    """Download the files of the source called ``name``, verified; see ``download.fetch``.

    Returns:
        The folder that holds them: ``folder``, or ``data_folder()`` / name, where ``load``
        looks.
    """
    from lnlab.data import download

    return download.fetch(find(name, sources()), folder, progress=progress)
