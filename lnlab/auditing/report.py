"""The report of an audit, to be read as text, in a notebook, as a page, or as data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lnlab.auditing.subject import Finding, Result, Severity
from lnlab.book.html import words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Audit:
    """The findings about one module, what matters most first; prints as a page of text.

    Attributes:
        module: its class.
        about: its size, its input and how it was evaluated, in a sentence.
        results: what each check found that ran, by its name.
        not_run: why each other one did not, by its name.
        seconds: how long all took.
    """

    module: str
    about: str
    results: Mapping[str, Result]
    not_run: Mapping[str, str]
    seconds: float

    @property
    def findings(self) -> list[tuple[str, Finding]]:
        """(check, finding), by severity, then in the order of the checks."""
        found = [(name, f) for name, result in self.results.items() for f in result.findings]
        return sorted(found, key=lambda pair: pair[1].severity)

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of one severity."""
        return [f for _, f in self.findings if f.severity is severity]

    def frame(self) -> pd.DataFrame:
        """One row a finding: check, severity, where, seen, means, do."""
        import pandas as pd

        columns = ["check", "severity", "where", "seen", "means", "do"]
        return pd.DataFrame([{"check": c} | f.row() for c, f in self.findings], columns=columns)

    def table(self, check: str) -> pd.DataFrame:
        """The numbers behind one check.

        Raises:
            KeyError: where it did not run; the message says why.
        """
        import pandas as pd

        if check not in self.results:
            known = f"there are {', '.join(self.results)}"
            raise KeyError(f"{check!r} did not run: {self.not_run.get(check, known)}")
        return pd.DataFrame(self.results[check].rows)

    def to_json(self) -> str:
        """The whole report as JSON; numbers that are not finite are null there."""
        return json.dumps(
            {
                "module": self.module,
                "about": self.about,
                "findings": [{"check": c} | f.row() for c, f in self.findings],
                "tables": {n: [_plain(r) for r in v.rows] for n, v in self.results.items()},
                "not_run": dict(self.not_run),
                "seconds": self.seconds,
            },
            allow_nan=False,
        )

    def summary(self) -> str:
        """The number of findings of each severity, in a sentence."""
        counts = [f"{n} {s.word}{'s' * (n != 1)}" for s in Severity if (n := len(self.of(s)))]
        checks = f"{len(self.results)} checks in {self.seconds:.1f} s"
        return f"{', '.join(counts) or 'nothing to say'}; {checks}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.module}: {self.summary()}"
        yield self.about
        for check, f in self.findings:
            yield ""
            yield f"{f.severity.name}  {check}{': ' + f.where if f.where else ''}"
            yield f"  seen   {f.seen}."
            yield f"  means  {f.means}"
            yield f"  do     {f.do}"
        if self.not_run:
            yield ""
        for check, why in self.not_run.items():
            yield f"not run: {check}: {why}"

    def _repr_html_(self) -> str:
        notes = [f"not run: {check}: {why}" for check, why in self.not_run.items()]
        said = "<br>".join(map(escape, [self.summary(), self.about, *notes]))
        table = words(self.frame())
        return f"<p><b>{escape(self.module)}</b>: {said}</p>{table}"

    def save(self, path: str | Path, *, beside: bool = False) -> Path:
        """Write the audit as one page that needs no network, and return where it is.

        Args:
            path: the file.
            beside: plotly.js stands beside it, not in it: for several pages in a folder.

        Raises:
            OSError: where it cannot be written.
        """
        from lnlab.book.site import Section, write_report
        from lnlab.figures.curves import over_depth

        sections = []
        for name, result in self.results.items():
            drawn = result.profile and over_depth(
                result.profile.names, result.profile.values, y=result.profile.unit
            )
            sections.append(Section(name, result.note, tuple(map(_said, result.rows)), drawn))
        found = [{"check": c} | f.row() for c, f in self.findings]
        return write_report(
            Path(path), title=f"Audit of {self.module}", about=[self.summary(), self.about],
            findings=found, sections=sections, not_run=self.not_run, beside=beside,
        )  # fmt: skip


def _plain(row: dict) -> dict[str, Any]:
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()
    }


def _said(row: dict) -> dict[str, str]:
    """A row as it is read: three digits of a number."""
    return {
        k: (
            ""
            if isinstance(v, float) and math.isnan(v)
            else f"{v:.3g}"
            if isinstance(v, float)
            else str(v)
        )
        for k, v in row.items()
    }
