"""The panel of notebook 06: what grows and what dies out in a recurrent net."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from lnlab.analysis.arguments import normal
from lnlab.analysis.rnn_dynamics import Dynamics, dynamics
from lnlab.figures.style import (
    EDGE,
    INK,
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    legend,
    lines,
    number,
    side_by_side,
    text_above,
)
from lnlab.kernels import fuse
from lnlab.nn import NORMS, BatchNorm, Cell, GRUCell, Initial, LSTMCell, Norm, RNNCell
from lnlab.panels.controls import (
    Chips,
    choice,
    choice_slider,
    in_columns,
    lock,
    log_slider,
    one_of,
)
from lnlab.panels.panel import Drawing, Panel, Settable, View, digits, sizes
from lnlab.training.random_state import default_dtype

# The state of the recurrence panel: a recurrent net, and what it is normalized by.


UNITS, INPUTS, CASES = 64, 16, 32
MOST = 4

# On the cases at hand every time step has its own statistics, whatever is remembered.
NORMALIZERS: dict[str, Norm] = {
    "none": NORMS["none"],
    "layer": NORMS["layer"],
    "recurrent batch": BatchNorm,
    "rms": NORMS["rms"],
    "weight": NORMS["weight"],
}
CELLS: dict[str, tuple[str, Callable[..., Cell]]] = {
    "RNN, relu": ("eq. 4", partial(RNNCell, f=torch.relu)),
    "RNN, tanh": ("eq. 4", RNNCell),
    "LSTM": ("eq. 20-22", LSTMCell),
    "GRU": ("eq. 26-28", GRUCell),
}
STEPS = (10, 25, 50, 100, 200)
SMALLEST, LARGEST = 0.1, 10.0


@dataclass(frozen=True)
class RecurrenceState:
    """A recurrent net at its start, and the normalizers that it is tried with.

    Attributes:
        normalizers: at most four.
        cell: one of :data:`CELLS`.
        recurrent: the recurrent weights are this many times N(0, 1/H); 0.1 to 10.
        inputs: the input weights are this many times N(0, 1/D); 0.1 to 10.
        gain: of what normalizes W_h h; in eq. 4 the only one; 0.1 to 10.
        steps: T.

    Raises:
        ValueError: for a value that is none of these.
    """

    normalizers: tuple[str, ...] = ("none", "layer", "recurrent batch")
    cell: str = "RNN, relu"
    recurrent: float = 2.0
    inputs: float = 1.0
    gain: float = 1.0
    steps: int = 100

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "normalizers", tuple(self.normalizers))
        if len(self.normalizers) > MOST:
            raise ValueError(f"{len(self.normalizers)} normalizers: compare at most {MOST}.")
        for name in self.normalizers:
            one_of("a normalizer", name, NORMALIZERS)
        one_of("cell", self.cell, CELLS)
        one_of("steps", self.steps, STEPS)
        for name in ("recurrent", "inputs", "gain"):
            size = getattr(self, name)
            if not SMALLEST <= size <= LARGEST:
                raise ValueError(f"{name} is {size}: give {SMALLEST:g} to {LARGEST:g}.")

    def rescaled(self, recurrent: float) -> "RecurrenceState":
        """The same with recurrent weights of another size."""
        return replace(self, recurrent=recurrent)

    @property
    def equation(self) -> str:
        """The numbers of the cell's equations in the paper."""
        return CELLS[self.cell][0]


# The course of a recurrent net from step to step: a pure function of the panel's state.


def draw_inputs(seed: int = 0) -> Callable[[Tensor], object]:
    """Fills one gate after the other from N(0, 1/fan-in), torch's generator left alone."""
    streams = iter(range(100, 200))
    return lambda W: W.copy_(normal(seed, next(streams), *W.shape) / W.shape[1] ** 0.5)


@torch.no_grad()
def made(name: str, cell: str, recurrent: float, inputs: float, gain: float) -> Cell:
    """The cell, its normalizers torch's own operators; the same draw whatever is set."""
    make = CELLS[cell][1]
    with default_dtype(torch.float64):
        new = make(INPUTS, UNITS, NORMALIZERS[name], initial=Initial(draw_inputs()))
    new.W_x.mul_(inputs)
    new.W_h.mul_(recurrent)
    for norm in (new.norm_h, getattr(new, "norm_U", None)):
        g = getattr(norm, "g", None)
        if isinstance(g, Tensor):
            g.fill_(gain)
    return fuse(new) if name in ("layer", "rms", "recurrent batch") else new


@lru_cache(maxsize=2_000)
def course(
    name: str, cell: str, recurrent: float, inputs: float, gain: float, steps: int
) -> Dynamics:
    """Measure :func:`~lnlab.analysis.rnn_dynamics.dynamics` on inputs always the same."""
    x = normal(0, 5, max(STEPS), CASES, INPUTS)[:steps]
    return dynamics(made(name, cell, recurrent, inputs, gain), x)


def measure(state: RecurrenceState) -> dict[str, Dynamics]:
    """Summed inputs, hidden states and gradients under each of the state's normalizers."""
    rest = state.cell, state.recurrent, state.inputs
    return {
        # without a normalizer there is no gain
        name: course(name, *rest, 1.0 if name == "none" else state.gain, state.steps)
        for name in state.normalizers
    }


# A recurrent net step by step: summed inputs, hidden states and gradients over time.


SLOTS = 4
"""The number of courses that one picture holds."""

PARTS = {
    "summed": "summed inputs",
    "hidden": "hidden state h<sub>t</sub>",
    "gradient": "gradient over the last step's",
}
POWERS = {"summed": (-2, 4), "hidden": (-2, 4), "gradient": (-12, 8)}
"""The powers of ten that each axis shows, whatever is drawn.

On an axis that follows a net which explodes, all others are flat.
"""

Courses = Mapping[str, Sequence[np.ndarray]]
"""Courses by normalizer: T root mean squares of summed inputs, hidden states, gradients."""


def recurrence_figure(courses: Courses) -> go.Figure:
    """Three panels over the time steps, on logarithmic axes: a line for each normalizer."""
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for index, part in enumerate(PARTS, start=1):
        for slot in range(SLOTS):
            figure.add_scatter(
                name=f"{part} {slot}", mode="lines", xaxis=f"x{index}", yaxis=f"y{index}",
                hovertemplate="step %{x}: %{y:.3g}<extra></extra>", showlegend=False,
            )  # fmt: skip
    fill(figure, recurrence_traces(courses))
    return figure.update_layout(recurrence_layout(courses))


def recurrence_traces(courses: Courses) -> Traces:
    """The traces of :func:`recurrence`."""
    looks, names = lines(courses), list(courses)
    traces: Traces = {}
    for index, part in enumerate(PARTS):
        for slot in range(SLOTS):
            if slot >= len(names):
                traces[f"{part} {slot}"] = {"visible": False}
                continue
            values = courses[names[slot]][index]
            traces[f"{part} {slot}"] = {
                "x": np.arange(1.0, len(values) + 1),
                "y": np.clip(values, 10.0**-EDGE, 10.0**EDGE),
                # the later a line, the thinner: none is hidden behind another
                "line": looks[names[slot]] | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
                "visible": True,
            }
    return traces


def leaving(courses: Courses) -> list[str]:
    """Return the names of those of which some line leaves its axis."""
    ends = [(10.0**low, 10.0**high) for low, high in POWERS.values()]
    return [
        name
        for name, parts in courses.items()
        if any(
            ((values < low) | (values > high)).any()
            for values, (low, high) in zip(parts, ends, strict=True)
        )
    ]


def recurrence_layout(courses: Courses) -> dict[str, Any]:
    """The axes, titles and names of :func:`recurrence`."""
    layout: dict[str, Any] = {"margin": {"l": 50, "r": 12, "t": 62, "b": 46}}
    annotations = []
    steps = max((len(parts[0]) for parts in courses.values()), default=1)
    for index, (part, title) in enumerate(PARTS.items()):
        (left, right), axis = side_by_side(len(PARTS), 0.0725)[index], axis_number(index)
        low, high = POWERS[part]
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "range": [0, steps + 1],
            "title": {"text": "time step t"},
            "fixedrange": True,
        }
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "type": "log",
            "range": [low, high],
            "exponentformat": "power",
            "dtick": max(1, round((high - low) / 6)),
            "fixedrange": True,
        }
        annotations.append(
            text_above(
                f"<b>{title}</b>", (left + right) / 2, 4, "center", {"color": INK, "size": 14}
            )
        )
    annotations.append(text_above(legend(courses), 0, 32, "left", {"size": 14}))
    return layout | {"annotations": annotations}


# The sentence of the recurrence panel, of a net and of its gradients.


def conditions(state: RecurrenceState) -> str:
    """The title: what was measured, in short."""
    return (
        f"{state.cell} ({state.equation}), W_h × {state.recurrent:.3g}, "
        f"W_x × {state.inputs:.3g}, gain {state.gain:.3g}, {state.steps} steps"
    )


def sentence(state: RecurrenceState, courses: Mapping[str, Dynamics]) -> str:
    """A sentence that says what becomes of the gradient on its way back."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what becomes of the gradient."
    said = ", ".join(
        f"{name} {number(float(each.gradient[0]))} ({each.rate:.2f} a step)"
        for name, each in courses.items()
    )
    back = (
        f"On its way back from step {state.steps} to 1 the gradient is multiplied by: {said}."
    )
    lines = {name: [*map(np.asarray, it)] for name, it in courses.items()}
    outside = ", ".join(f"“{name}”" for name in leaving(lines))
    return f"{back} The lines of {outside} leave the picture." if outside else back


ABOUT = {
    "recurrence": (
        "Root mean squares of the summed inputs, of the hidden state and of the gradient at "
        "every time step of a recurrent net, a line for each normalizer"
    ),
}
SIZES = np.logspace(-1, 1, 21)
"""The sizes of the recurrent weights that a page without a kernel offers."""


def recurrence(**settings: Any) -> Panel:
    """The panel of growth and decay: set a recurrent net's weights, and follow it in time.

    Args:
        settings: fields of :class:`RecurrenceState`: where the panel starts, and what Reset
            returns to.
    """
    state = RecurrenceState(**settings)
    return Panel("recurrence", "06", state, *arranged(), ABOUT, look, drawn, settable)


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    cells = [(f"{name}   {equation}", name) for name, (equation, _) in CELLS.items()]
    controls = {
        "normalizers": Chips(tuple(NORMALIZERS), description="normalizers", most=MOST),
        "cell": choice("cell", cells),
        "steps": choice_slider("steps T", [(str(steps), steps) for steps in STEPS]),
        "recurrent": log_slider("W_h times", -1, 1),
        "inputs": log_slider("W_x times", -1, 1),
        "gain": log_slider("gain g", -1, 1),
    }

    def enable(change: dict[str, Any]) -> None:
        none = set(change["new"]) <= {"none"}
        lock(controls["gain"], "only a normalizer has a gain" if none else "")

    first, *others = controls.values()
    columns = in_columns(others[:2], others[2:])
    controls["normalizers"].observe(enable, "value")
    enable({"new": controls["normalizers"].value})
    return ipywidgets.VBox([first, columns]), controls


def arrays(courses: Mapping[str, Dynamics]) -> dict[str, list[np.ndarray]]:
    """The measurement as the figure takes it."""
    return {name: [part.numpy() for part in each] for name, each in courses.items()}


def drawn(state: RecurrenceState) -> dict[str, go.Figure]:
    """The figure of a state."""
    return {"recurrence": recurrence_figure(arrays(measure(state)))}


def look(state: RecurrenceState) -> View:
    """The view of a state."""
    courses = measure(state)
    seen = arrays(courses)
    drawing = Drawing(
        recurrence_traces(seen),
        recurrence_layout(seen),
    )
    titles = {"recurrence": conditions(state)}
    return View(sentence(state, courses), titles, {"recurrence": drawing})


def settable(state: RecurrenceState) -> list[Settable]:
    """The control that works without a kernel: the size of the recurrent weights."""
    stops = sizes(SIZES, state.recurrent)
    return [Settable("W_h times", stops, digits(state.recurrent), RecurrenceState.rescaled)]
