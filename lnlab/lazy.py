"""Packages whose names and modules are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lnlab.extras import explain_missing_extra


def lazy(
    package: str, names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    ``package.name`` then imports the module of that name, as ``from package import name`` does.

    Args:
        package: its ``__name__``.
        names: what the package gives besides its modules: the module of each name, relative
            to the package (".trainer"). With a colon another name there (".data:load").
    """
    names = names or {}

    def __getattr__(name: str) -> Any:
        with explain_missing_extra():
            if name in names:
                module, _, other = names[name].partition(":")
                return getattr(import_module(module, package), other or name)
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__, lambda: sorted(names)
