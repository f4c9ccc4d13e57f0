"""Losses to be drawn, and what is printed on each picture of them.

On each stands where BatchNorm's statistics come from at its points, without which nobody can
know what was drawn.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lnlab.figures.style.palette import INK
from lnlab.figures.style.text import literal

LOSS = "loss (nats)"

LOWEST, HIGHEST = 0.02, 100.0
"""The ends of the axis of :func:`cuts` and :func:`plane`, in nats.

They are the same whatever is drawn: on an axis that follows its losses, every bowl looks
equally steep.
"""
HEIGHTS = float(np.log10(LOWEST)), float(np.log10(HIGHEST))
"""The same in powers of 10."""


def outside(landscapes: Sequence["Landscape"]) -> str:
    """Return a sentence that says which losses lie outside the axis; empty where none do."""
    losses = np.concatenate([np.asarray(each.losses).ravel() for each in landscapes])
    ends = {
        f"below {LOWEST:g}": (losses < LOWEST).any(),
        f"above {HIGHEST:g}": (losses > HIGHEST).any(),
    }
    there = " and ".join(end for end, is_there in ends.items() if is_there)
    return f"What is {there} nats lies outside the picture." if there else ""


class Named(Protocol):
    """A member of an enumeration."""

    @property
    def value(self) -> str: ...


class Landscape(Protocol):
    """A landscape as it is drawn: :class:`lnlab.probes.loss.landscape.Surface`."""

    @property
    def at(self) -> Sequence[Any]: ...

    @property
    def losses(self) -> Any: ...

    @property
    def centre(self) -> float: ...

    @property
    def statistics(self) -> Named: ...


def stamp(landscapes: Sequence[Landscape]) -> str:
    """The sources of statistics over cases, each that is there once."""
    values = dict.fromkeys(landscape.statistics.value for landscape in landscapes)
    return f"Statistics over cases: {'; '.join(values)}."


def reach(landscapes: Sequence[Landscape] | Any) -> tuple[float, float]:
    """The least and the greatest loss that is drawn, in powers of 10."""
    losses = np.concatenate([np.asarray(each.losses).ravel() for each in landscapes])
    losses = losses[np.isfinite(losses) & (losses > 0)]
    if not len(losses):
        return -1.0, 1.0
    low, high = np.log10(losses.min()), np.log10(losses.max())
    return float(low), float(max(high, low + 0.1))


def subtitled(title: str, landscapes: Sequence[Landscape]) -> str:
    return f"{literal(title)}<br><sup>{literal(stamp(landscapes))}</sup>"


def stamped(
    landscape: Landscape, title: str, over_cases: bool, more: str = ""
) -> dict[str, Any]:
    """A title, the stamp, and what else there is to say of it.

    Where no normalizer of the net is over cases, it says so.
    """
    where = literal(stamp([landscape])) if over_cases else "No statistics over cases."
    return {
        "text": f"<b>{title}</b> &nbsp; {where} {literal(more)}".strip(),
        "x": 0,
        "y": 1,
        "yshift": 10,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": INK, "size": 14},
    }
