"""Tables of many rows that can be read: filtered, sorted, long texts below their rows."""

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SCRIPT = Path(__file__).parent / "templates" / "tables.js"


def words(frame: "pd.DataFrame") -> str:
    """HTML of a frame of texts, which begin on the left, where JupyterLab has numbers end."""
    left = 'style="text-align: left"'
    html = frame.to_html(index=False, border=0, justify="left")
    return html.replace("<td>", f"<td {left}>").replace("<th>", f"<th {left}>")


class Readable:
    """A table of a frame, as JupyterLab and the pages show it.

    Its rows can be filtered by words and sorted by a column. A page has the script for that of
    its own and takes none from an output.

    Args:
        frame: a row each, named by its index.
        under: columns whose texts stand below their row, where there are any.

    Raises:
        KeyError: a column that the frame does not have.
    """

    def __init__(self, frame: "pd.DataFrame", under: Sequence[str] = ()) -> None:
        if missing := [name for name in under if name not in frame]:
            raise KeyError(f"no column {missing[0]!r}: choose from {', '.join(frame)}.")
        self.frame, self.under = frame, tuple(under)

    def __repr__(self) -> str:
        return repr(self.frame)

    def _repr_html_(self) -> str:
        beside = self.frame.drop(columns=[*self.under])
        names = [str(beside.index.name or ""), *map(str, beside)]
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        below = self.frame[[*self.under]].itertuples(index=False, name=None)
        bodies = "".join(
            self._body(row, texts, len(names))
            for row, texts in zip(beside.itertuples(name=None), below, strict=True)
        )
        table = f'<table class="lnlab-table"><thead><tr>{head}</tr></thead>{bodies}</table>'
        rows = f'<div class="lnlab-rows">{table}</div>'
        return f"{rows}<script>{SCRIPT.read_text(encoding='utf-8')}</script>"

    def _body(self, row: Sequence[Any], texts: Sequence[Any], width: int) -> str:
        """A row and what stands below it: one tbody, so that they stay together."""
        name, *values = map(written, row)
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        below = "".join(
            f'<tr class="under"><td colspan="{width}"><div><em>{escape(column)}:</em> '
            f"{options_whole(escape(written(text)))}</div></td></tr>"
            for column, text in zip(self.under, texts, strict=True)
            if written(text)
        )
        return f'<tbody><tr><th scope="row">{escape(name)}</th>{cells}</tr>{below}</tbody>'


def options_whole(html: str) -> str:
    """HTML in which no line ends within an option of a command or before its value."""
    return re.sub(r"--\w[\w-]*( [^\s-]\S*)?", r'<span class="option">\g<0></span>', html)


def written(value: Any) -> str:
    """A value in a table: numbers in two digits, lists joined, nothing where nothing is."""
    if isinstance(value, list | tuple):
        return "; ".join(map(written, value))
    if isinstance(value, dict):
        return ": ".join(filter(None, map(written, value.values())))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.2g}"
    return "" if value is None else str(value)
