"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.invariance
from lnlab.figures.invariance import Measured
from lnlab.nn import Norm
from lnlab.nn.table1 import TRANSFORMATIONS
from lnlab.panels.choices import MODES
from lnlab.panels.invariance.measurement import measure, measured
from lnlab.panels.invariance.state import (
    BATCHES,
    DTYPES,
    EPS,
    FAMILIES,
    MOST,
    STOPS,
    InvarianceState,
    states,
)
from lnlab.panels.invariance.words import conditions, framed, sentence
from lnlab.panels.widgets.controls import (
    Chips,
    SignedLog,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
)
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.stills import Settable, digits, sizes
from lnlab.panels.widgets.view import Drawing, View

ABOUT = {
    "movement": "Distributions of summed inputs and outputs before and after the change, and "
    "how far outputs move against the size of the change",
    "table": "Table 1 and its extension: the measured defect and the claim of every cell",
}


def invariance(
    *,
    notebook: str = "02",
    alone: bool = False,
    own: Mapping[str, Norm] | None = None,
    **settings: Any,
) -> Panel:
    """The panel of invariances: transform weights or inputs, and see which outputs move.

    Args:
        notebook: number of the one whose parameter ``panel`` takes the state; "": none.
        alone: whether to begin with delta alone, beside its picture, all else behind a button.
        own: normalizers of your own by name, each a factory such as ``LayerNorm``: chips beside
            the others.
        settings: fields of :class:`InvarianceState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: a setting that makes no sense, or an own normalizer whose name is taken.
        TypeError: an own normalizer that is none.
    """
    state = states(own or {})(**settings)
    arrangement, controls = arranged(state.rows)
    new = Panel(
        "invariance", notebook, state, arrangement, controls, ABOUT, look, drawn, settable,
        plays="delta",
    )  # fmt: skip
    if alone:
        fold(new, arrangement)
    return new


def fold(panel: Panel, arrangement: ipywidgets.Box) -> None:
    """Leave of a panel delta alone, beside its picture, and put the rest behind a button."""
    delta, table = panel.controls["delta"], panel.plots["table"]
    delta.layout.flex_flow, delta.size.layout.width = "row wrap", "246px"
    delta.size.style.description_width = "22px"
    rest = ipywidgets.VBox(arrangement.children)
    more = ipywidgets.ToggleButton(description="More", layout={"width": "90px"})

    def show(_: object = None) -> None:
        (panel.remove_class if more.value else panel.add_class)("lnlab-beside")
        for part in (rest, table, delta.sign):
            part.layout.display = "" if more.value else "none"
        more.description = "Less" if more.value else "More"
        panel.bar.answers += 1  # the page waits for one after every press of a button

    more.observe(show, "value")
    delta.add_class("lnlab-large")
    columns = arrangement.children[1]
    columns.children[0].children = [
        box for box in columns.children[0].children if delta not in box.children
    ]
    arrangement.children = [delta, delta.why, more, rest]
    show()


def arranged(normalizers: Iterable[str]) -> tuple[ipywidgets.Box, dict[str, Any]]:
    """The controls, and the box that holds them."""
    columns = [(f"{t.column}   {t.formula}   {t.name}", t.column) for t in TRANSFORMATIONS]
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizers": Chips(tuple(normalizers), description="normalizers", most=MOST),
        "transformation": choice("change", columns),
        "delta": SignedLog("δ", -4, 4),
        "shift": log_slider("shift", -4, 4),
        "eps": choice_slider("ε", [(f"{eps:g}", eps) for eps in EPS]),
        "batch": choice_slider("batch size", [(str(batch), batch) for batch in BATCHES]),
        "dtype": choice("precision", [(name, name) for name in DTYPES]),
        "mode": choice("statistics", sources),
    }

    def enable(change: dict[str, Any]) -> None:
        scales = TRANSFORMATIONS[change["new"] - 1].scales
        lock(controls["delta"], "" if scales else "this change adds a shift and has no δ")
        lock(controls["shift"], "this change multiplies by δ and adds no shift" * scales)

    first, *others = controls.values()
    columns = in_columns(others[:3], others[3:])
    controls["transformation"].observe(enable, "value")
    enable({"new": controls["transformation"].value})
    return ipywidgets.VBox([first, columns]), controls


def look(state: InvarianceState) -> View:
    """The view of a state."""
    moved, swept = measure(state)
    traces = lnlab.figures.invariance.movement_traces(moved, swept)
    return View(
        sentence=sentence(state, swept.here),
        titles=titles(state),
        drawings={
            "movement": Drawing(traces, lnlab.figures.invariance.movement_layout(moved, swept))
        },
        late={"table": lambda: tabled(state)},
    )


def tabled(state: InvarianceState) -> Drawing:
    """The table at a state: 200 cells take longer than one step of a slider may."""
    traces, cells = filled(replace(state, transformation=1, normalizers=()))
    return Drawing(traces, lnlab.figures.invariance.table_layout(cells, *framed(state)))


@lru_cache(maxsize=32)
def filled(state: InvarianceState) -> tuple[Mapping[int | str, Mapping[str, Any]], Measured]:
    """The cells of the table, whichever of them are framed."""
    cells = measured(state)
    return lnlab.figures.invariance.table_traces(cells), cells


def titles(state: InvarianceState) -> dict[str, str]:
    """The titles: what both plots show, and of what."""
    by, source = (
        f"δ = {digits(state.delta)}, shifts of {digits(state.shift)}",
        MODES[state.mode].value,
    )
    return {
        "movement": f"{state.formula}: {conditions(state)}, statistics {source}",
        "table": f"Table 1 and its extension, {by}: {conditions(state)}",
    }


def drawn(state: InvarianceState) -> dict[str, go.Figure]:
    """The figures of a state."""
    return {
        "movement": lnlab.figures.invariance.movement(*measure(state)),
        "table": lnlab.figures.invariance.table(measured(state), *framed(state)),
    }


def settable(state: InvarianceState) -> list[Settable]:
    """The controls that work without a kernel: size of the change, change, normalizers."""
    changes = {f"{t.column}: {t.formula}, {t.name}": t.column for t in TRANSFORMATIONS}
    change = next(words for words, n in changes.items() if n == state.transformation)
    own = [] if state.normalizers in FAMILIES else [state.normalizers]
    sets = {" · ".join(names): names for names in (*own, *FAMILIES)}
    here, kind = digits(abs(state.amount)), type(state)
    size = "size of δ < 0, or of the shift" if state.delta < 0 else "δ, or the shift"
    return [
        Settable(size, sizes(STOPS, abs(state.amount)), here, kind.resized),
        Settable("change", changes, change, kind.alike, slides=False),
        Settable("normalizers", sets, " · ".join(state.normalizers), kind.of, slides=False),
    ]
