"""A panel: frozen settings, controls for them, and a pure function that draws them."""

import json
import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, cast

import anywidget
import ipywidgets
import plotly.graph_objects as go
import torch
import traitlets
from IPython.display import display

from lnlab.figures.style import add_title
from lnlab.panels.controls import check_control_value, control_values_by_label
from lnlab.panels.live_plot import LivePlot, to_plotly_dict
from lnlab.panels.playable import Figure, PageControl, TitledFigure, figure_with_page_controls
from lnlab.threads import in_one_thread_if_small

HERE = Path(__file__).parent
T = TypeVar("T")
# Any, not None: what draws reads the value that the panel has filled in
FirstIfNone = T | Any
"""A setting of a panel that takes the first value of its control if it is None."""
LastIfNone = T | Any
"""A setting of a panel that takes the last value of its control if it is None."""
LEAST_WIDTH = 700
"""The least width of a plot in pixels: it fits beside the file browser of a JupyterLab in a
window of 1280 pixels."""
NARROW_WIDTH = 340
"""That of a plot whose layout has another for phones: in ``meta``, under ``narrow``, the width
below which it holds, and its ``layout``, attributes that it has otherwise."""
LIVE = "Run this cell for live controls."
PLOTLY = "application/vnd.plotly.v1+json"


class PanelFooter(anywidget.AnyWidget):
    """The sentence, the error, Reset and the command of a panel."""

    _esm = HERE / "panel.js"
    _css = HERE / "panel.css"
    sentence = traitlets.Unicode().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    command = traitlets.Unicode().tag(sync=True)
    num_answers = traitlets.Int().tag(sync=True)
    """The number of changes of controls answered so far: when it grows, the page knows that the
    kernel has answered."""


class Panel(ipywidgets.VBox):
    """One or more plots with controls that change them.

    The kernel may call back from another thread. ``draw`` is therefore called under a lock and
    without gradients, and must not change torch's global settings or random state. The panel
    shows the errors that it raises, because JupyterLab would not.

    If it runs headless (``LNLAB_HEADLESS`` is set), it leaves a figure with controls that work
    without a kernel. In JupyterLab it leaves, hidden beside the live panel, a figure of the
    present settings: this is what a saved notebook shows when it is opened again.

    Args:
        settings: the settings at the start, which Reset restores; a frozen dataclass. A field
            that is None takes the value of its control.
        controls: a widget with a ``value`` for each field of the settings, in the order of the
            page. A widget under another name is shown among them without a field.
        draw: returns, from settings, a figure, its title and a sentence about it; it must not
            have side effects.
        alt: a description of each plot for readers who cannot see it, by the name of the plot.
            The first is that of ``draw``.
        deferred: plots that need not follow a slider while it moves, by name: functions that
            return, from settings, a figure and its title. They are drawn when nothing has moved
            for a moment, or at once if no page shows the panel.
        on_page: the fields that can be changed where no kernel runs.
        stops: the values that a field can have there, if not all of those of its control.
        locks: for a field, a function that returns, from settings, why its control cannot be
            moved, or "" if it can.
        notebook: the number of the notebook whose parameter ``panel`` takes the settings; if it
            is empty, there is none and so no command.
        suggestions: things to try: texts with the settings that each changes. They become
            buttons above the controls, and also on a page if its controls reach the settings.

    Raises:
        ValueError: if a control cannot have the value of its field.
    """

    @in_one_thread_if_small
    def __init__(
        self,
        settings: Any,
        controls: Mapping[str, Any],
        draw: Callable[[Any], TitledFigure],
        *,
        alt: Mapping[str, str],
        deferred: Mapping[str, Callable[[Any], tuple[Figure, str]]] | None = None,
        on_page: Sequence[str] = (),
        stops: Mapping[str, Sequence[Any]] | None = None,
        locks: Mapping[str, Callable[[Any], str]] | None = None,
        notebook: str = "",
        suggestions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.controls = {field.name: controls[field.name] for field in fields(settings)}
        self.initial_settings = fill_missing_settings(settings, self.controls)
        self.defaults, self.notebook, self.name = type(settings)(), notebook, next(iter(alt))
        self.footer = PanelFooter()
        self._draw, self._deferred, self._locks = draw, deferred or {}, locks or {}
        self._on_page, self._stops = on_page, stops or {}
        self.suggestions = {
            text: replace(self.initial_settings, **settings)
            for text, settings in (suggestions or {}).items()
        }
        self._lock, self._held, self._on_a_page = threading.RLock(), False, False
        self._last: Any = None
        with torch.no_grad():
            frames = self.draw_all(self.initial_settings)
        self.plots = {
            name: LivePlot(frame.figure, alt[name], least_width(frame.figure["layout"]))
            for name, frame in frames.items()
        }
        self.reasons = {name: ipywidgets.Label() for name in self._locks}
        arrangement = ipywidgets.VBox(
            [*self._suggestion_box_if_any(), self._arrange_controls(controls)]
        )
        arrangement.add_class("lnlab-controls")
        super().__init__(children=[arrangement, self.footer, *self.plots.values()])
        self.add_class("lnlab-panel")
        self._move_controls(self.initial_settings)
        self._redraw()
        for control in self.controls.values():
            control.observe(self._on_control_changed, "value")
        self.footer.on_msg(self._on_page_message)

    def _suggestion_box_if_any(self) -> list[ipywidgets.VBox]:
        """Return a box of buttons, one for each suggestion, which applies its settings."""
        buttons = []
        for text, settings in self.suggestions.items():
            button = ipywidgets.Button(description=text)
            button.on_click(lambda _, chosen=settings: setattr(self, "settings", chosen))
            buttons.append(button)
        box = ipywidgets.VBox([ipywidgets.Label("Things to try:"), *buttons])
        box.add_class("lnlab-suggestions")
        return [box] if buttons else []

    def _arrange_controls(self, controls: Mapping[str, Any]) -> ipywidgets.VBox:
        """Return the controls, below each the reason why it cannot be moved."""
        cells = []
        for name, control in controls.items():
            reason = self.reasons.get(name)
            cells.append(ipywidgets.VBox([control, reason] if reason else [control]))
        columns = ipywidgets.VBox(cells)
        columns.add_class("lnlab-columns")
        return columns

    def draw_all(self, settings: Any) -> dict[str, TitledFigure]:
        """Return the figure, the title and the sentence of each plot, by its name."""
        first = self._draw(settings)
        deferred = {
            name: TitledFigure(*make(settings), first.sentence)
            for name, make in self._deferred.items()
        }
        return {self.name: first} | deferred

    @property
    def settings(self) -> Any:
        """The settings that the controls show; assigning others moves them and redraws."""
        values = {
            name: round_as_slider_shows(control.value)
            for name, control in self.controls.items()
        }
        return replace(self.initial_settings, **values)

    @settings.setter
    def settings(self, settings: Any) -> None:
        with self._lock:
            self._move_controls(settings)
            self._call_and_show_error(self._redraw)

    def reset(self) -> None:
        """Move every control to where it started, and turn every surface back."""
        self.settings = self.initial_settings
        for plot in self.plots.values():
            plot.reset_camera()

    @property
    def notebook_shell_command(self) -> str:
        """The command that runs the notebook with these settings; empty if none takes them."""
        if not self.notebook:
            return ""
        # a panel that starts elsewhere needs even an empty dictionary
        if self.settings == self.initial_settings == self.defaults:
            return f"lnlab run {self.notebook}"
        defaults, settings = asdict(self.defaults), asdict(self.settings)
        settings = {name: value for name, value in settings.items() if value != defaults[name]}
        return f"lnlab run {self.notebook} -p panel {shlex.quote(json.dumps(settings))}"

    def _move_controls(self, settings: Any) -> None:
        self._held = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(settings, name)
        finally:
            self._held = False

    def _on_control_changed(self, _: object) -> None:
        with self._lock:
            if self._held:
                return
            # a browser's power of ten may differ in its last bit, and comes back as a move
            self._call_and_show_error(self._redraw if self.settings != self._last else None)

    def _call_and_show_error(self, action: Callable[[], None] | None) -> None:
        """Answer, or say here what went wrong: JupyterLab drops what a callback raises."""
        with self._lock:
            try:
                if action:
                    action()
            except Exception as error:
                self.footer.error = f"{type(error).__name__}: {error}"
            self.footer.num_answers += 1

    @in_one_thread_if_small
    @torch.no_grad()
    def _redraw(self) -> None:
        self._last = self.settings
        for field, why in self._locks.items():
            self.reasons[field].value = why(self._last)
            self.controls[field].disabled = bool(self.reasons[field].value)
        figure, _, sentence = self._draw(self._last)
        self.plots[self.name].update_figure(figure)
        with self.footer.hold_sync():
            self.footer.sentence, self.footer.command = sentence, self.notebook_shell_command
            self.footer.error = ""
        if not self._on_a_page:
            self._redraw_deferred_plots()

    @in_one_thread_if_small
    @torch.no_grad()
    def _redraw_deferred_plots(self) -> None:
        for name, make in self._deferred.items():
            self.plots[name].update_figure(make(self._last)[0])

    def _on_page_message(self, _: object, content: dict[str, Any], __: object) -> None:
        kind = content.get("kind")
        if kind == "ready":
            self._on_a_page = True
        elif kind == "reset":
            self.reset()
        elif kind == "rest":
            self._call_and_show_error(self._redraw_deferred_plots)

    def page_values_by_field_and_label(self, settings: Any) -> dict[str, dict[str, Any]]:
        """Return the values, by label, of each field that a page without a kernel can set."""
        return {
            name: control_values_by_label(
                self.controls[name], getattr(settings, name), self._stops.get(name) or ()
            )
            for name in self._on_page
        }

    @in_one_thread_if_small
    def static_figures(self, with_controls: bool) -> list[go.Figure]:
        """Return the figures of the present settings, with controls if ``with_controls``."""
        with self._lock, torch.no_grad():
            settings = self.settings
            stops = self.page_values_by_field_and_label(settings) if with_controls else {}
            frames: dict[str, dict[tuple[int, ...], TitledFigure]] = {
                name: {} for name in self.plots
            }
            states = {}
            for position in product(*(range(len(every)) for every in stops.values())):
                chosen = zip(stops.items(), position, strict=True)
                values = {name: [*every.values()][stop] for (name, every), stop in chosen}
                states[replace(settings, **values)] = position
            for moved, position in states.items():
                for name, frame in self.draw_all(moved).items():
                    frames[name][position] = frame
        if with_controls:
            at = states[settings]
            choices = [
                PageControl(self.controls[name].description, [*every], at[i],
                            is_slider(self.controls[name]))
                for i, (name, every) in enumerate(stops.items())
            ]  # fmt: skip
            tries = {text: states[s] for text, s in self.suggestions.items() if s in states}
            figures = [
                figure_with_page_controls(choices, of_plot, tries)
                for of_plot in frames.values()
            ]
            others = [c.description for name, c in self.controls.items() if name not in stops]
            if labels := [*filter(None, others)]:
                figures[0].update_layout(meta=figures[0].layout.meta | {"elsewhere": labels})
        else:
            figures = [
                add_title(go.Figure(it.figure), it.title, f"{it.sentence} {LIVE}")
                for of_plot in frames.values()
                for it in of_plot.values()
            ]
        for figure in figures:
            layout: Any = figure.layout
            width = least_width(layout.to_plotly_json())
            figure.update_layout(meta=(layout.meta or {}) | {"width": width})
        return figures

    def _ipython_display_(self) -> None:
        for bundle in self.mime_bundles():
            display(bundle, raw=True)

    def mime_bundles(self) -> list[dict[str, Any]]:
        """Return the output for a notebook: figures, and the widget if a kernel is running."""
        headless = bool(os.environ.get("LNLAB_HEADLESS"))
        text = {"text/plain": self.footer.sentence}
        still = text if headless else {"text/plain": f"{self.footer.sentence} {LIVE}"}
        stills = [
            {**still, PLOTLY: to_plotly_dict(figure)}
            for figure in self.static_figures(headless)
        ]
        if headless:
            return stills
        # as an output of its own, the figure is there when a saved notebook is opened again,
        # whose widget is no more; beside the live one panel.css hides it
        return [(self._repr_mimebundle_() or {}) | text, stills[0]]


def make_settings(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the settings of a panel with these values.

    Raises:
        ValueError: if the panel has no such setting; names those that it has.
    """
    known = [field.name for field in fields(cast(Any, kind))]
    if unknown := sorted(values.keys() - {*known}):
        raise ValueError(
            f"the panel has no setting {', '.join(unknown)}; it has {', '.join(known)}."
        )
    return kind(**values)


def fill_missing_settings(settings: Any, controls: Mapping[str, Any]) -> Any:
    """Return settings with the value of the control for each None, and tuples for lists.

    Raises:
        ValueError: a control cannot have the value of its field.
    """
    values = {}
    for name, control in controls.items():
        value = getattr(settings, name)
        value = control.value if value is None else value
        values[name] = tuple(value) if isinstance(value, list) else value
        check_control_value(name, values[name], control)
    return replace(settings, **values)


def least_width(layout: Mapping[str, Any]) -> int:
    """Return the least width of a plot in pixels, by its layout."""
    return NARROW_WIDTH if "narrow" in (layout.get("meta") or {}) else LEAST_WIDTH


def is_slider(control: Any) -> bool:
    """Return True if the values of a control are places on a scale."""
    return isinstance(control, ipywidgets.SelectionSlider | ipywidgets.FloatLogSlider)


def round_as_slider_shows(value: Any) -> Any:
    """Return the value of a control; of a slider's number, the three digits that it shows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
