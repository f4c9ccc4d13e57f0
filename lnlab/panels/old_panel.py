"""The frame of every panel: a frozen state, a pure function of it, traces moved in place."""

import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from IPython.core.getipython import get_ipython
from IPython.display import display

from lnlab.figures.style import titled
from lnlab.panels.live_plot import LivePlot, as_json
from lnlab.panels.old_controls import onward, put
from lnlab.panels.old_playable import Choice, OldFrame, playable
from lnlab.panels.panel import Bar
from lnlab.threads import in_one_thread

# The view of a panel's state: all that is shown of it.


class Drawing(NamedTuple):
    """New attributes of a plot's traces, by name, and of its layout."""

    traces: Mapping[int | str, Mapping[str, Any]]
    layout: Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """The looks of a state: sentence, titles and drawings.

    Attributes:
        sentence: the number that matters, in words.
        titles: what each plot shows, and of what; they stand over its picture where there are
            no controls to read it from.
        drawings: of the plots by name.
        late: of those plots that need not follow a slider: they are made and drawn once the
            state has been still for a moment, or at once where there is no page.
    """

    sentence: str
    titles: Mapping[str, str]
    drawings: Mapping[str, Drawing]
    late: Mapping[str, Callable[[], Drawing]] = field(default_factory=dict)


# The figures of a panel where no kernel runs, with or without something to set.


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
    frames: dict[str, dict[tuple[int, ...], OldFrame]] = {name: {} for name in figures}
    for place in product(*(range(len(setting.values)) for setting in settings)):
        there = state
        for setting, stop in zip(settings, place, strict=True):
            there = setting.put(there, list(setting.values.values())[stop])
        view = look(there)
        for name in figures:
            late = view.late.get(name)
            drawing = late() if late else view.drawings[name]
            frames[name][place] = OldFrame(view.titles[name], view.sentence, *drawing)
    choices = [setting.choice for setting in settings]
    return [playable(figure, choices, frames[name]) for name, figure in figures.items()]


HERE = Path(__file__).parent
PLOTLY = "application/vnd.plotly.v1+json"

_open: dict[tuple[str, str], "OldPanel"] = {}


class OldPanel(ipywidgets.VBox):
    """Plots and the controls that move them: what a panel function returns.

    The kernel may run callbacks in a thread of their own: ``look`` is called under a lock and
    without gradients, and has to leave torch's global settings and generator alone. What it
    raises there is shown in the panel, since JupyterLab would not show it.

    Run headless (``LNLAB_HEADLESS`` is set) it leaves a figure that can be played with where
    no kernel runs; in JupyterLab, hidden beside the live one, a figure of its state at that
    time: what is seen when the notebook was saved and is opened again.

    Args:
        name: the panel's; with the cell it stands in, it says which older panel this one
            replaces when the cell is run again.
        notebook: number of the notebook whose parameter ``panel`` takes the state; where it is
            empty none does, and there is no command.
        state: what the panel starts with and Reset returns to, of a frozen dataclass.
        arrangement: the widget that holds the controls.
        controls: for each field of the state, a widget with a ``value``.
        about: what each plot shows, in words for those who cannot see it, by name.
        look: the view of a state; pure.
        drawn: the figures of a state, by the names of the plots.
        settable: what can be set in the figures where no kernel runs.
        plays: the logarithmic control that a button moves from end to end; empty: no button.
        least_width: of a plot, in pixels.
    """

    @in_one_thread
    def __init__(
        self,
        name: str,
        notebook: str,
        state: Any,
        arrangement: ipywidgets.DOMWidget,
        controls: Mapping[str, Any],
        about: Mapping[str, str],
        look: Callable[[Any], View],
        drawn: Callable[[Any], Mapping[str, go.Figure]],
        settable: Callable[[Any], Sequence[Settable]],
        plays: str = "",
        least_width: int = 840,
    ) -> None:
        self.controls, self.bar = controls, Bar(plays=plays, again=bool(notebook))
        self.plots = {
            plot: LivePlot(figure, about[plot], least_width=least_width)
            for plot, figure in drawn(state).items()
        }
        self.notebook, self.start, self.defaults = notebook, state, type(state)()
        self._look, self._drawn, self._settable = look, drawn, settable
        self._lock, self._held = threading.RLock(), False
        self._late: Mapping[str, Callable[[], Drawing]] = {}
        self._on_a_page = False
        super().__init__(children=[arrangement, self.bar, *self.plots.values()])
        self.add_class("lnlab-panel")
        arrangement.add_class("lnlab-controls")
        self._set_controls(state)
        self._show()
        for control in controls.values():
            control.observe(self._heard_of, "value")
        self.bar.on_msg(self._heard)
        replace_older(name, self)

    @property
    def state(self) -> Any:
        """The state that the controls show; setting it moves them and draws once."""
        said = {name: as_read(control.value) for name, control in self.controls.items()}
        return replace(self.start, **said)

    @state.setter
    def state(self, state: Any) -> None:
        with self._lock:
            self._set_controls(state)
            self._moved()

    def reset(self) -> None:
        """Put every control to where it started, and turn every surface back."""
        self.state = self.start
        for plot in self.plots.values():
            plot.reset_camera()

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that are not the defaults: with ``**`` they make the same panel."""
        defaults, state = asdict(self.defaults), asdict(self.state)
        return {name: value for name, value in state.items() if value != defaults[name]}

    @property
    def command(self) -> str:
        """The command that runs the notebook with this state."""
        # What starts elsewhere has to be told even that nothing differs.
        if not self.parameters and self.start == self.defaults:
            return f"lnlab run {self.notebook}"
        return f"lnlab run {self.notebook} -p panel {shlex.quote(json.dumps(self.parameters))}"

    def close(self) -> None:
        """Close every widget in it, and what they hold of layout and style."""
        for widget in descendants(self):
            ipywidgets.Widget.close(widget)

    def _set_controls(self, state: Any) -> None:
        self._held = True
        try:
            for field in fields(state):
                self.controls[field.name].value = getattr(state, field.name)
        finally:
            self._held = False

    def _heard_of(self, _: object) -> None:
        # a browser's power of ten may differ in its last bit, and comes back as a move
        with self._lock:
            if self.state != self._seen:
                self._moved()
            elif not self._held:
                self.bar.answers += 1

    def _moved(self) -> None:
        with self._lock:
            if not self._held:
                self._guarded(self._show)
                self.bar.answers += 1

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do it, or say here what went wrong: JupyterLab drops what a callback raises."""
        with self._lock:
            try:
                act()
            except Exception as error:
                self.bar.error = f"{type(error).__name__}: {error}"

    @in_one_thread
    @torch.no_grad()
    def _show(self) -> None:
        self._seen = self.state
        view = self._look(self._seen)
        for name, drawing in view.drawings.items():
            self.plots[name].update(*drawing)
        with self.bar.hold_sync():
            self.bar.sentence, self.bar.command = view.sentence, self.command
            self.bar.error = ""
        self._late = view.late
        if not self._on_a_page:
            self._show_late()

    @in_one_thread
    @torch.no_grad()
    def _show_late(self) -> None:
        late, self._late = self._late, {}
        for name, make in late.items():
            self.plots[name].update(*make())

    def _put(self, name: str, text: str) -> None:
        self.bar.error = ""
        said = put(self.controls, name, text)
        if said:
            self.bar.error = said

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        kind = content.get("kind")
        if kind == "ready":
            self._on_a_page = True
        elif kind == "reset":
            self.reset()
        elif kind == "rest":
            self._guarded(self._show_late)
        elif kind == "typed":
            self._guarded(partial(self._put, content["name"], content["text"]))
            self.bar.answers += 1
        elif kind == "step":
            self._guarded(partial(onward, self.controls[self.bar.plays]))
            self.bar.answers += 1

    @in_one_thread
    def stills(self, play: bool) -> list[go.Figure]:
        """The figures of its state; with ``play``, the reader can set something in them."""
        with self._lock, torch.no_grad():
            drawn, state = self._drawn(self.state), self.state
            for name, figure in drawn.items():
                meta = (figure.layout.meta or {}) | {"width": self.plots[name].least_width}
                figure.update_layout(meta=meta)
            if play:
                return played(drawn, state, self._settable(state), self._look)
            return still(drawn, self._look(state))

    def _ipython_display_(self) -> None:
        for bundle in self.bundles():
            display(bundle, raw=True)

    def bundles(self) -> list[dict[str, Any]]:
        """The output in the notebook: figures, and the widget where a kernel lives."""
        headless = bool(os.environ.get("LNLAB_HEADLESS"))
        figures = self.stills(headless)
        said = {"text/plain": self.bar.sentence}
        stills = [{**said, PLOTLY: as_json(figure)} for figure in figures]
        if headless:
            return stills
        # as an output of its own, the figure is there when a saved notebook is opened again,
        # whose widget is no more; beside the live one panel.css hides it
        return [(self._repr_mimebundle_() or {}) | said, stills[0]]


def as_read(value: Any) -> Any:
    """The value of a control; of a slider's number, the three digits that it shows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def descendants(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """A widget, all that it contains, and their layouts and styles."""
    for child in getattr(widget, "children", ()):
        yield from descendants(child)
    yield from (getattr(widget, name) for name in ("layout", "style") if hasattr(widget, name))
    yield widget


def replace_older(name: str, panel: OldPanel) -> None:
    """Close the panel that an earlier run of the same cell made: nothing piles up."""
    older = _open.pop((name, cell()), None)
    if older is not None:
        older.close()
    _open[name, cell()] = panel


def cell() -> str:
    """The cell that is being run, where the front end tells; else the same for all."""
    shell = get_ipython()
    message = getattr(shell, "get_parent", dict)()
    return message.get("metadata", {}).get("cellId", "")


Panel = OldPanel
