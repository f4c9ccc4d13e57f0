"""The controls that ipywidgets lacks: several choices at once, and a size with a sign."""

from collections.abc import Sequence
from typing import Any

import ipywidgets
import traitlets

WIDTH = "84px"
"""Of every description, so that the controls stand in line."""

COLUMN = {"flex": "none", "width": "484px"}


class Chips(ipywidgets.HBox):
    """Buttons of which up to ``most`` are pressed; ``value`` has them in that order."""

    value = traitlets.Tuple()

    def __init__(self, options: Sequence[str], *, description: str, most: int) -> None:
        self.most = most
        self.buttons = {
            name: ipywidgets.ToggleButton(
                description=name, layout={"width": "auto", "flex": "none"}
            )
            for name in options
        }
        label = ipywidgets.Label(description, layout={"width": WIDTH, "flex": "none"})
        wrapped = ipywidgets.Box([*self.buttons.values()], layout={"flex_flow": "row wrap"})
        super().__init__([label, wrapped])
        self.add_class("lnlab-chips")
        for button in self.buttons.values():
            button.observe(self._pressed, "value")
        self.observe(self._show, "value")

    @traitlets.validate("value")
    def _known(self, proposal: dict[str, Any]) -> tuple[str, ...]:
        value = tuple(proposal["value"])
        unknown = [name for name in value if name not in self.buttons]
        if unknown:
            names = ", ".join(self.buttons)
            raise ValueError(f"{unknown[0]!r} is no choice: choose from {names}.")
        if len(value) > self.most:
            raise ValueError(f"{len(value)} choices: choose at most {self.most}.")
        return value

    def _pressed(self, change: dict[str, Any]) -> None:
        name, pressed = change["owner"].description, change["new"]
        if pressed != (name in self.value):
            others = tuple(old for old in self.value if old != name)
            self.value = (*others, name) if pressed else others

    def _show(self, _: object) -> None:
        full = len(self.value) >= self.most
        for name, button in self.buttons.items():
            button.value = name in self.value
            button.disabled = full and name not in self.value


class SignedLog(ipywidgets.HBox):
    """A number other than 0: its size on a logarithmic slider, its sign on two buttons."""

    value = traitlets.Float(1.0)

    def __init__(self, description: str, smallest: int, largest: int) -> None:
        self.size = log_slider(description, smallest, largest)
        self.sign: Any = ipywidgets.ToggleButtons(
            options=[("+", 1), ("−", -1)],
            tooltips=[f"{description} > 0", f"{description} < 0"],
            style={"button_width": "44px"},
            layout={"width": "auto"},
        )
        super().__init__([self.size, self.sign])
        self._held = False
        for part in (self.size, self.sign):
            part.observe(self._moved, "value")
        self.observe(self._show, "value")

    def _moved(self, _: object) -> None:
        if not self._held:
            self.value = self.sign.value * self.size.value

    def _show(self, _: object) -> None:
        if self.value == self.sign.value * self.size.value:
            return
        self._held = True
        try:
            self.sign.value = 1 if self.value > 0 else -1
            self.size.value = abs(self.value)
        finally:
            self._held = False


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
        layout={"width": "376px"},
    )


def in_columns(*columns: Sequence[ipywidgets.DOMWidget]) -> ipywidgets.Box:
    """Controls in columns side by side, below each other where a window is narrow."""
    return ipywidgets.Box(
        [ipywidgets.VBox(column, layout=COLUMN) for column in columns],
        layout={"flex_flow": "row wrap"},
    )
