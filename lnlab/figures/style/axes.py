"""Axes side by side, and logarithmic ones that hold what is drawn."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from plotly.subplots import make_subplots

EDGE = 36
"""The power of ten at which an axis ends at most, as float32 does about.

What is beyond is drawn at the edge.
"""


def axis_number(slot: int) -> str:
    """The number of an axis in plotly's names, from slot 0 on: x, x2, x3, ..."""
    return str(slot + 1) if slot else ""


@cache
def side_by_side(count: int, gap: float) -> tuple[tuple[float, float], ...]:
    """The beginning and the end of each of ``count`` panels from 0 to 1, ``gap`` apart."""
    figure = make_subplots(1, count, horizontal_spacing=gap)
    return tuple(axis.domain for axis in figure.select_xaxes())


def grid(rows: int, columns: int, **options: Any) -> dict[str, dict[str, Any]]:
    """The domain and the anchor of each axis of a grid of plots, by its name in a layout.

    Args:
        rows: how many there are.
        columns: likewise.
        options: as plotly's ``make_subplots`` has them.
    """
    layout = make_subplots(rows, columns, **options).to_plotly_json()["layout"]
    axes = {name: axis for name, axis in layout.items() if name[1:].startswith("axis")}
    return {name: {"domain": a["domain"], "anchor": a["anchor"]} for name, a in axes.items()}


def decades(values: Sequence[np.ndarray], low: int, high: int) -> tuple[int, int]:
    """Powers of ten around all ``values``: even ones, so that an axis does not follow each."""
    for each in values:
        finite = each[np.isfinite(each) & (each > 0)]
        if finite.size:
            low = min(low, 2 * int(np.floor(np.log10(finite.min()) / 2)))
            high = max(high, 2 * int(np.ceil(np.log10(finite.max()) / 2)))
    return max(low, -EDGE), min(high, EDGE)


def logarithmic(values: Iterable[Any]) -> dict[str, Any]:
    """A logarithmic axis for ``values``, labelled at powers of ten, or at 1, 2 and 5 of each.

    Where fewer than two of these lie between the values, other round numbers take their place.

    Left alone, plotly prints a small 9, 8 and 7 wherever there is room between two powers.
    """
    drawn = np.concatenate([np.ravel(each) for each in values] or [np.ones(1)]).astype(float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    low, high = np.log10([drawn.min(), drawn.max()]) if drawn.size else (-1.0, 1.0)
    digits = (1, 2, 5) if high - low < 2 else (1,)
    every = max(1, round((high - low) / 8))
    # room for what the axis shows beyond its values, and for zooming out a little
    powers = range(int(np.floor(low)) - 2 * every, int(np.ceil(high)) + 2 * every + 1)
    ticks = [(digit, power) for power in powers if power % every == 0 for digit in digits]
    named = {digit * 10.0**power: plain(digit, power) for digit, power in ticks}
    seen = [at for at in named if 10**low <= at <= 10**high]
    if len(seen) < 2 and high - low > 1e-4:  # below that, digits would tell nothing apart
        named = {at: f"{at:.6g}" for at in round_numbers(10**low, 10**high)}
    return {"type": "log", "tickvals": [*named], "ticktext": [*named.values()]}


def linear(values: Iterable[Any]) -> dict[str, Any]:
    """A linear axis for ``values``, labelled at each where these are a few whole numbers.

    Left alone, plotly has an epoch 1.5.
    """
    drawn = np.concatenate([np.ravel(each) for each in values] or [np.zeros(1)]).astype(float)
    few = drawn.size > 0 and 1 <= np.ptp(drawn) <= 6 and (drawn == np.round(drawn)).all()
    return {"type": "linear"} | ({"dtick": 1} if few else {})


def round_numbers(low: float, high: float) -> list[float]:
    """Two to five round numbers between two, and as many on either side, if above 0."""
    least, span = (high - low) / 4, high - low
    power = 10.0 ** np.floor(np.log10(least))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least)
    first, last = np.floor((low - span) / step), np.ceil((high + span) / step)
    return [float(step * number) for number in np.arange(max(first, 1), last + 1)]


def plain(digit: int, power: int) -> str:
    """digit * 10**power as a plain number while that is short, else as a power of ten."""
    if -3 <= power <= 4:
        return f"{digit * 10.0**power:g}"
    return f"{'' if digit == 1 else f'{digit}·'}10<sup>{power}</sup>"
