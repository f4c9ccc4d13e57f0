"""The controls of panels: those of ipywidgets, and several choices at once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import ipywidgets
import numpy as np
import traitlets

from lnlab.nn.table1 import Statistics

WIDTH = "84px"
"""The width of every description, so that the controls stand in line."""

COLUMN = {"flex": "none", "width": "484px"}
LABELLED = {"description_width": WIDTH}
NARROW: dict[str, Any] = {"style": LABELLED, "layout": {"width": "376px"}}
"""A slider: the number that it has stands beside it."""
WIDE: dict[str, Any] = {"style": LABELLED, "layout": {"width": "476px"}}
"""A list or a text box: the whole width of a column."""

MODES = {statistics.name.lower(): statistics for statistics in Statistics}
"""The sources of statistics over cases, by name."""

Options = Mapping[str, Any] | Iterable[Any]
"""Values by their labels, or values that are their own labels."""


class Chips(ipywidgets.HBox):
    """Buttons of which up to ``max_chosen`` are pressed; ``value`` has them in that order."""

    value = traitlets.Tuple()

    def __init__(self, description: str, options: Iterable[str], max_chosen: int) -> None:
        self.max_chosen, self.description = max_chosen, description
        layout = {"width": "auto", "flex": "none"}
        self.buttons = {
            name: ipywidgets.ToggleButton(description=name, layout=layout) for name in options
        }
        label = ipywidgets.Label(description, layout={"width": WIDTH, "flex": "none"})
        self.why = ipywidgets.Label(layout={"flex": "none"})
        buttons = [*self.buttons.values(), self.why]
        super().__init__([label, ipywidgets.Box(buttons, layout={"flex_flow": "row wrap"})])
        self.add_class("lnlab-chips")
        for button in self.buttons.values():
            button.observe(self._on_button, "value")
        self.observe(self._update_buttons, "value")

    @traitlets.validate("value")
    def _check(self, proposal: dict[str, Any]) -> tuple[str, ...]:
        value = tuple(proposal["value"])
        for name in value:
            check_option(self.description, name, self.buttons)
        if len(value) > self.max_chosen:
            raise ValueError(
                f"{len(value)} {self.description}: choose at most {self.max_chosen}."
            )
        return value

    def _on_button(self, change: dict[str, Any]) -> None:
        name, pressed = change["owner"].description, change["new"]
        if pressed != (name in self.value):
            others = tuple(old for old in self.value if old != name)
            self.value = (*others, name) if pressed else others

    def _update_buttons(self, _: object) -> None:
        full = self.max_chosen <= len(self.value) < len(self.buttons)
        self.why.value = (
            f"{self.max_chosen} at most: release one to choose another" if full else ""
        )
        for name, button in self.buttons.items():
            button.value = name in self.value
            button.disabled = full and name not in self.value
            button.tooltip = self.why.value if button.disabled else ""


def log_slider(description: str, smallest: int, largest: int) -> ipywidgets.FloatLogSlider:
    """Return a slider from 10**smallest to 10**largest in tenths of a decade."""
    return ipywidgets.FloatLogSlider(
        value=1.0, min=smallest, max=largest, step=0.1, description=description,
        readout_format=".3r", **NARROW,
    )  # fmt: skip


def sign_buttons(description: str) -> ipywidgets.ToggleButtons:
    """Return two buttons for the sign of a number: 1 or -1."""
    return ipywidgets.ToggleButtons(
        options=[(f"{description} > 0", 1), (f"{description} < 0", -1)],
        style={"button_width": "60px"},
        layout={"margin": f"2px 2px 2px {WIDTH}", "width": "auto"},
    )


def choice_slider(description: str, options: Options) -> ipywidgets.SelectionSlider:
    """Return a slider over the given values."""
    labelled = [*label_options(options).items()]
    return ipywidgets.SelectionSlider(options=labelled, description=description, **NARROW)


def choice(description: str, options: Options) -> ipywidgets.Dropdown:
    """Return a list of values to choose from."""
    labelled = [*label_options(options).items()]
    return ipywidgets.Dropdown(options=labelled, description=description, **WIDE)


def text_box(description: str, suggestions: Iterable[str]) -> ipywidgets.Combobox:
    """Return a field to type in, with texts to choose from."""
    return ipywidgets.Combobox(
        options=[*dict.fromkeys(suggestions)], description=description,
        continuous_update=False, placeholder=f"type a {description}", **WIDE,
    )  # fmt: skip


def label_options(options: Options) -> dict[str, Any]:
    """Return values by their labels."""
    if isinstance(options, Mapping):
        return dict(options)
    values = [*options]
    texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return dict(zip(make_distinct(texts), values, strict=True))


def make_distinct(labels: Iterable[str]) -> list[str]:
    """Return labels that all differ: "five", "five (2)"; no option hides another."""
    seen: Counter[str] = Counter()
    different = []
    for label in labels:
        seen[label] += 1
        different.append(f"{label} ({seen[label]})" if seen[label] > 1 else label)
    return different


# The values that controls can have.


def is_slider(control: Any) -> bool:
    """Return True if the values of a control are places on a scale."""
    return isinstance(control, ipywidgets.SelectionSlider | ipywidgets.FloatLogSlider)


def slider_values(slider: Any) -> list[Any]:
    """Return every value that a slider can have."""
    if isinstance(slider, ipywidgets.SelectionSlider):
        return [value for _, value in slider.options]
    if isinstance(slider, ipywidgets.FloatLogSlider):
        count = round((slider.max - slider.min) / slider.step) + 1
        return np.logspace(slider.min, slider.max, count, base=slider.base).tolist()
    return [*range(slider.min, slider.max + 1)]


def list_stops(control: Any, value: Any) -> dict[str, Any]:
    """Return what a control can be set to, by words, ``value`` among it."""
    if isinstance(control, ipywidgets.FloatLogSlider):
        return label_sizes(slider_values(control), value)
    if isinstance(control, ipywidgets.Combobox):
        return {text: text for text in dict.fromkeys((value, *control.options))}
    return dict(control.options)


def label_sizes(values: Iterable[float], value: float) -> dict[str, float]:
    """Return numbers by their first three digits, with ``value`` in place of its equals."""
    others = [each for each in values if abs(each / value - 1) > 0.01]
    return {three_digits(each): each for each in sorted([*others, value])}


def three_digits(value: float) -> str:
    """Return the first three digits of a number, written out: 10000 and 0.0001."""
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def check(name: str, value: Any, control: Any) -> None:
    """Raise ValueError unless a control can have a value."""
    if isinstance(control, Chips):
        control._check({"value": value})
    elif hasattr(control, "min"):
        every = slider_values(control)
        if not every[0] <= value <= every[-1]:
            raise ValueError(f"{name} is {value}: give {every[0]:.10g} to {every[-1]:.10g}.")
    elif not isinstance(control, ipywidgets.Text | ipywidgets.Combobox):
        check_option(name, value, [option for _, option in control.options])


def check_option(name: str, value: object, allowed: Iterable[Any]) -> None:
    """Raise ValueError unless ``value`` is among ``allowed``."""
    if value not in [*allowed]:
        raise ValueError(f"{name} is {value!r}: choose from {', '.join(map(str, allowed))}.")


# Arranging and moving them.


def arrange(controls: Iterable[Any], columns: int) -> ipywidgets.VBox:
    """Return the controls in columns, below each other where a window is narrow.

    Chips stand above the others, over the whole width.
    """
    others = [control for control in controls if not isinstance(control, Chips)]
    half = len(others) // 2 if columns == 2 else 0
    parts = [part for part in (others[:half], others[half:]) if part]
    boxes = [ipywidgets.VBox([*map(add_reason, part)], layout=COLUMN) for part in parts]
    chips = [control for control in controls if isinstance(control, Chips)]
    return ipywidgets.VBox([*chips, ipywidgets.Box(boxes, layout={"flex_flow": "row wrap"})])


def add_reason(control: Any) -> ipywidgets.VBox:
    """Return a control, and below it room for the reason why it cannot be moved."""
    control.why = ipywidgets.Label(layout={"display": "none", "margin": f"-4px 0 2px {WIDTH}"})
    control.why.add_class("lnlab-why")
    return ipywidgets.VBox([control, control.why])


def lock(control: Any, why: str) -> None:
    """Grey a control out and say why; with no reason, let it be moved again."""
    control.disabled = bool(why)
    control.why.value = why
    control.why.layout.display = "" if why else "none"


def player(slider: Any, step: int, interval: int) -> ipywidgets.Play:
    """Return the buttons that move a slider from end to end, a step each ``interval`` ms."""
    every = slider_values(slider)
    play = ipywidgets.Play(min=0, max=len(every) - 1, step=step, interval=interval)
    play.observe(lambda change: setattr(slider, "value", every[change["new"]]), "value")
    traitlets.dlink((slider, "disabled"), (play, "disabled"))
    return play
