"""The folders of lnlab: the checkout that it is installed from, and that of data."""

import os
import tomllib
from pathlib import Path

import platformdirs

import lnlab


def checkout_folder() -> Path:
    """Return the folder of the checkout.

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


def repository_url() -> str:
    """Return the address of the repository in ``tool.lnlab`` of pyproject.toml, or ""."""
    with (checkout_folder() / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["lnlab"]["repository"]


def folder_in_checkout_or_cwd(name: str) -> Path:
    """Return the folder ``runs`` or ``results`` of the checkout.

    Where lnlab is installed without its checkout, that of the working directory.
    """
    try:
        return checkout_folder() / name
    except FileNotFoundError:
        return Path(name)


def data_folder() -> Path:
    """Return the folder of downloads, one subfolder a source.

    ``$LNLAB_DATA`` if set; else ``data/`` of the checkout that lnlab runs from; else, where
    lnlab is installed without its checkout, the user's cache folder.
    """
    if chosen := os.environ.get("LNLAB_DATA"):
        return Path(chosen).expanduser()
    checkout = Path(lnlab.__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data"
    return platformdirs.user_cache_path("lnlab")
