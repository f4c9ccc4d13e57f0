"""The base of all results of an analysis: a table, a figure, and a file of either."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure
else:  # neither is imported before a result is looked at
    DataFrame = Figure = Any


def make_frame(data: Any, columns: Sequence[str] | None = None) -> DataFrame:
    """Return a data frame of columns by name, or of rows."""
    import pandas as pd

    return pd.DataFrame(data, columns=columns)  # type: ignore[arg-type]


WIDTH = 100
"""Letters in a line of a printed table."""


class AnalysisResult:
    """The result of an analysis."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # a terminal shows the repr: the table, and not the fields that @dataclass would show
        cls.__repr__ = AnalysisResult.__repr__

    def to_frame(self) -> DataFrame:
        """Return the numbers as a table; each result has its own."""
        raise NotImplementedError

    def plot(self) -> Figure:
        """Return a figure of the numbers, the table itself if there is no better one."""
        from lnlab.figures.tables import table

        return table(self.to_frame())

    def show(self) -> None:
        """Show the figure, in a script in the browser."""
        self.plot().show()

    def _lines_above_table(self) -> Iterable[str]:
        """Return the sentences above the printed table."""
        return ()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        try:
            table = self.to_frame().to_string(max_rows=20, line_width=WIDTH)
        except ValueError as error:  # of a recorder that has recorded nothing
            return str(error)
        return "\n".join([*self._lines_above_table(), table])

    def _html_above_figure(self) -> str:
        """Return what a page has above the figure."""
        return ""

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(max_rows=20, index=False, border=0)
        return self._html_lines_above_table() + table

    def _html_lines_above_table(self) -> str:
        return _html_paragraph(self._lines_above_table())

    def save(self, path: str | Path) -> Path:
        """Write the figure (``.html``) or the table (``.csv``, ``.json``) to a file.

        A page needs ``plotly.min.js``, which is written beside it if it is not there yet: one
        copy (4.8 MB) serves all pages of the folder. Move them together.
        """
        path = Path(path)
        if path.suffix == ".html":
            from lnlab.figures.page import write_page_and_plotly_js

            write_page_and_plotly_js(self.plot(), path, self._html_above_figure())
        elif path.suffix == ".csv":
            self.to_frame().to_csv(path, index=False)
        elif path.suffix == ".json":
            self.to_frame().to_json(path, orient="records", indent=1)
        else:
            raise ValueError(f"{path} ends in {path.suffix!r}: choose .html, .csv or .json.")
        return path


def _html_paragraph(lines: Iterable[str]) -> str:
    text = "<br>".join(escape(line) for line in lines if line)
    return f"<p>{text}</p>" if text else ""


class TextResult(AnalysisResult):
    """A result in words: its table is printed whole, with cells that are wrapped."""

    unwrapped_columns: tuple[int, ...] = ()
    """The columns that are never wrapped."""
    width = WIDTH

    def _header_and_rows(self) -> list[Sequence[str]]:
        """Return the printed table, its header first."""
        raise NotImplementedError

    def _lines_below_table(self) -> Iterable[str]:
        """Return the explanations below the printed table."""
        return ()

    def _html_lines_below_table(self) -> str:
        return _html_paragraph(self._lines_below_table())

    def __str__(self) -> str:
        table = format_text_table(
            self._header_and_rows(), unwrapped_columns=self.unwrapped_columns, width=self.width
        )
        return "\n".join([*self._lines_above_table(), *table, *self._lines_below_table()])

    def _repr_html_(self) -> str:
        header, *rows = self._header_and_rows()
        table = make_frame(rows, columns=list(header)).to_html(index=False, border=0)
        return self._html_lines_above_table() + table + self._html_lines_below_table()


NARROW = 11
"""The letters to which a column of a printed table may be cut: "approximate" fits into them."""


def format_text_table(
    rows: Sequence[Sequence[str]],
    *,
    unwrapped_columns: Collection[int] = (),
    width: int = WIDTH,
) -> Iterator[str]:
    """Yield the lines of a table, header first, at most ``width`` letters wide.

    Cells are wrapped if they do not fit beside each other, but for ``unwrapped_columns``.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    least = [w if i in unwrapped_columns else min(w, NARROW) for i, w in enumerate(widths)]
    while sum(widths) + 2 * (len(widths) - 1) > width and widths != least:
        # the widest first: it is the one that tells most, and still has most room
        widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        widths[widest] -= 1
    for row in rows:
        cells = [wrap(text, w) or [""] for text, w in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            padded = (text.ljust(w) for text, w in zip(line, widths, strict=True))
            yield "  ".join(padded).rstrip()
