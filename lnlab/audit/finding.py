"""The findings of checks: data, with one sentence of what each means and one of what to do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The weight of a finding, worst first."""

    FAULT = 0
    RISK = 1
    FACT = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """One thing that was seen in a module.

    Attributes:
        severity: FAULT, something does not do what its name or its place promises; RISK, it
            may cost accuracy or a training; FACT, good to know.
        where: names of parts or parameters, the first few.
        seen: what was measured, with its numbers.
        means: what that means, in one sentence.
        do: what to do about it, in one sentence.
    """

    severity: Severity
    where: str
    seen: str
    means: str
    do: str

    def row(self) -> dict[str, str]:
        """The fields as text."""
        return asdict(self) | {"severity": self.severity.word}


@dataclass(frozen=True)
class Profile:
    """Numbers along the depth of a module, to be drawn.

    Attributes:
        title: what the numbers are.
        unit: what their axis is labelled with.
        names: the places, in the order of the computation.
        values: a line for each key, one number a place.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Result:
    """The result of one check.

    Attributes:
        findings: in no order.
        rows: the numbers behind them, a table.
        note: how they were measured, where that is not plain.
        profile: what is drawn of them.
    """

    findings: tuple[Finding, ...] = ()
    rows: tuple[dict, ...] = ()
    note: str = ""
    profile: Profile | None = None


class CannotCheck(ValueError):
    """A check does not apply, or cannot run; the message says why."""


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many others: "a, b and 4 others"."""
    names = list(dict.fromkeys(name or "the module itself" for name in names))
    rest = len(names) - most
    if rest < 2:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {rest} others"


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things in words: "1 weight", "3 weights"."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def span(low: str, high: str) -> str:
    """Two numbers as a range, or one where they read alike."""
    return low if low == high else f"{low} to {high}"


def number(value: float) -> str:
    """A number in three digits at most."""
    return f"{value:.3g}"
