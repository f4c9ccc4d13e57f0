"""A report as one page in one file: findings, then the tables and figures behind them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lnlab.pages.outputs import figure
from lnlab.pages.page import parts, share, write

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Section:
    """The numbers behind one check.

    Attributes:
        name: its heading.
        note: how they were measured.
        rows: of its table, texts by column.
        drawn: its figure, if it has one.
    """

    name: str
    note: str
    rows: Sequence[Mapping[str, str]]
    drawn: "go.Figure | None" = None

    @property
    def columns(self) -> list[str]:
        """The columns of all rows, in the order in which they come."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


def write_report(
    path: Path,
    *,
    title: str,
    about: Sequence[str],
    findings: Sequence[Mapping[str, str]],
    sections: Sequence[Section],
    not_run: Mapping[str, str],
    beside: bool = False,
) -> Path:
    """Write the page, which needs nothing beside it unless ``beside``, and return ``path``.

    Args:
        path: the file; what is there is replaced when the page is whole.
        title: the heading.
        about: sentences below it.
        findings: check, severity, where, seen, means and do of each, in reading order.
        sections: what stands below.
        not_run: what is missing, and why.
        beside: plotly.js and the style stand in files beside it, which all pages of a folder
            share; such a page has some tens of kB, one that is whole some 5 MB.

    Raises:
        OSError: where it cannot be written.
    """
    drawn = {
        s.name: figure(json.loads(s.drawn.to_json() or "{}"), f"figure-{i}")
        for i, s in enumerate(sections)
        if s.drawn is not None
    }
    write(
        path, "report.html", title=title, about=about, findings=findings, sections=sections,
        not_run=not_run, drawn=drawn, parts=None if beside else parts(math=False),
    )  # fmt: skip
    if beside:
        share(path.parent)
    return path
