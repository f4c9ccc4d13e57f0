"""The controls of panels: those of ipywidgets, and several choices at once."""

from collections.abc import Iterable, Mapping
from typing import Any

import ipywidgets
import numpy as np
import traitlets

from lnlab.nn.table1 import BatchNormStatisticsSource

WIDTH = "84px"
"""The width of every control's label: equal widths align the controls."""

LABELLED: dict[str, Any] = {"style": {"description_width": WIDTH}, "layout": {"width": "auto"}}

MODES = {statistics.name.lower(): statistics for statistics in BatchNormStatisticsSource}
"""The sources of statistics over examples, by name: batch, frozen and recomputed."""

Options = Mapping[str, Any] | Iterable[Any]
"""The choices of a control: a mapping from labels to values, or values shown as they are."""


class MultiSelectButtons(ipywidgets.HBox):
    """Buttons of which up to ``max_chosen`` are pressed; ``value`` has them in that order."""

    value = traitlets.Tuple()

    def __init__(self, description: str, options: Iterable[str], max_chosen: int) -> None:
        self.max_chosen, self.description = max_chosen, description
        layout = {"width": "auto", "flex": "none"}
        self.buttons = {
            name: ipywidgets.ToggleButton(description=name, layout=layout) for name in options
        }
        label = ipywidgets.Label(description, layout={"width": WIDTH, "flex": "none"})
        self.full = ipywidgets.Label(layout={"flex": "none"})
        buttons = [*self.buttons.values(), self.full]
        super().__init__([label, ipywidgets.Box(buttons, layout={"flex_flow": "row wrap"})])
        self.add_class("lnlab-chips")
        for button in self.buttons.values():
            button.observe(self._on_button_pressed, "value")
        self.observe(self._show_choice_on_buttons, "value")

    @traitlets.validate("value")
    def _validate_choice(self, proposal: dict[str, Any]) -> tuple[str, ...]:
        value = tuple(proposal["value"])
        for name in value:
            check_option(self.description, name, self.buttons)
        if len(value) > self.max_chosen:
            raise ValueError(
                f"{len(value)} {self.description} are too many: "
                f"choose at most {self.max_chosen}."
            )
        return value

    def _on_button_pressed(self, change: dict[str, Any]) -> None:
        name, pressed = change["owner"].description, change["new"]
        if pressed != (name in self.value):
            others = tuple(old for old in self.value if old != name)
            self.value = (*others, name) if pressed else others

    def _show_choice_on_buttons(self, _: object) -> None:
        full = self.max_chosen <= len(self.value) < len(self.buttons)
        words = f"{self.max_chosen} at most: deselect one to choose another"
        self.full.value = words if full else ""
        for name, button in self.buttons.items():
            button.value = name in self.value
            button.disabled = full and name not in self.value


def log_slider(
    description: str, smallest_power: int, largest_power: int
) -> ipywidgets.FloatLogSlider:
    """Return a slider from 10**smallest_power to 10**largest_power in tenths of a decade."""
    return ipywidgets.FloatLogSlider(
        value=1.0, min=smallest_power, max=largest_power, step=0.1, description=description,
        readout_format=".3r", **LABELLED,
    )  # fmt: skip


def options_slider(
    description: str, options: Options, *, start_at_last: bool = False
) -> ipywidgets.SelectionSlider:
    """Return a slider over the given values, which starts at the first or the last."""
    labels = label_options(options)
    index = len(labels) - 1 if start_at_last else 0
    return ipywidgets.SelectionSlider(
        options=labels, index=index, description=description, **LABELLED
    )


def dropdown(description: str, options: Options) -> ipywidgets.Dropdown:
    """Return a list of values to choose from."""
    return ipywidgets.Dropdown(
        options=label_options(options), description=description, **LABELLED
    )


def text_box(description: str, suggestions: Iterable[str]) -> ipywidgets.Combobox:
    """Return a field to type in, with texts to choose from, the first of which it has."""
    texts = [*dict.fromkeys(suggestions)]
    return ipywidgets.Combobox(
        value=texts[0], options=texts, description=description, continuous_update=False,
        placeholder=f"type a {description}", **LABELLED,
    )  # fmt: skip


def label_options(options: Options) -> list[tuple[str, Any]]:
    """Return pairs of a label and its value; two labels may be equal."""
    if isinstance(options, Mapping):
        return [*options.items()]
    return [(f"{v:g}" if isinstance(v, float) else str(v), v) for v in options]


def play_buttons(slider: Any, step: int, interval_ms: int) -> ipywidgets.Play:
    """Return the buttons that move a slider from end to end, a step each ``interval_ms``."""
    every = possible_slider_values(slider)
    play = ipywidgets.Play(min=0, max=len(every) - 1, step=step, interval=interval_ms)
    play.observe(lambda change: setattr(slider, "value", every[change["new"]]), "value")
    traitlets.dlink((slider, "disabled"), (play, "disabled"))
    return play


# The values that controls can have.


def possible_slider_values(slider: Any) -> list[Any]:
    """Return every value that a slider between two numbers can have."""
    if isinstance(slider, ipywidgets.FloatLogSlider):
        exponents = slider.max - slider.min
        count = round(exponents / slider.step) + 1  # pyright: ignore[reportOperatorIssue]
        return np.logspace(slider.min, slider.max, count, base=slider.base).tolist()
    return [*range(slider.min, slider.max + 1)]


def control_values_by_label(
    control: Any, value: Any, values: Iterable[Any] = ()
) -> dict[str, Any]:
    """Return the values that a control can have where no kernel runs, by their labels.

    These are ``values``, or all that it can be set to, and ``value`` among them: in place of a
    number that is almost the same, before texts.
    """
    if isinstance(control, ipywidgets.FloatLogSlider):
        values = values or possible_slider_values(control)
        others = [each for each in values if abs(each / value - 1) > 0.01]
        return {
            format_three_significant_digits(each): each for each in sorted([*others, value])
        }
    if isinstance(control, ipywidgets.Combobox | MultiSelectButtons):
        options = getattr(control, "options", ())
        texts = dict.fromkeys((value, *(values or options)))
        return {text if isinstance(text, str) else " · ".join(text): text for text in texts}
    return dict(control.options)


def format_three_significant_digits(value: float) -> str:
    """Return a number rounded to three digits, written out: 10000 and 0.0001."""
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def check_control_value(name: str, value: Any, control: Any) -> None:
    """Raise ValueError unless a control can have a value."""
    if isinstance(control, MultiSelectButtons):
        control._validate_choice({"value": value})
    elif hasattr(control, "min"):
        every = possible_slider_values(control)
        if not every[0] <= value <= every[-1]:
            raise ValueError(
                f"{name} is {value}: give a number from {every[0]:.10g} to {every[-1]:.10g}."
            )
    elif not isinstance(control, ipywidgets.Text):
        check_option(name, value, [option for _, option in control.options])


def check_option(name: str, value: object, allowed: Iterable[Any]) -> None:
    """Raise ValueError unless ``value`` is among ``allowed``."""
    if value not in [*allowed]:
        raise ValueError(f"{name} is {value!r}: choose from {', '.join(map(str, allowed))}.")
