"""The look of every figure: axes, colours, text, and traces as plain data."""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from textwrap import wrap
from typing import Any, cast

import numpy as np
import plotly.graph_objects as go
from plotly.colors import validate_colors
from plotly.subplots import make_subplots

EDGE = 36
"""The largest power of ten on an axis, near the end of the range of float32.

Larger values are drawn at the edge of the axis.
"""


def axis_name_suffix(subplot_index: int) -> str:
    """Return the number in plotly's name of a subplot's axes, from 0 on: x, x2, x3, ..."""
    return str(subplot_index + 1) if subplot_index else ""


@cache
def side_by_side_domains(count: int, gap: float) -> tuple[tuple[float, float], ...]:
    """Return beginning and end of each of ``count`` panels from 0 to 1, ``gap`` apart."""
    figure = make_subplots(1, count, horizontal_spacing=gap)
    return tuple(axis.domain for axis in figure.select_xaxes())


def widen_exponent_range_to_values(
    values: Iterable[np.ndarray], low: float, high: float, step: int = 1
) -> tuple[float, float]:
    """Return powers of ten that hold all values, multiples of ``step`` beyond low and high.

    An axis with these ends does not follow every move of its values.
    """
    for each in values:
        logs = np.log10(each[np.isfinite(each) & (each > 0)]) / step
        if logs.size and step * logs.min() < low:
            low = max(step * np.floor(logs.min()), -EDGE)
        if logs.size and step * logs.max() > high:
            high = min(step * np.ceil(logs.max()), EDGE)
    return float(low), float(high)


def log_axis(values: Iterable[Any]) -> dict[str, Any]:
    """Return a logarithmic axis for ``values``, labelled at powers of ten, or at 1, 2 and 5.

    Left alone, plotly prints a small 9, 8 and 7 wherever there is room between two powers.
    """
    numbers = np.concatenate([np.ravel(each) for each in values] or [np.ones(1)]).astype(float)
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    low, high = np.log10([numbers.min(), numbers.max()]) if numbers.size else (-1.0, 1.0)
    axis: dict[str, Any] = {"type": "log"}
    # 0.001 and 10000 are written out, what is beyond as a power
    is_plain = low > -5 and high < 5
    axis |= {"tickformat": "~g"} if is_plain else {"exponentformat": "power"}
    if high - low < 0.7:
        return axis  # few of 1, 2 and 5 lie there: plotly labels other round numbers
    return axis | {"dtick": "D2" if high - low < 2 else max(1, round((high - low) / 8))}


def linear_axis_avoiding_fractional_ticks(values: Iterable[Any]) -> dict[str, Any]:
    """Return a linear axis for ``values``, labelled at each of a few whole numbers.

    Left alone, plotly has an epoch 1.5.
    """
    numbers = np.concatenate([np.ravel(each) for each in values] or [np.zeros(1)]).astype(float)
    few = numbers.any() and np.ptp(numbers) <= 6 and (numbers == np.round(numbers)).all()
    return {"type": "linear"} | ({"dtick": 1} if few else {})


# Colours that everyone can tell apart, and one look for every figure.
#
# Each normalizer has one colour, and one place in legends, through the whole workbook:
# :data:`NORMALIZERS` says which, and nothing else does. The common ones have the colours of
# Okabe & Ito (2008) without their yellow, which a projector swallows, and with a darker orange
# and sky blue. Each colour has a contrast of 3 : 1 or more with a light and with a dark page.
# What was measured is drawn solid, what was predicted dashed.


BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#D27D00", "#3C9BCD", "#000000", "#8A8F98"
INK = "#111827"
MARK = VERMILLION
"""The color of lines on a heat map. On a dark page, ORANGE would become brown."""

SIZES = "cividis"
"""The color scale for values that are not negative."""

SIGNED = "RdBu"
"""The color scale for values of both signs, with 0 in its middle."""

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
    "derf": "#A3324E",
    "recurrent batch": "#9C1C1C",
    "ghost batch": "#D7784B",
    "batch renorm": "#5A3A1A",
    "batch layer": "#B03A8C",
    "weight, mean-only batch": "#00664A",
    "weight standardization": "#5FA519",
    "spectral": "#7A8B00",
}
"""The color of each normalizer in all figures, in the order of every legend."""

VARIANTS = {"layer, per position": "#41A096", "layer, small gain": "#606C48"}
"""The colors of variants drawn beside their normalizer in several figures. No variant has a
shade of its normalizer's color, because thin lines in two shades are hard to distinguish."""

PLACES = {
    "encoder": SKY,
    "decoder": ORANGE,
    "both": "#5B3FD6",
    "pre": "#1B6FE0",
    "post": "#B8420F",
    "sandwich": "#0090A8",
    "keel": "#E00000",
    "lns": "#B07D00",
    "qk": "#B400C8",
}
"""The color of each place of a normalizer: in the encoder or the decoder of a network
with both, and in the branches of a transformer."""

NAMED = NORMALIZERS | VARIANTS | PLACES
OTHERS = (
    "#006600", "#9687DC", "#662244", "#AA7766",
    "#F06478", "#333366", "#879678", "#C869EB",
)  # fmt: skip
"""The colors of lines that do not stand for a normalizer: forest, lilac, wine, clay, salmon,
night, sage, orchid. These colors are as different as possible from the normalizers' colors
and from each other."""

PREDICTED = {"dash": "dash"}
"""The style of a line that is predicted and not measured."""


def variant_base_name_or_empty(name: str, among: Iterable[str] = NAMED) -> str:
    """Return the name among some that ``name`` is a variant of; "" if there is none.

    "layer, at gain 1" and "layer at gain 1" are variants of "layer".
    """
    same = [
        known
        for known in among
        if name == known or name.startswith((f"{known}, ", f"{known} "))
    ]
    return max(same, key=len, default="")


def legend_rank(name: str) -> int:
    """Return the place of a name in legends: normalizers in their order, then the others.

    The variants of each stand behind it.
    """
    order = [*NORMALIZERS, *PLACES]
    base = variant_base_name_or_empty(name, order)
    return 1 + 2 * order.index(base) + (name != base) if base else 1 + 2 * len(order)


def line_colors_and_widths(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return colour and width of the line of each of the names in one figure.

    A normalizer has its own colour in every figure. Variants of one have its colour too, but
    where that is taken a shade of it. Whatever else is drawn gets colours that none of the
    others has, shades of them where there are no more.
    """
    names = [*dict.fromkeys(names)]
    colors = {name: NAMED[name] for name in names if name in NAMED}
    others = (name for name in names if name not in NAMED)
    # variants first
    for name in sorted(others, key=lambda name: not variant_base_name_or_empty(name)):
        known = variant_base_name_or_empty(name)
        bases = [NAMED[known]] if known else OTHERS
        tones = [shade_or_tint(color, step) for step in range(len(SHADES)) for color in bases]
        colors[name] = min(tones, key=[*colors.values()].count)  # the first that is free
    return {name: {"color": colors[name], "dash": "solid", "width": 2.5} for name in names}


SHADES = (0.0, -0.45, 0.35, -0.7)
"""The shades of a color: fractions of the way to black (below 0) or to white (above 0)."""

GREYS = (0.0, 0.4, 0.55, 0.2)
"""The shades of black: fractions of the way to white."""


def shade_or_tint(color: str, n: int) -> str:
    """Return one of the :data:`SHADES` of a colour #rrggbb, the first of which it is itself."""
    way = (GREYS if color == BLACK else SHADES)[n]
    end = 255 if way > 0 else 0
    parts = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(way) * (end - part)):02X}" for part in parts)


def text_color_on(color: str) -> str:
    """Return black or white, whichever can be read better on #rrggbb or rgb(r, g, b).

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

FIXED: Any = go.layout.Template(TEMPLATE)
"""The template of a panel's figure: no zoom and no legend, because names stand in the plot."""
FIXED.layout.update(showlegend=False, xaxis_fixedrange=True, yaxis_fixedrange=True)


# Text in figures: plotly reads some HTML in every label.


def escape(text: object) -> str:
    """Return text that comes from data so that plotly shows its letters and obeys no tag."""
    return html.escape(str(text), quote=False)


def add_title(
    figure: go.Figure, text: str, caption: str = "", min_caption_lines: int = 0
) -> go.Figure:
    """Add a title and a caption above a figure, and make it higher by as much.

    Args:
        text: the title.
        caption: one or a few sentences; kept whole in ``layout.meta`` for readers that break
            lines by themselves.
        min_caption_lines: lines that there is room for, if more than the caption has.
    """
    layout: Any = figure.layout
    room = ROOM + LINE * max(min_caption_lines, count_wrapped_caption_lines(caption))
    return figure.update_layout(
        title=title_with_caption(text, caption),
        meta=(layout.meta or {}) | {"caption": escape(caption), "above": room},
        height=(layout.height or 450) + room,
        margin={"t": (layout.margin.t or 0) + room},
    )


WIDTH, LINE, ROOM = 105, 19, 34
"""Characters per line of a caption; heights in pixels of one line and of the title."""


def title_with_caption(text: str, caption: str = "") -> dict[str, Any]:
    """Return a title at the top left, and below it a caption broken into lines."""
    return {
        "text": escape(text),
        "subtitle": {
            "text": "<br>".join(map(escape, wrap(caption, WIDTH))),
            "font": {"size": 13},
        },
        "y": 1,
        "yanchor": "top",
        "pad": {"t": 10},
        "font": {"size": 14},
    }


def count_wrapped_caption_lines(caption: str) -> int:
    """Return the number of lines that a caption takes."""
    return len(wrap(caption, WIDTH))


def add_footnote(figure: go.Figure, text: str) -> go.Figure:
    """Add a text below a figure, in lines that are no wider than a page.

    A page takes it out of the picture, as it does title and caption: ``layout.meta`` has the
    pixels that it stands in.
    """
    below, layout = wrap(text, NOTE), cast(Any, figure.layout)
    room = NOTE_ROOM + NOTE_LINE * len(below)
    figure.add_annotation(
        name="signature", text="<br>".join(map(escape, below)), xref="paper", yref="paper",
        x=0, y=0, yshift=-58, xanchor="left", yanchor="top", align="left", showarrow=False,
        font={"size": 12, "color": NOTE_INK},
    )  # fmt: skip
    return figure.update_layout(
        margin={"b": 50 + room}, meta=(layout.meta or {}) | {"signature": room}
    )


NOTE, NOTE_LINE, NOTE_ROOM, NOTE_INK = 90, 16, 40, "#4B5563"
"""A footnote: characters per line, line height and space around it in pixels, and color."""


def annotation_above(
    text: str, paper_x: float, pixels_above: int, anchor: str, font: dict[str, Any]
) -> dict[str, Any]:
    """Return a line of text, some pixels above the panels."""
    return {
        "text": text, "x": paper_x, "y": 1, "yshift": pixels_above,
        "xref": "paper", "yref": "paper",
        "xanchor": anchor, "yanchor": "bottom", "showarrow": False, "font": font,
    }  # fmt: skip


def subplot_title(text: str, domain: Sequence[float], color: str = INK) -> dict[str, Any]:
    """Return the bold title of a subplot, which stands above the middle of its axis of x."""
    font = {"color": color, "size": 13}
    return annotation_above(f"<b>{text}</b>", sum(domain) / 2, 4, "center", font)


def subplot_title_above_axes(text: str, subplot: int, font: dict[str, Any]) -> dict[str, Any]:
    """Return the title of a subplot, which stands above its axes wherever they are."""
    number = axis_name_suffix(subplot)
    return {
        "text": text, "x": 0.5, "y": 1, "yshift": 2,
        "xref": f"x{number} domain", "yref": f"y{number} domain",
        "xanchor": "center", "yanchor": "bottom", "showarrow": False, "font": font,
    }  # fmt: skip


def text_annotation(
    text: str, paper_x: float, paper_y: float, pixels_above: int = 0, size: int = 14
) -> dict[str, Any]:
    """Return a line of text, its lower left corner some pixels above a place of the paper."""
    font = {"size": size, "color": INK}
    return annotation_above(text, paper_x, pixels_above, "left", font) | {"y": paper_y}


def legend_annotation(names: Iterable[str], pixels_above: int) -> dict[str, Any]:
    """Return the names in the colours of their lines, in the order of every legend."""
    styles = line_colors_and_widths(names)
    text = " &nbsp; &nbsp; ".join(
        f"<span style='color:{styles[name]['color']}'>━━━ <b>{escape(name)}</b></span>"
        for name in sorted(styles, key=legend_rank)
    )
    return annotation_above(text, 0, pixels_above, "left", {"size": 14})


def format_number(number: float) -> str:
    """Return a number in one or two digits; only an exact 0 is written 0."""
    if np.isnan(number):
        return "NaN"
    if number == 0:
        return "0"
    one, two = float(f"{number:.0e}"), float(f"{number:.2g}")
    if (one >= 0.01 and two < 1000) or np.isinf(number):  # so that none is written as 1e-2
        return f"{two:g}"
    digit, power = f"{number:.0e}".split("e")
    return f"{digit}e{int(power)}"


# Figures as plain data, as panels make them.

QUIET = {"visible": False}
"""The settings of an invisible axis."""


def base_layout(height: int, left: int, right: int, top: int, bottom: int) -> dict[str, Any]:
    """Return the layout of a panel's figure with a height and margins, in pixels."""
    margin = {"l": left, "r": right, "t": top, "b": bottom}
    return {"template": FIXED, "height": height, "margin": margin}


def trace(
    kind: str, name: str, subplot: int | None = None, **attributes: Any
) -> dict[str, Any]:
    """Return a trace as plotly takes it; subplots are counted from 0."""
    axis_ids = {}
    if subplot is not None:
        number = axis_name_suffix(subplot)
        axis_ids = {axis: f"{axis[0]}{number}" for axis in ("xaxis", "yaxis")}
    return {"type": kind, "name": name, **axis_ids, **attributes}


def subplot_axes(
    subplot: int, x: Mapping[str, Any], y: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the axes of a subplot, each at the foot or the left end of the other."""
    number = axis_name_suffix(subplot)
    return {
        f"xaxis{number}": {"anchor": f"y{number}", **x},
        f"yaxis{number}": {"anchor": f"x{number}", **y},
    }


def band(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, color: str, opacity: float = 0.18
) -> dict[str, Any]:
    """Return the attributes of a filled area between two curves over ``x`` (K,)."""
    return {
        "x": np.concatenate([x, x[::-1]]), "y": np.concatenate([high, low[::-1]]),
        "mode": "lines", "fill": "toself", "fillcolor": color, "opacity": opacity,
        "line": {"width": 0}, "hoverinfo": "skip",
    }  # fmt: skip


def thinning_line_colors_and_widths(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return :func:`line_colors_and_widths`, each thinner than the last: none is hidden."""
    styles = line_colors_and_widths(names)
    return {
        name: look | {"width": 2 + 1.5 * (len(styles) - 1 - slot)}
        for slot, (name, look) in enumerate(styles.items())
    }


def log_axis_between_powers(low_exponent: float, high_exponent: float) -> dict[str, Any]:
    """Return a logarithmic axis between two powers of ten, labelled at some six powers."""
    return {
        "type": "log", "range": [low_exponent, high_exponent], "exponentformat": "power",
        "dtick": max(1, round((high_exponent - low_exponent) / 6)),
        "tickfont": {"size": 12},
    }  # fmt: skip
