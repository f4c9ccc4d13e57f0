"""Text in figures: plotly reads some HTML in every label."""

from html import escape
from typing import Any

import plotly.graph_objects as go


def literal(text: object) -> str:
    """Text that comes from data, such that plotly shows its letters and obeys no tag in it."""
    return escape(str(text), quote=False)


def titled(figure: go.Figure, text: str, room: int = 34) -> go.Figure:
    """``figure`` with a title in room of its own: pixels that are added above it."""
    layout: Any = figure.layout
    return figure.update_layout(
        title={
            "text": literal(text),
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 10},
            "font": {"size": 14},
        },
        height=layout.height + room,
        margin={"t": layout.margin.t + room},
    )
