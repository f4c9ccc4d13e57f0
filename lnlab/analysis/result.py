"""The base of all results of an analysis: a table, a figure, and a file of either."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


class AnalysisResult:
    """The result of an analysis."""

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table; each result has its own.

        Raises:
            NotImplementedError: if it has none.
        """
        raise NotImplementedError

    def plot(self) -> go.Figure:
        """Return a figure of the numbers, the table itself if there is no better one."""
        from lnlab.figures.tables import table

        return table(self.to_frame())

    def save(self, path: str | Path) -> Path:
        """Write the figure (``.html``) or the table (``.csv``, ``.json``) to a file.

        Raises:
            ValueError: for another ending.
        """
        path = Path(path)
        if path.suffix == ".html":
            self.plot().write_html(path, include_plotlyjs="directory")
        elif path.suffix == ".csv":
            self.to_frame().to_csv(path, index=False)
        elif path.suffix == ".json":
            self.to_frame().to_json(path, orient="records", indent=1)
        else:
            raise ValueError(f"{path} ends in {path.suffix!r}: choose .html, .csv or .json.")
        return path
