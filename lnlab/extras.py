"""The extra of pyproject.toml that brings a package, named where the package is missing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires


def find_extra(package: str) -> str | None:
    """Return the extra of this installation that brings a package, by its name in an import."""
    try:
        requirements = requires("lnlab") or ()
    except PackageNotFoundError:  # a checkout that is not installed
        return None
    name = re.escape(package.replace("_", "-"))
    for requirement in requirements:
        if extra := re.match(rf"""(?i){name}[^\w-].*extra == ["'](\w+)["']""", requirement):
            return extra[1]
    return None


@contextmanager
def explain_missing_extra() -> Iterator[None]:
    """Name the extra that brings a package which an import within does not find.

    Raises:
        ModuleNotFoundError: if a package is missing; says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if extra := package and find_extra(package):
            raise ModuleNotFoundError(
                f'{package} is not installed: pip install "lnlab[{extra}]" brings it.',
                name=package,
            ) from error
        raise
