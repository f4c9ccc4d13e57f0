"""The controls that ipywidgets lacks: several choices at once, and a size with a sign."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from lnlab.nn.table1 import Statistics
from lnlab.panels import controls
from lnlab.panels.controls import SignedLog as SignedLog
from lnlab.training.runs import Run

WIDTH = "84px"
"""The width of every description, so that the controls stand in line."""

COLUMN = {"flex": "none", "width": "484px"}


def Chips(options, *, description: str, most: int) -> Any:
    return controls.Chips(description, options, most)


def put(controls: Mapping[str, Any], description: str, text: str) -> str:
    """Set the slider with this description to the number that was typed beside it.

    A slider stands at its own places alone, tenths of a decade or values of a list: what is
    returned says so where the number is none of them, and is empty where it is.

    Raises:
        ValueError: the text is no number, or one that the slider does not reach.
    """
    for control in controls.values():
        slider = getattr(control, "size", control)
        if getattr(slider, "description", None) == description:
            number, signed = typed(text, description), slider is not control
            size = abs(number) if signed else number
            low, high = reach(slider)
            if not low <= size <= high:
                ends = f"{low:.10g} to {high:.10g}{' in size' if signed else ''}"
                raise ValueError(f"{description} is {text}: give {ends}.")
            near = nearest(slider, size)
            control.value = math.copysign(near, number) if signed else near
            digits = 3 if isinstance(slider, ipywidgets.FloatLogSlider) else 10
            stands, asked = (f"{value:.{digits}g}" for value in (control.value, number))
            if stands != asked:
                where = "the place of its slider nearest to"
                return f"{description} stands at {stands}, {where} {text}."
    return ""


def reach(slider: Any) -> tuple[float, float]:
    """The least and the largest number of a slider: a logarithmic one, of a list, or of whole
    numbers."""
    if isinstance(slider, ipywidgets.SelectionSlider):
        values = [value for _, value in slider.options]
        return min(values), max(values)
    if isinstance(slider, ipywidgets.FloatLogSlider):
        return slider.base**slider.min, slider.base**slider.max
    return slider.min, slider.max


def nearest(slider: Any, size: float) -> float:
    """The place of a slider that is nearest to a size."""
    if isinstance(slider, ipywidgets.SelectionSlider):
        return min((value for _, value in slider.options), key=lambda v: abs(v - size))
    if not isinstance(slider, ipywidgets.FloatLogSlider):
        return round(size)
    step = float(slider.step or 0.1)
    steps = round((math.log(size, slider.base) - slider.min) / step)
    return float(slider.base ** (slider.min + steps * step))


def typed(text: str, name: str) -> float:
    """The number that somebody typed, a comma taken for the decimal point that it is.

    Raises:
        ValueError: it is none, or a comma may as well stand between thousands.
    """
    plain = text.strip().replace("−", "-")
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", plain):
        raise ValueError(
            f"{name} is {text!r}: write {plain.replace(',', '')} without the comma."
        )
    try:
        number = float(plain.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {text!r}: type a number, such as 2.5.")
    return number


def log_slider(description: str, smallest: int, largest: int) -> ipywidgets.FloatLogSlider:
    """A slider from 10**smallest to 10**largest in tenths of a decade."""
    return ipywidgets.FloatLogSlider(
        value=1.0,
        min=smallest,
        max=largest,
        step=0.1,
        description=description,
        readout_format=".3r",
        style={"description_width": WIDTH},
        layout={"width": "376px"},
    )


def choice_slider(
    description: str, options: Sequence[tuple[str, Any]]
) -> ipywidgets.SelectionSlider:
    """A slider over the given values, each with what it is called."""
    return ipywidgets.SelectionSlider(
        options=options,
        description=description,
        style={"description_width": WIDTH},
        layout={"width": "376px"},
    )


def choice(description: str, options: Sequence[tuple[str, Any]]) -> ipywidgets.Dropdown:
    """A list of values to choose from, each with what it is called."""
    return ipywidgets.Dropdown(
        options=options,
        description=description,
        style={"description_width": WIDTH},
        layout={"width": "476px"},  # what a column has
    )


def in_columns(*columns: Sequence[ipywidgets.DOMWidget]) -> ipywidgets.Box:
    """Controls in columns side by side, below each other where a window is narrow."""
    return ipywidgets.Box(
        [ipywidgets.VBox([*map(explained, column)], layout=COLUMN) for column in columns],
        layout={"flex_flow": "row wrap"},
    )


def explained(control: Any) -> ipywidgets.VBox:
    """A control, and below it room for the reason for which it cannot be moved."""
    control.why = ipywidgets.Label(layout={"display": "none", "margin": f"-4px 0 2px {WIDTH}"})
    control.why.add_class("lnlab-why")
    return ipywidgets.VBox([control, control.why])


def lock(control: Any, why: str) -> None:
    """Grey a control out and say why; with no reason, let it be moved again.

    Args:
        control: one that stands in :func:`explained`.
        why: the reason, in a few words.
    """
    for part in getattr(control, "parts", (control,)):
        part.disabled = bool(why)
    control.why.value = why
    control.why.layout.display = "" if why else "none"


def onward(control: Any) -> None:
    """Move a logarithmic slider on by a fifth of a decade, from its end to its start.

    Raises:
        ValueError: the slider cannot be moved.
    """
    slider = getattr(control, "size", control)
    if slider.disabled:
        raise ValueError(f"{slider.description} stands still: {control.why.value}.")
    size = nearest(slider, slider.value * 10**0.2)
    slider.value = size if size <= slider.base**slider.max else slider.base**slider.min


# Choices that fields of a panel's state have.


MODES = {statistics.name.lower(): statistics for statistics in Statistics}
"""The sources of statistics over cases, by name."""


def one_of(name: str, value: object, allowed: Collection) -> None:
    """Raise ValueError unless ``value`` is among ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: choose from {', '.join(map(str, allowed))}.")


# The pictures that trainings kept of what they attended to, as panels read them.


def looks(
    runs: Mapping[str, Run], who: str
) -> tuple[dict[str, pd.DataFrame], dict[str, dict[int, dict[str, np.ndarray]]]]:
    """The metrics of each run, and its pictures by update, both of its first seed.

    Args:
        runs: by name.
        who: was trained: "readers".

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """
    if not runs:
        raise ValueError(f"there are no runs: train some {who} first.")
    rows, kept = {}, {}
    for name, run in runs.items():
        metrics: Any = run.metrics()
        seed = int(metrics.seed.iloc[0])
        kept[name] = run.pictures(seed)
        if not kept[name]:
            raise ValueError(f"{name}: this run kept no attention, train it again.")
        rows[name] = metrics[metrics.seed == seed].reset_index(drop=True)
    return rows, kept
