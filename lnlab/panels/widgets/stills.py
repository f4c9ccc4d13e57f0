"""The figures of a panel where no kernel runs, with or without something to set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lnlab.figures.playable import Choice, Frame, playable
from lnlab.figures.style import titled
from lnlab.panels.widgets.view import View


@dataclass(frozen=True)
class Settable:
    """A control of a panel that is there without a kernel too.

    Attributes:
        name: what stands beside it.
        values: what it can be set to, by words, in order.
        at: the words of the value that the panel has.
        put: a state with another value.
        slides: whether the values are places on a scale, else a list.
    """

    name: str
    values: Mapping[str, Any]
    at: str
    put: Callable[[Any, Any], Any]
    slides: bool = True

    @property
    def choice(self) -> Choice:
        """The choice as a reader sees it."""
        words = list(self.values)
        return Choice(self.name, words, words.index(self.at), self.slides)


def sizes(values: Sequence[float] | np.ndarray, here: float) -> dict[str, float]:
    """Numbers by their first three digits, in order, with ``here`` in place of its equals."""
    kept = [value for value in values if abs(value / here - 1) > 0.01]
    return {digits(value): value for value in sorted([*kept, here])}


def digits(value: float) -> str:
    """The first three digits of a number, written out: 10000 and 0.0001."""
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def still(figures: Mapping[str, go.Figure], view: View) -> list[go.Figure]:
    """The figures of one state, each with its title and the sentence of the state."""
    return [
        titled(figure, view.titles[name], view.sentence) for name, figure in figures.items()
    ]


def played(
    figures: Mapping[str, go.Figure],
    state: Any,
    settings: Sequence[Settable],
    look: Callable[[Any], View],
) -> list[go.Figure]:
    """The figures of a state, each with what its panel shows at every stop of the settings.

    Args:
        figures: of ``state``, by the names of the plots.
        state: the panel's.
        settings: what can be set.
        look: the view of a state; each is looked at once.
    """
    frames: dict[str, dict[tuple[int, ...], Frame]] = {name: {} for name in figures}
    for place in product(*(range(len(setting.values)) for setting in settings)):
        there = state
        for setting, stop in zip(settings, place, strict=True):
            there = setting.put(there, list(setting.values.values())[stop])
        view = look(there)
        for name in figures:
            late = view.late.get(name)
            drawing = late() if late else view.drawings[name]
            frames[name][place] = Frame(view.titles[name], view.sentence, *drawing)
    choices = [setting.choice for setting in settings]
    return [playable(figure, choices, frames[name]) for name, figure in figures.items()]
