"""Text in figures: plotly reads some HTML in every label."""

from collections.abc import Mapping
from html import escape
from textwrap import wrap
from typing import Any, cast

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style.palette import INK, lines, rank


def literal(text: object) -> str:
    """Text that comes from data, such that plotly shows its letters and obeys no tag in it."""
    return escape(str(text), quote=False)


def titled(figure: go.Figure, text: str, caption: str = "", lines: int = 0) -> go.Figure:
    """``figure`` with a title, and a caption under it, in room of their own above it.

    Args:
        figure: what gets them.
        text: the title.
        caption: one or a few sentences; kept whole in ``layout.meta`` for readers that break
            lines by themselves.
        lines: of the caption that there is room for, if more than it has.
    """
    layout: Any = figure.layout
    room = ROOM + LINE * max(lines, caption_lines(caption))
    return figure.update_layout(
        title=heading(text, caption),
        meta=(layout.meta or {}) | {"caption": literal(caption), "above": room},
        height=(layout.height or 450) + room,
        margin={"t": (layout.margin.t or 0) + room},
    )


WIDTH, LINE, ROOM = 105, 19, 34
"""Letters in a line of a caption, pixels of a line, pixels of the title."""


def heading(text: str, caption: str = "") -> dict[str, Any]:
    """A title at the top left, and below it a caption broken into lines."""
    return {
        "text": literal(text),
        "subtitle": {
            "text": "<br>".join(map(literal, wrap(caption, WIDTH))),
            "font": {"size": 13},
        },
        "y": 1,
        "yanchor": "top",
        "pad": {"t": 10},
        "font": {"size": 14},
    }


def caption_lines(caption: str) -> int:
    """The number of lines that a caption takes."""
    return len(wrap(caption, WIDTH))


def signed(figure: go.Figure, text: str) -> go.Figure:
    """``figure`` with a text below it, in lines that are no wider than a page.

    A page takes it out of the picture, as it does title and caption: ``layout.meta`` has the
    pixels that it stands in.
    """
    below, layout = wrap(text, NOTE), cast(Any, figure.layout)
    room = NOTE_ROOM + NOTE_LINE * len(below)
    figure.add_annotation(
        name="signature", text="<br>".join(map(literal, below)), xref="paper", yref="paper",
        x=0, y=0, yshift=-58, xanchor="left", yanchor="top", align="left", showarrow=False,
        font={"size": 12, "color": NOTE_INK},
    )  # fmt: skip
    return figure.update_layout(
        margin={"b": 50 + room}, meta=(layout.meta or {}) | {"signature": room}
    )


NOTE, NOTE_LINE, NOTE_ROOM, NOTE_INK = 90, 16, 40, "#4B5563"
"""Letters in a line below a figure, pixels of a line, pixels around the lines, their colour."""


def text_above(
    text: str, x: float, above: int, anchor: str, font: dict[str, Any]
) -> dict[str, Any]:
    """A line of text, some pixels above the panels."""
    return {
        "text": text,
        "x": x,
        "y": 1,
        "yshift": above,
        "xref": "paper",
        "yref": "paper",
        "xanchor": anchor,
        "yanchor": "bottom",
        "showarrow": False,
        "font": font,
    }


def note(text: str, x: float, y: float, shift: int = 0, size: int = 14) -> dict[str, Any]:
    """A line of text, its lower left corner at a place of the paper and pixels above it."""
    return text_above(text, x, shift, "left", {"size": size, "color": INK}) | {"y": y}


def legend(names: Mapping[str, object]) -> str:
    """The names in the colours of their lines, in the order of every legend."""
    looks = lines(names)
    return " &nbsp; &nbsp; ".join(
        f"<span style='color:{looks[name]['color']}'>━━━ <b>{literal(name)}</b></span>"
        for name in sorted(looks, key=rank)
    )


def number(defect: float) -> str:
    """One or two digits; an exact 0 is written 0, and only that."""
    if np.isnan(defect):
        return "NaN"
    if defect == 0:
        return "0"
    one, two = float(f"{defect:.0e}"), float(f"{defect:.2g}")
    if (one >= 0.01 and two < 1000) or np.isinf(defect):  # so that none is written as 1e-2
        return f"{two:g}"
    digit, power = f"{defect:.0e}".split("e")
    return f"{digit}e{int(power)}"
