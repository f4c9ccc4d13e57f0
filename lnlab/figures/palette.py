"""Colours and dashes that everyone can tell apart, and one look for every figure.

Lines are drawn in the colours of Okabe & Ito (2008) without their yellow, which a projector
swallows; each normalizer keeps its own colour and dash through the whole workbook.
"""

from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#8A8F98"
INK = "#111827"
COLORS = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")

SIZES = "cividis"
"""The scale of colours for sizes."""

SIGNED = "RdBu"
"""The scale of colours for values on both sides of 0, which stands at its middle."""

NORMALIZERS = (
    *("layer", "batch", "weight", "rms", "none"),
    *("group", "batch layer", "weight, mean-only batch", "scale", "ghost batch"),
    *("batch renorm", "ada", "weight standardization", "spectral", "dyt"),
    *("recurrent batch", "instance"),
)

PLACES = {"encoder": (BLUE, "solid"), "decoder": (VERMILLION, "dash"), "both": (GREEN, "dot")}
"""Where a normalizer stands."""


def line(name: str) -> dict[str, Any]:
    """Colour, dash and width of the line of a normalizer; "layer, at γ = 1" is layer's.

    Names of no normalizer get what the normalizers have left over, always the same.
    """
    if name in PLACES:
        color, dash = PLACES[name]
        return {"color": color, "dash": dash, "width": 2.5}
    if name in NORMALIZERS:
        place = NORMALIZERS.index(name)
    else:
        known = (*PLACES, *NORMALIZERS)
        parents = [n for n in known if name.startswith((f"{n}, ", f"{n} "))]
        if parents:
            return line(max(parents, key=len)) | {"dash": "longdashdot"}
        place = len(NORMALIZERS) + sum(name.encode())
    # 7 colours and 5 dashes: 35 different lines before one returns.
    return {
        "color": COLORS[place % len(COLORS)],
        "dash": DASHES[place % len(DASHES)],
        "width": 2.5,
    }


def lines(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The :func:`line` of each of a few names; one whose colour is taken gets a free one."""
    looks: dict[str, dict[str, Any]] = {}
    for name in names:
        look = line(name)
        taken = {other["color"] for other in looks.values()}
        free = [color for color in COLORS if color not in taken]
        if look["color"] in taken and free:
            look["color"] = free[0]
        looks[name] = look
    return looks


_AXIS = {
    "gridcolor": "#E5E7EB",
    "linecolor": "#6B7280",
    "showline": True,
    "ticks": "outside",
    "tickcolor": "#6B7280",
    "zeroline": False,
    "automargin": True,
    "title": {"standoff": 6},
}

# White, also in a dark JupyterLab: a card that a projector shows as the page prints it.
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": "Inter, Helvetica, Arial, sans-serif", "size": 14, "color": INK},
        "title": {"x": 0, "xref": "paper", "font": {"size": 16}},
        "paper_bgcolor": "white",
        # Clear: an axis without anything on it must not cover another.
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "colorway": COLORS,
        "colorscale": {"sequential": SIZES, "diverging": SIGNED},
        "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
        "hoverlabel": {"font": {"size": 13}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
)
