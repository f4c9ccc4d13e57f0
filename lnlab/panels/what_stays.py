"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.figures.invariance import Traces, movement, movement_layout, movement_traces
from lnlab.figures.playable import playable
from lnlab.figures.table import table, table_layout, table_traces
from lnlab.figures.text import titled
from lnlab.norms.transformations import TRANSFORMATIONS

from .controls import Chips, SignedLog, choice, choice_slider, in_columns, log_slider
from .live_plot import LivePlot
from .panel import Drawing, Panel, View
from .transformed import (
    BATCHES,
    DTYPES,
    EPS,
    MODES,
    MOST,
    NORMALIZERS,
    SIZES,
    Transformed,
    conditions,
    framed,
    measured,
    parts,
    sentence,
    sweep,
)

ABOUT_MOVEMENT = (
    "Distributions of summed inputs and outputs before and after the change, and how far "
    "outputs move against the size of the change"
)
ABOUT_TABLE = "Table 1 and its extension: the measured defect and the claim of every cell"


def invariance(*, notebook: str = "02", **settings: Any) -> Panel:
    """What stays the same: transform weights or inputs, and see which outputs move.

    Args:
        notebook: number of the one that it stands in, for its command.
        settings: fields of :class:`~lnlab.panels.transformed.Transformed`: where the panel
            starts, and what Reset returns to.
    """
    state = Transformed(**settings)
    arrangement, controls = arranged()
    plots = {
        "movement": LivePlot(
            movement(parts(state), sweep(state)), ABOUT_MOVEMENT, least_width=600
        ),
        "table": LivePlot(table(measured(state)), ABOUT_TABLE, least_width=860),
    }
    return Panel("invariance", notebook, state, controls, arrangement, plots, look, still)


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    columns = [(f"{t.column}   {t.formula}   {t.name}", t.column) for t in TRANSFORMATIONS]
    sources = [(statistics.value, name) for name, statistics in MODES.items()]
    controls = {
        "normalizers": Chips(NORMALIZERS, description="normalizers", most=MOST),
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
        controls["shift"].disabled, controls["delta"].size.disabled = scales, not scales

    controls["transformation"].observe(enable, "value")
    enable({"new": controls["transformation"].value})
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:3], others[3:])]), controls


def look(state: Transformed) -> View:
    """What the panel shows of a state."""
    moved, swept = parts(state), sweep(state)
    return View(
        sentence=sentence(state),
        drawings={
            "movement": Drawing(movement_traces(moved, swept), movement_layout(moved, swept))
        },
        late={"table": lambda: tabled(state)},
    )


def tabled(state: Transformed) -> Drawing:
    """The table at a state: 200 cells take longer than one step of a slider may."""
    cells = measured(state)
    return Drawing(table_traces(cells), table_layout(cells, *framed(state)))


def still(state: Transformed, play: bool) -> list[go.Figure]:
    """The figures of a state; with ``play``, the first has a slider over the change's size."""
    moved = movement(parts(state), sweep(state))
    if play:
        size = abs(state.amount)
        sizes = sorted([size, *SIZES[np.abs(SIZES / size - 1) > 0.01]])
        frames = {f"{each:.3g}": frame(state.resized(each)) for each in sizes}
        prefix = ("δ = " if state.delta > 0 else "δ = −") if state.scales else "shift "
        moved = playable(moved, frames, prefix, sizes.index(size))
    cells = table(measured(state), *framed(state))
    by, source = f"δ = {state.delta:g}, shifts of {state.shift:g}", MODES[state.mode].value
    return [
        titled(moved, f"{state.formula}: {conditions(state)}, statistics {source}"),
        titled(cells, f"Table 1 and its extension, {by}: {conditions(state)}"),
    ]


def frame(state: Transformed) -> Traces:
    """The points and texts that move with the size of the change."""
    moving = ("after", "strings", "note", "now", "here")
    return {
        name: {key: new[key] for key in ("x", "y", "text") if key in new}
        for name, new in movement_traces(parts(state), sweep(state)).items()
        if str(name).startswith(moving) and new.get("visible", True)
    }
