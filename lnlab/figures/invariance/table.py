"""Table 1 as it was measured: the size of every defect beside what is claimed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style import INK, SIZES, TEMPLATE, VERMILLION, lines, literal, number

ROW, HEAD, FOOT, SIDE = 23, 70, 10, 190
LEGEND = "✓ claimed to stay · ✗ to move<br>for ε = 0, δ > 0<br>! measured otherwise"
SMALLEST, LARGEST = -17, 2


@dataclass(frozen=True)
class Measured:
    """Rows of normalizers, columns of transformations.

    Attributes:
        rows: (R) names.
        columns: (C) formulas.
        defects: (R, C).
        claims: (R, C), whether the output is claimed to stay the same.
        exact: the defect below which it does.
        boxed: how many of the first rows and columns the paper's own table has.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    defects: np.ndarray
    claims: np.ndarray
    exact: float
    boxed: tuple[int, int] = (0, 0)


def table(cells: Measured, column: int | None = None, rows: Sequence[str] = ()) -> go.Figure:
    """A heat map of log10 of the defects, each cell with its claim (✓ or ✗) and its number.

    An exclamation mark stands where the measurement is not on the claimed side of
    ``cells.exact``.

    Args:
        cells: what was measured.
        column: the place of the column to frame.
        rows: names to print in the colours of their lines, in the order of those.
    """
    figure = go.Figure(layout={"template": TEMPLATE})
    powers = [-16, -12, -8, -4, 0]
    figure.add_heatmap(
        name="defects",
        x=[heading(n, formula) for n, formula in enumerate(cells.columns, 1)],
        y=list(range(len(cells.rows))),
        texttemplate="%{text}",
        textfont={"size": 11},
        hovertemplate="%{text}<extra></extra>",
        colorscale=SIZES,
        zmin=SMALLEST,
        zmax=LARGEST,
        xgap=1,
        ygap=1,
        colorbar={
            "tickvals": powers,
            "ticktext": [f"10<sup>{p}</sup>" if p else "1" for p in powers],
            "title": {"text": "defect", "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
        },
        **table_traces(cells)["defects"],
    )
    return figure.update_layout(table_layout(cells, column, rows))


def table_traces(cells: Measured) -> dict[int | str, dict[str, Any]]:
    """The traces of :func:`table`."""
    with np.errstate(divide="ignore"):
        z = np.clip(np.log10(cells.defects), SMALLEST, None)
    texts = [
        [cell(defect, claim, cells.exact) for defect, claim in zip(*row, strict=True)]
        for row in zip(cells.defects, cells.claims, strict=True)
    ]
    return {"defects": {"z": z, "text": texts}}


def heading(number: int, formula: str) -> str:
    """The number of a column and its formula, broken after the arrow."""
    return f"{number}<br>" + literal(formula).replace("→ ", "→<br>")


def cell(defect: float, claim: bool, exact: float) -> str:
    """✓ 3e-16, ✗ 2.6, or in bold with an exclamation mark where they do not agree."""
    if np.isnan(defect):
        return number(defect)
    text = f"{'✓' if claim else '✗'} {number(defect)}"
    return text if (defect < exact) == claim else f"<b>{text}!</b>"


def table_layout(cells: Measured, column: int | None, rows: Sequence[str]) -> dict[str, Any]:
    """The axes and frames of :func:`table`."""
    looks = lines(rows)
    names = [
        f"<b><span style='color:{looks[row]['color']}'>{literal(row)}</span></b>"
        if row in looks
        else literal(row)
        for row in cells.rows
    ]
    height, width = cells.boxed
    frames = [frame(0, width, 0, height, INK)] if height else []
    if column is not None:
        frames.append(frame(column, column + 1, 0, len(cells.rows), VERMILLION))
    return {
        "height": HEAD + FOOT + ROW * len(cells.rows),
        "margin": {"l": SIDE, "r": 10, "t": HEAD, "b": FOOT},
        "xaxis": {
            "side": "top",
            "tickangle": 0,
            "showline": False,
            "ticks": "",
            "fixedrange": True,
        }
        | {"tickfont": {"size": 12}, "showgrid": False},
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "tickfont": {"size": 13},
            "range": [len(names) - 0.5, -0.5],
            "showgrid": False,
            "showline": False,
            "ticks": "",
            "fixedrange": True,
        },
        "shapes": frames,
        "annotations": [
            {
                "text": LEGEND,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 1,
                "xshift": -SIDE,
                "xanchor": "left",
                "yanchor": "bottom",
                "align": "left",
                "showarrow": False,
                "font": {"size": 12},
            }
        ],
    }


def frame(left: int, right: int, top: int, bottom: int, color: str) -> dict[str, Any]:
    """A rectangle around cells, given by the edges of a column and a row."""
    return {
        "type": "rect",
        "x0": left - 0.5,
        "x1": right - 0.5,
        "y0": top - 0.5,
        "y1": bottom - 0.5,
        "line": {"color": color, "width": 2.5},
    }
