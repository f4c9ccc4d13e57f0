"""The findings of `conformance`: one finding a property, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from lnlab.probes.conformance.identify import Extent

NOTHING = "no normalizer"


@dataclass(frozen=True)
class Aspect:
    """One thing about a normalizer.

    Attributes:
        what: it is about.
        found: how the module does it.
        torch: how torch.nn's operator does it.
        wrong: whether that makes another function of it.
    """

    what: str
    found: str
    torch: str
    wrong: bool


@dataclass(frozen=True)
class Report:
    """The normalizer that a module turned out to be; prints as a table.

    Attributes:
        module: its class, which nothing is concluded from.
        kind: the operator of torch.nn that it is, or comes nearest to; "no normalizer".
        findings: one a property.
        over: the values that a statistic is taken over; None of what is no normalizer.
    """

    module: str
    kind: str
    findings: tuple[Aspect, ...]
    over: Extent | None = None

    @property
    def conforms(self) -> bool:
        """True if it is torch.nn's operator, eps and parameters aside."""
        return self.kind != NOTHING and not self.defects

    @property
    def defects(self) -> list[str]:
        """The lines on what is done otherwise."""
        return [f"{f.what}: {f.found}, not {f.torch}" for f in self.findings if f.wrong]

    def frame(self) -> pd.DataFrame:
        """One row a finding."""
        import pandas as pd

        return pd.DataFrame(self.findings)

    def _head(self) -> str:
        if self.kind == NOTHING:
            return f"{self.module} is {self.kind} that torch.nn has"
        if self.conforms:
            return f"{self.module} is {self.kind}"
        return f"{self.module} comes nearest to {self.kind}, but for {len(self.defects)} things"

    def __str__(self) -> str:
        rows = [("", "found", "torch.nn")] + [
            (f"{'!' if f.wrong else ' '} {f.what}", f.found, f.torch) for f in self.findings
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) for text, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self._head(), *lines])

    def _repr_html_(self) -> str:
        import pandas as pd

        rows = [(("! " if f.wrong else "") + f.what, f.found, f.torch) for f in self.findings]
        table = pd.DataFrame(rows, columns=["", "found", "torch.nn"])
        return f"<p>{escape(self._head())}</p>{table.to_html(index=False, border=0)}"
