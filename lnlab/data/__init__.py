"""Where cases come from: every source says its kind, licence and checksum.

- `load(spec)` gives a `Dataset`; `spec` is `embedded`, `NAME` or `NAME=PATH`.
- `sources()` lists what there is: `lnlab data list`.
- `fetch(name)` downloads and verifies the files of a source: `lnlab data fetch NAME`.

Nothing is substituted: what cannot be had is an error that says how to get it. Downloads
land in `data_folder()`: `$LNLAB_DATA` if set, else `data/` of the checkout, else the user's
cache folder.
"""

from pathlib import Path

from lnlab.data.images import SOURCES, Dataset, Split, load
from lnlab.data.source import File, Source, data_folder, find

__all__ = ["Dataset", "File", "Source", "Split", "data_folder", "fetch", "load", "sources"]


def sources() -> tuple[Source, ...]:
    """Every source that `load` knows by name."""
    return SOURCES


def fetch(name: str, folder: Path | None = None, *, progress: bool = True) -> Path:
    """Download the files of the source called `name`, verified; see `download.fetch`.

    Returns:
        The folder that holds them: `folder`, or `data_folder()` / name, where `load` looks.
    """
    from lnlab.data import download

    return download.fetch(find(name, SOURCES), folder, progress=progress)
