"""The packages of each extra of pyproject.toml, to name the extra where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "workbook": (
        "IPython",
        "anywidget",
        "ipywidgets",
        "jupyter_client",
        "jupyter_core",
        "math_core",
        "nbclient",
        "nbconvert",
        "nbformat",
        "papermill",
        "traitlets",
        "ziamath",
    ),
    "speech": ("jiwer", "soundfile"),
    "text": ("nltk",),
    "cluster": ("distributed",),
}
"""The packages that are imported of each extra."""


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Name the extra that brings a package which an import within does not find.

    Raises:
        ModuleNotFoundError: if a package is missing; says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, packages in EXTRAS.items():
            if package in packages:
                raise ModuleNotFoundError(
                    f'{package} is not installed: pip install "lnlab[{extra}]" brings it.',
                    name=package,
                ) from error
        raise
