"""Pictures in rows, as small as they are."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.style.palette import TEMPLATE
from lnlab.figures.style.text import literal, signed

ZOOM = 1.5
"""Pixels of the screen a pixel of a picture."""


def pictures(cases: np.ndarray, *, rows: Sequence[str], made_on: str) -> go.Figure:
    """Coloured pictures in rows, each with its name.

    Args:
        cases: (rows, columns, 3, height, width), from 0 to 1.
        rows: the name of each row.
        made_on: the data's kind, printed below.
    """
    count, columns, _, height, width = cases.shape
    edge = ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1))
    framed = np.pad(cases, edge, constant_values=1.0)  # white lines between them
    sheet = framed.transpose(0, 3, 1, 4, 2).reshape(count * (height + 2), -1, 3)
    figure = go.Figure(go.Image(z=np.rint(255 * sheet).astype(np.uint8), hoverinfo="skip"))
    middle = (np.arange(count) + 0.5) * (height + 2)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(
        tickvals=middle, ticktext=[literal(name) for name in rows], showgrid=False, ticks=""
    )
    figure.update_layout(
        template=TEMPLATE, height=110 + int(ZOOM * sheet.shape[0]), margin={"t": 10, "l": 90},
        meta={"width": 120 + int(ZOOM * columns * (width + 2))},
    )  # fmt: skip
    return signed(figure, made_on)
