"""The folder of lnlab's own files: the checkout that it is installed from."""

import tomllib
from pathlib import Path

import lnlab


def root() -> Path:
    """The folder of the checkout.

    Raises:
        FileNotFoundError: lnlab was installed without one.
    """
    folder = Path(lnlab.__file__).resolve().parents[1]
    if not (folder / "notebooks").is_dir() or not (folder / "pyproject.toml").is_file():
        raise FileNotFoundError(
            "This lnlab was installed without its checkout, which holds the notebooks and "
            "the benchmarks: clone the repository and run `make setup` in it."
        )
    return folder


def repository() -> str:
    """The address of the repository, as ``tool.lnlab`` of pyproject.toml has it; may be ""."""
    with (root() / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["lnlab"]["repository"]


def place(name: str) -> Path:
    """The folder ``runs`` or ``results`` of the checkout.

    Where lnlab is installed without its checkout, that of the working directory.
    """
    try:
        return root() / name
    except FileNotFoundError:
        return Path(name)
