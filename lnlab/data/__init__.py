"""Where cases come from: every source says its kind, licence and checksum.

- `load(spec)` gives a `Dataset`; `spec` is `embedded`, `NAME` or `NAME=PATH`.
- `sources()` lists what there is: behind `lnlab data list`.

Nothing is substituted: what cannot be had is an error that says how to get it.
"""

from lnlab.data.images import SOURCES, Dataset, Split, load
from lnlab.data.source import File, Source, data_folder

__all__ = ["Dataset", "File", "Source", "Split", "data_folder", "load", "sources"]


def sources() -> tuple[Source, ...]:
    """Every source that `load` knows by name."""
    return SOURCES
