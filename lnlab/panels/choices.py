"""Choices that fields of a panel's state have."""

from collections.abc import Collection

from lnlab.nn.table1 import Statistics

MODES = {statistics.name.lower(): statistics for statistics in Statistics}
"""The sources of statistics over cases, by name."""


def one_of(name: str, value: object, allowed: Collection) -> None:
    """Raise ValueError unless ``value`` is among ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: choose from {', '.join(map(str, allowed))}.")
