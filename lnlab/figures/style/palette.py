"""Colours that everyone can tell apart, and one look for every figure.

Each normalizer has one colour, and one place in legends, through the whole workbook:
:data:`NORMALIZERS` says which, and nothing else does. The common ones have the colours of
Okabe & Ito (2008) without their yellow, which a projector swallows. What was measured is drawn
solid, what was predicted dashed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.colors import validate_colors

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#8A8F98"
INK = "#111827"
MARK = VERMILLION
"""The colour of what is drawn upon a map of sizes: pages in the dark turn ORANGE to brown."""

SIZES = "cividis"
"""The scale of colours for sizes."""

SIGNED = "RdBu"
"""The scale of colours for values on both sides of 0, which stands at its middle."""

NORMALIZERS = {
    "none": BLACK,
    "layer": BLUE,
    "batch": VERMILLION,
    "weight": GREEN,
    "rms": PURPLE,
    "group": "#7B3FA0",
    "instance": "#8C6D1F",
    "scale": "#C2185B",
    "ada": "#3B4CC0",
    "dyt": "#5F6B7A",
    "recurrent batch": "#9C1C1C",
    "ghost batch": "#E8895A",
    "batch renorm": "#5A3A1A",
    "batch layer": "#B03A8C",
    "weight, mean-only batch": "#00664A",
    "weight standardization": "#6FB32B",
    "spectral": "#7A8B00",
}
"""The colour of each normalizer, in the order of every legend."""

VARIANTS = {"layer, per position": "#48A89C", "layer, small gain": "#606C48"}
"""The colours of variants that stand beside their normalizer in several figures: no shades of
it, which thin lines and a dark page make hard to tell from it."""

PLACES = {
    "encoder": SKY,
    "decoder": ORANGE,
    "both": "#5B3FD6",
    "pre": "#1B6FE0",
    "post": "#B8420F",
    "sandwich": "#0090A8",
    "qk": "#B400C8",
}
"""The colour of each place where a normalizer stands: in an encoder with a decoder, and in the
branches of a transformer."""

NAMED = NORMALIZERS | VARIANTS | PLACES
OTHERS = (
    "#006600", "#AA99EE", "#662244", "#AA7766",
    "#FF7788", "#333366", "#99AA88", "#D878FC",
)  # fmt: skip
"""The colours of what is no normalizer, in their order: forest, lilac, wine, clay, salmon,
night, sage, orchid. They lie as far as can be from all that a normalizer has, and from each
other."""

PREDICTED = {"dash": "dash"}
"""The line of what was not measured."""


def namesake(name: str, among: Iterable[str] = NAMED) -> str:
    """The name among some that ``name`` is a variant of; "" if there is none.

    "layer, at gain 1" and "layer at gain 1" are variants of "layer".
    """
    same = [
        known
        for known in among
        if name == known or name.startswith((f"{known}, ", f"{known} "))
    ]
    return max(same, key=len, default="")


def rank(name: str) -> int:
    """The place of a name in legends: normalizers first, in their order, the variants of each
    behind it."""
    order = [*NORMALIZERS, *PLACES]
    base = namesake(name, order)
    return 1 + 2 * order.index(base) + (name != base) if base else 1 + 2 * len(order)


def lines(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and width of the line of each of the names that stand in one figure.

    A normalizer has its own colour in every figure. Variants of one have its colour too, but
    where that is taken a shade of it. Whatever else is drawn gets colours that none of the
    others has, shades of them where there are no more.
    """
    names = list(names)
    looks = {name: NAMED[name] for name in names if name in NAMED}
    for name in names:
        if name not in looks and (known := namesake(name)):
            tones = [shade(NAMED[known], step) for step in range(len(SHADES))]
            looks[name] = free(tones, looks)
    for name in names:
        if name not in looks:
            tones = [shade(color, step) for step in range(len(SHADES)) for color in OTHERS]
            looks[name] = free(tones, looks)
    return {name: {"color": looks[name], "dash": "solid", "width": 2.5} for name in names}


def line(name: str) -> dict[str, Any]:
    """The line of a name that stands alone in its figure."""
    return lines([name])[name]


def free(colors: Sequence[str], taken: Mapping[str, str]) -> str:
    """The first of a few colours that is not taken; if all are, the one taken least often."""
    used = [*taken.values()]
    return min(colors, key=used.count)


SHADES = (0.0, -0.45, 0.35, -0.7)
"""The shades of a colour: parts of the way to black (below 0) or to white."""

GREYS = (0.0, 0.4, 0.65, 0.2)
"""The shades of black, from which there is no way but to white."""


def shade(color: str, step: int) -> str:
    """One of the :data:`SHADES` of a colour #rrggbb, the first of which it is itself."""
    way = (GREYS if color == BLACK else SHADES)[step]
    end = 255 if way > 0 else 0
    parts = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(way) * (end - part)):02X}" for part in parts)


def upon(color: str) -> str:
    """Black or white, whichever can be read better upon a colour #rrggbb or rgb(r, g, b).

    By WCAG's relative luminance; plotly's own choice, dark grey or white, is weak on olive.
    """
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in map(float, validate_colors(color, "tuple")[0])
    )
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#FFFFFF"


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

# White: where a screen is dark, page.css and live_plot.css exchange light and dark.
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": "Inter, Helvetica, Arial, sans-serif", "size": 14, "color": INK},
        "title": {"x": 0, "xref": "paper", "font": {"size": 16}},
        "paper_bgcolor": "white",
        # Clear: an axis without anything on it must not cover another.
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "colorway": OTHERS,
        "colorscale": {"sequential": SIZES, "diverging": SIGNED},
        "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
        "hoverlabel": {"font": {"size": 13}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
)
