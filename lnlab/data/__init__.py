"""Where cases come from: every source says its kind, licence and checksum.

- `load(spec)` gives a `Dataset` of images, `speech.load(spec)` one of speech; `spec` is
  `embedded`, `NAME` or `NAME=PATH`.
- `sources()` lists what there is: `lnlab data list`.
- `fetch(name)` downloads and verifies the files of a source: `lnlab data fetch NAME`.

Nothing is substituted: what cannot be had is an error that says how to get it. Downloads
land in `data_folder()`: `$LNLAB_DATA` if set, else `data/` of the checkout, else the user's
cache folder.
"""

from pathlib import Path

from lnlab.data import images, speech
from lnlab.data.images import Dataset, Split, load
from lnlab.data.source import File, Source, data_folder, find

__all__ = [
    "Dataset",
    "File",
    "Source",
    "Split",
    "data_folder",
    "fetch",
    "load",
    "sources",
    "speech",
]


def sources() -> tuple[Source, ...]:
    """Every source by name: images, which `load` knows, and speech, `speech.load`."""
    return images.SOURCES + speech.SOURCES


def fetch(name: str, folder: Path | None = None, *, progress: bool = True) -> Path:
    """Download the files of the source called `name`, verified; see `download.fetch`.

    Returns:
        The folder that holds them: `folder`, or `data_folder()` / name, where `load` looks.
    """
    from lnlab.data import download

    return download.fetch(find(name, sources()), folder, progress=progress)
