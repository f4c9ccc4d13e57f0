"""A panel: a frozen state, controls for its fields, and a pure function that shows it."""

import json
import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import plotly.graph_objects as go
import torch
import traitlets
from IPython.display import display

from lnlab.figures.style import add_title
from lnlab.panels.controls import check, list_stops
from lnlab.panels.live_plot import LivePlot, to_json
from lnlab.panels.playable import Figure, PageControl, Shown, playable
from lnlab.threads import in_one_thread

HERE = Path(__file__).parent
LEAST_WIDTH = 700
"""Pixels of a plot: what a JupyterLab with its file browser has room for at 1280 pixels."""
LIVE = "Run this cell for live controls."
PLOTLY = "application/vnd.plotly.v1+json"


class StatusBar(anywidget.AnyWidget):
    """The sentence, the error, Reset and the command of a panel."""

    _esm = HERE / "panel.js"
    _css = HERE / "panel.css"
    sentence = traitlets.Unicode().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    command = traitlets.Unicode().tag(sync=True)
    answers = traitlets.Int().tag(sync=True)
    """The number of answers to its controls so far: the page then knows that there was one."""


class Panel(ipywidgets.VBox):
    """Plots and the controls that move them: what a panel function returns.

    The kernel may run callbacks in a thread of their own: ``show`` is called under a lock and
    without gradients, and has to leave torch's global settings and generator alone. What it
    raises there is shown in the panel, since JupyterLab would not show it.

    Run headless (``LNLAB_HEADLESS`` is set) it leaves a figure that can be played with where
    no kernel runs; in JupyterLab, hidden beside the live one, a figure of its state at that
    time: what is seen when the notebook was saved and is opened again.

    Args:
        state: what the panel starts with and Reset returns to, of a frozen dataclass. Where a
            field is None it has the value of its control.
        controls: for each field of the state a widget with a ``value``, in the order of the
            page; one under another name is only shown among them.
        show: returns the figure of a state, its title and the sentence about it; pure.
        alt: what each plot shows, in words for those who cannot see it, by name. The first
            is that of ``show``.
        late: by name the plots that need not follow a slider: functions of the state that
            return a figure and its title. They are drawn once the state has been still for a
            moment, or at once where there is no page.
        on_page: the fields that can be set where no kernel runs.
        stops: by field the values that it can have there, if not all of its control.
        locks: by field a function of the state that says why its control cannot be moved; ""
            where it can.
        notebook: number of the notebook whose parameter ``panel`` takes the state; where it is
            empty none does, and there is no command.
        suggestions: things to try, as texts and the settings that each changes of ``state``:
            buttons above the controls, also on a page where its controls reach that state.

    Raises:
        ValueError: a control cannot have the value of its field.
    """

    @in_one_thread
    def __init__(
        self,
        state: Any,
        controls: Mapping[str, Any],
        show: Callable[[Any], Shown],
        *,
        alt: Mapping[str, str],
        late: Mapping[str, Callable[[Any], tuple[Figure, str]]] | None = None,
        on_page: Sequence[str] = (),
        stops: Mapping[str, Sequence[Any]] | None = None,
        locks: Mapping[str, Callable[[Any], str]] | None = None,
        notebook: str = "",
        suggestions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.controls = {field.name: controls[field.name] for field in fields(state)}
        self.start = complete(state, self.controls)
        self.defaults, self.notebook, self.name = type(state)(), notebook, next(iter(alt))
        self.bar = StatusBar()
        self._show, self._late, self._locks = show, late or {}, locks or {}
        self._on_page, self._stops = on_page, stops or {}
        self.suggestions = {
            text: replace(self.start, **settings)
            for text, settings in (suggestions or {}).items()
        }
        self._lock, self._held, self._on_a_page = threading.RLock(), False, False
        self._last: Any = None
        with torch.no_grad():
            frames = self.view(self.start)
        self.plots = {
            name: LivePlot(frame.figure, alt[name], LEAST_WIDTH)
            for name, frame in frames.items()
        }
        self.reasons = {name: ipywidgets.Label() for name in self._locks}
        arrangement = ipywidgets.VBox([*self._suggestion_buttons(), self._columns(controls)])
        arrangement.add_class("lnlab-controls")
        super().__init__(children=[arrangement, self.bar, *self.plots.values()])
        self.add_class("lnlab-panel")
        self._set_controls(self.start)
        self._draw()
        for control in self.controls.values():
            control.observe(self._on_control, "value")
        self.bar.on_msg(self._on_message)

    def _suggestion_buttons(self) -> list[ipywidgets.VBox]:
        """Return a button for each suggestion, which sets the state."""
        buttons = []
        for text, state in self.suggestions.items():
            button = ipywidgets.Button(description=text)
            button.on_click(lambda _, state=state: setattr(self, "state", state))
            buttons.append(button)
        box = ipywidgets.VBox([ipywidgets.Label("Things to try:"), *buttons])
        box.add_class("lnlab-suggestions")
        return [box] if buttons else []

    def _columns(self, controls: Mapping[str, Any]) -> ipywidgets.VBox:
        """Return the controls, below each the reason why it cannot be moved."""
        cells = []
        for name, control in controls.items():
            reason = self.reasons.get(name)
            cells.append(ipywidgets.VBox([control, reason] if reason else [control]))
        columns = ipywidgets.VBox(cells)
        columns.add_class("lnlab-columns")
        return columns

    def view(self, state: Any) -> dict[str, Shown]:
        """Return what each plot shows of a state."""
        first = self._show(state)
        late = {name: Shown(*make(state), first.sentence) for name, make in self._late.items()}
        return {self.name: first} | late

    @property
    def state(self) -> Any:
        """The state that the controls show; setting it moves them and draws once."""
        values = {
            name: round_like_slider(control.value) for name, control in self.controls.items()
        }
        return replace(self.start, **values)

    @state.setter
    def state(self, state: Any) -> None:
        with self._lock:
            self._set_controls(state)
            self._guarded(self._draw)

    def reset(self) -> None:
        """Put every control to where it started, and turn every surface back."""
        self.state = self.start
        for plot in self.plots.values():
            plot.reset_camera()

    @property
    def command(self) -> str:
        """The command that runs the notebook with this state; "" where no notebook takes it."""
        if not self.notebook:
            return ""
        # a panel that starts elsewhere needs even an empty dictionary
        if self.state == self.start == self.defaults:
            return f"lnlab run {self.notebook}"
        defaults, state = asdict(self.defaults), asdict(self.state)
        settings = {name: value for name, value in state.items() if value != defaults[name]}
        return f"lnlab run {self.notebook} -p panel {shlex.quote(json.dumps(settings))}"

    def _set_controls(self, state: Any) -> None:
        self._held = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(state, name)
        finally:
            self._held = False

    def _on_control(self, _: object) -> None:
        with self._lock:
            if self._held:
                return
            # a browser's power of ten may differ in its last bit, and comes back as a move
            self._guarded(self._draw if self.state != self._last else None)

    def _guarded(self, act: Callable[[], None] | None) -> None:
        """Answer, or say here what went wrong: JupyterLab drops what a callback raises."""
        with self._lock:
            try:
                if act:
                    act()
            except Exception as error:
                self.bar.error = f"{type(error).__name__}: {error}"
            self.bar.answers += 1

    @in_one_thread
    @torch.no_grad()
    def _draw(self) -> None:
        self._last = self.state
        for field, why in self._locks.items():
            self.reasons[field].value = why(self._last)
            self.controls[field].disabled = bool(self.reasons[field].value)
        figure, _, sentence = self._show(self._last)
        self.plots[self.name].show(figure)
        with self.bar.hold_sync():
            self.bar.sentence, self.bar.command = sentence, self.command
            self.bar.error = ""
        if not self._on_a_page:
            self._draw_late()

    @in_one_thread
    @torch.no_grad()
    def _draw_late(self) -> None:
        for name, make in self._late.items():
            self.plots[name].show(make(self._last)[0])

    def _on_message(self, _: object, content: dict[str, Any], __: object) -> None:
        kind = content.get("kind")
        if kind == "ready":
            self._on_a_page = True
        elif kind == "reset":
            self.reset()
        elif kind == "rest":
            self._guarded(self._draw_late)

    def page_stops(self, state: Any) -> dict[str, dict[str, Any]]:
        """Return by field what it can be set to where no kernel runs, by words."""
        return {
            name: list_stops(self.controls[name], getattr(state, name), self._stops.get(name))
            for name in self._on_page
        }

    @in_one_thread
    def still_figures(self, with_controls: bool) -> list[go.Figure]:
        """Return the figures of its state; ``with_controls``, something can be set in them."""
        with self._lock, torch.no_grad():
            state = self.state
            stops = self.page_stops(state) if with_controls else {}
            frames: dict[str, dict[tuple[int, ...], Shown]] = {name: {} for name in self.plots}
            states = {}
            for position in product(*(range(len(every)) for every in stops.values())):
                chosen = zip(stops.items(), position, strict=True)
                values = {name: [*every.values()][stop] for (name, every), stop in chosen}
                states[replace(state, **values)] = position
            for moved, position in states.items():
                for name, frame in self.view(moved).items():
                    frames[name][position] = frame
        if with_controls:
            at = states[state]
            choices = [
                PageControl(self.controls[name].description, [*every], at[i],
                            is_slider(self.controls[name]))
                for i, (name, every) in enumerate(stops.items())
            ]  # fmt: skip
            tries = {text: states[s] for text, s in self.suggestions.items() if s in states}
            figures = [playable(choices, of_plot, tries) for of_plot in frames.values()]
        else:
            figures = [
                add_title(go.Figure(it.figure), it.title, f"{it.sentence} {LIVE}")
                for of_plot in frames.values()
                for it in of_plot.values()
            ]
        for figure in figures:
            layout: Any = figure.layout
            figure.update_layout(meta=(layout.meta or {}) | {"width": LEAST_WIDTH})
        return figures

    def _ipython_display_(self) -> None:
        for bundle in self.mime_bundles():
            display(bundle, raw=True)

    def mime_bundles(self) -> list[dict[str, Any]]:
        """Return the output in the notebook: figures, and the widget where a kernel lives."""
        headless = bool(os.environ.get("LNLAB_HEADLESS"))
        text = {"text/plain": self.bar.sentence}
        still = text if headless else {"text/plain": f"{self.bar.sentence} {LIVE}"}
        stills = [{**still, PLOTLY: to_json(figure)} for figure in self.still_figures(headless)]
        if headless:
            return stills
        # as an output of its own, the figure is there when a saved notebook is opened again,
        # whose widget is no more; beside the live one panel.css hides it
        return [(self._repr_mimebundle_() or {}) | text, stills[0]]


def complete(state: Any, controls: Mapping[str, Any]) -> Any:
    """Return a state with the value of its control for None, and tuples for lists.

    Raises:
        ValueError: a control cannot have the value of its field.
    """
    values = {}
    for name, control in controls.items():
        value = getattr(state, name)
        value = control.value if value is None else value
        values[name] = tuple(value) if isinstance(value, list) else value
        check(name, values[name], control)
    return replace(state, **values)


def is_slider(control: Any) -> bool:
    """Return True if the values of a control are places on a scale."""
    return isinstance(control, ipywidgets.SelectionSlider | ipywidgets.FloatLogSlider)


def round_like_slider(value: Any) -> Any:
    """Return the value of a control; of a slider's number, the three digits that it shows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
