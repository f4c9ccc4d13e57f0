"""The panel of notebook 19: a transformer at its start, by depth, place and kind of norm."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.func import functional_call

from lnlab.analysis.objective import Objective
from lnlab.data import load
from lnlab.figures.style import (
    EDGE,
    TEMPLATE,
    Traces,
    fill,
    legend,
    lines,
    logarithmic,
    number,
    text_above,
)
from lnlab.nn import NORMS
from lnlab.panels.old_controls import Chips, choice, choice_slider, in_columns, one_of
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.transformer.evaluate import objective
from lnlab.papers.transformer.model import PLACES, Placed, Transformer
from lnlab.training import cross_entropy, stack
from lnlab.training.random_state import default_dtype, generator

# The state of the transformer panel: how deep it is, and where which normalizer stands.


KINDS = ("layer", "rms", "dyt", "none")
DEPTHS = (1, 2, 4, 6, 8, 12)


@dataclass(frozen=True)
class TransformerState:
    """A transformer before its first update.

    Attributes:
        places: of the normalizers: any of pre, post and sandwich.
        kind: of the normalizer, one of :data:`KINDS`; with "none" every branch is damped
            instead, and the places are the same.
        depth: L, one of :data:`DEPTHS`.

    Raises:
        ValueError: for a value that is none of these.
    """

    places: tuple[str, ...] = ("pre", "post")
    kind: str = "layer"
    depth: int = 4

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "places", tuple(self.places))
        for place in self.places:
            one_of("a place", place, PLACES)
        one_of("kind", self.kind, KINDS)
        one_of("depth", self.depth, DEPTHS)

    def at(self, depth: int) -> "TransformerState":
        """The same with so many layers."""
        return replace(self, depth=depth)


# Gradients by depth, and the first step of Adam: a pure function of the panel's state.


DRAWS, CASES, CONTEXT, WIDTH, HEADS = 3, 8, 16, 16, 2
STEPS = np.logspace(-4, -0.5, 11)
"""Sizes of a first step."""


class Start(NamedTuple):
    """Several draws of one net side by side, before the first update.

    Attributes:
        loss: of all of them, a mean.
        w: their parameters by name, each with an axis of draws.
        g: the gradient of the loss of each.
        x, y: the cases, the same for all.
    """

    loss: Objective
    w: dict[str, Tensor]
    g: dict[str, Tensor]
    x: Tensor
    y: Tensor


@lru_cache(maxsize=100)
def start(place: str, kind: str, depth: int) -> Start:
    """The nets of a place, a kind and a depth; the same draws whatever is set."""
    text = load("embedded", "text", context=CONTEXT)
    size = len(text.vocabulary), CONTEXT, depth, WIDTH, HEADS
    with default_dtype(torch.float64), torch.random.fork_rng(devices=()):
        nets = [Transformer(*size, Placed(place, NORMS[kind])) for _ in range(DRAWS)]
        for draw, net in enumerate(nets):
            net.draw(lambda name, draw=draw: generator(f"{name} of draw {draw}"))
    x, y = (v[:CASES].expand(DRAWS, CASES, CONTEXT) for v in (text.train.x, text.train.y))
    loss = objective(stack(nets), x, y)
    slope = DRAWS * loss.gradient()[1]  # of the sum, so that each has its own
    return Start(loss, loss.split(loss.start), loss.split(slope), x, y)


@lru_cache(maxsize=100)
def profile(place: str, kind: str, depth: int) -> np.ndarray:
    """||dL/dW_2|| of each layer, bottom first (draws, L)."""
    g = start(place, kind, depth).g
    norms = [g[name].norm(dim=(-2, -1)) for name in g if name.endswith("W_2.W")]
    return torch.stack(norms, dim=1).numpy()


@lru_cache(maxsize=100)
def first_steps(place: str, kind: str, depth: int) -> np.ndarray:
    """The loss behind a first step of Adam of each size, in nats (draws, K).

    Adam's first step moves every parameter by the learning rate, whatever its gradient:
    w - eta sign(g).
    """
    here = start(place, kind, depth)
    losses = []
    for eta in STEPS:
        moved = {name: w - eta * here.g[name].sign() for name, w in here.w.items()}
        logits = functional_call(here.loss.module, moved, (here.x,))
        losses.append(cross_entropy(logits.flatten(1, 2), here.y.flatten(1)))
    return torch.stack(losses, dim=1).detach().numpy()


def stepped(state: TransformerState) -> dict[str, np.ndarray]:
    """:func:`first_steps` at each of the state's places."""
    return {place: first_steps(place, state.kind, state.depth) for place in state.places}


class TransformerMeasurement(NamedTuple):
    """The numbers that one move of a slider shows; the first steps follow once it rests.

    Attributes:
        profiles: by place the gradients (draws, L).
    """

    profiles: dict[str, np.ndarray]


def measure(state: TransformerState) -> TransformerMeasurement:
    """The gradients of a state; the one way into this room for a slider."""
    return TransformerMeasurement(
        {p: profile(p, state.kind, state.depth) for p in state.places}
    )


# The sentence of the transformer panel, of gradients at the start.


def conditions(state: TransformerState) -> str:
    """The title: what was measured, in short."""
    kind = "no norm, damped branches" if state.kind == "none" else f"{state.kind} norm"
    layers = "1 layer" if state.depth == 1 else f"{state.depth} layers"
    return f"{kind}, {layers}, before the first update"


def sentence(state: TransformerState, measurement: TransformerMeasurement) -> str:
    """The gradient at the top, and that at the bottom as a multiple of it."""
    if not state.places:
        return f"{conditions(state)}. Choose a place to see its gradients."
    said = []
    for place, norms in measurement.profiles.items():
        bottom, top = norms.mean(0)[[0, -1]]
        said.append(f"{place} {number(top)} ({number(bottom / top) if top else 'NaN'})")
    return (
        "Gradient of W₂ in the top layer at the start, and that of the bottom layer as a "
        f"multiple of it: {', '.join(said)}."
    )


ABOUT = {
    "profile": "The size of the gradient of the matrix W2 in every layer of a transformer "
    "before its first update, a line for each place of the normalizer",
    "steps": "The loss of a transformer behind a first step of Adam against the size of that "
    "step, a line for each place of the normalizer",
}


def transformer(**settings: Any) -> Panel:
    """A transformer before its first update: stack layers, move its normalizers, change them.

    Args:
        settings: fields of :class:`TransformerState`: where the panel starts, and what Reset
            returns to.
    """
    state = TransformerState(**settings)
    return Panel(
        "transformer", "19", state, *arranged(), ABOUT, look, drawn, settable, least_width=600
    )


def arranged() -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        "places": Chips(tuple(PLACES), description="places", most=len(PLACES)),
        "depth": choice_slider("layers L", [(str(depth), depth) for depth in DEPTHS]),
        "kind": choice("kind", [(kind, kind) for kind in KINDS]),
    }
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:1], others[1:])]), controls


def drawn(state: TransformerState) -> dict[str, go.Figure]:
    """The figures of a state."""
    return {
        "profile": profile_figure(measure(state).profiles),
        "steps": first_steps_figure(STEPS, stepped(state)),
    }


def look(state: TransformerState) -> View:
    """The view of a state."""
    measurement = measure(state)
    profiles = measurement.profiles
    drawing = Drawing(
        profile_traces(profiles),
        profile_layout(profiles),
    )
    return View(
        sentence=sentence(state, measurement),
        titles=dict.fromkeys(("profile", "steps"), conditions(state)),
        drawings={"profile": drawing},
        late={"steps": lambda: moved(state)},
    )


def moved(state: TransformerState) -> Drawing:
    """The first steps of a state: thirty-three losses take longer than a slider may."""
    losses = stepped(state)
    return Drawing(
        first_steps_traces(STEPS, losses),
        first_steps_layout(losses),
    )


def settable(state: TransformerState) -> list[Settable]:
    """The control that works without a kernel: the depth."""
    depths = {str(depth): depth for depth in DEPTHS}
    return [Settable("layers L", depths, str(state.depth), TransformerState.at)]


# A transformer at its start: gradients from layer to layer, and the loss behind a step.


LEAST = 0.3
"""The power of ten at which the axis of losses begins: 2 nats, which no first step reaches."""

SLOTS = 4
"""The number of names that one picture holds."""

Spread = Mapping[str, np.ndarray]
"""Values by name, a row a draw (S, K)."""


def profile_figure(norms: Spread) -> go.Figure:
    """The norms of gradients by layer (S, L): lines are means, bands reach over the draws."""
    figure = _slots("layer %{x}: %{y:.3g}")
    fill(figure, profile_traces(norms))
    return figure.update_layout(profile_layout(norms))


def profile_traces(norms: Spread) -> Traces:
    """The traces of :func:`profile`."""
    layers = max((values.shape[1] for values in norms.values()), default=1)
    return _traces(np.arange(1.0, layers + 1), norms)


def profile_layout(norms: Spread) -> dict[str, Any]:
    """The axes and names of :func:`profile`."""
    layers = max((values.shape[1] for values in norms.values()), default=1)
    low, high = _held(norms, -1, 0.5)
    return _layout(norms) | {
        "xaxis": {
            "title": {"text": "layer, from the bottom"},
            "range": [0.5, layers + 0.5],
            "dtick": max(1, layers // 6),
            "fixedrange": True,
        },
        "yaxis": _powers(low, high) | {"title": {"text": "‖∂L/∂W<sub>2</sub>‖"}},
    }


def first_steps_figure(eta: np.ndarray, losses: Spread) -> go.Figure:
    """Losses (S, K) behind a first step of sizes eta (K,), in nats a character."""
    figure = _slots("η = %{x:.2g}: %{y:.3g} nats")
    fill(figure, first_steps_traces(eta, losses))
    return figure.update_layout(first_steps_layout(losses))


def first_steps_traces(eta: np.ndarray, losses: Spread) -> Traces:
    """The traces of :func:`first_steps`."""
    return _traces(eta, losses)


def first_steps_layout(losses: Spread) -> dict[str, Any]:
    """The axes and names of :func:`first_steps`."""
    _, high = _held(losses, LEAST, 1)
    return _layout(losses) | {
        "xaxis": {
            "title": {"text": "first step of Adam, η"},
            "type": "log",
            "dtick": 1,
            "exponentformat": "power",
            "fixedrange": True,
        },
        "yaxis": _powers(LEAST, high) | {"title": {"text": "loss behind it (nats)"}},
    }


def _slots(hover: str) -> go.Figure:
    figure = go.Figure(layout={"template": TEMPLATE, "height": 380})
    for slot in range(SLOTS):
        figure.add_scatter(
            name=f"band {slot}", mode="lines", fill="toself", opacity=0.18, showlegend=False,
            hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            name=f"mean {slot}", mode="lines+markers", showlegend=False,
            hovertemplate=f"{hover}<extra></extra>",
        )  # fmt: skip
    return figure


def _traces(at: np.ndarray, spread: Spread) -> Traces:
    looks, names = lines(spread), [*spread]
    traces: Traces = {}
    for slot in range(SLOTS):
        if slot >= len(names):
            traces[f"band {slot}"] = traces[f"mean {slot}"] = {"visible": False}
            continue
        name = names[slot]
        values = np.clip(spread[name], 10.0**-EDGE, 10.0**EDGE)
        color = looks[name]["color"]
        traces[f"band {slot}"] = {
            "x": np.concatenate([at, at[::-1]]),
            "y": np.concatenate([values.max(0), values.min(0)[::-1]]),
            "fillcolor": color,
            "line": {"width": 0, "color": color},
            "visible": True,
        }
        traces[f"mean {slot}"] = {
            "x": at,
            "y": values.mean(0),
            # the later a line, the thinner: none is hidden behind another
            "line": looks[name] | {"width": 2 + 1.5 * (len(names) - 1 - slot)},
            "marker": {"color": color, "size": 7},
            "visible": True,
        }
    return traces


def _layout(spread: Spread) -> dict[str, Any]:
    return {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 46},
        "annotations": [text_above(legend(spread), 0, 10, "left", {"size": 14})],
    }


def _held(spread: Spread, low: float, high: float) -> tuple[float, float]:
    """Powers of ten that hold all values, whole ones beyond ``low`` and ``high``."""
    for values in spread.values():
        logs = np.log10(values[np.isfinite(values) & (values > 0)])
        if logs.size and logs.min() < low:
            low = float(max(np.floor(logs.min()), -EDGE))
        if logs.size and logs.max() > high:
            high = float(min(np.ceil(logs.max()), EDGE))
    return low, high


def _powers(low: float, high: float) -> dict[str, Any]:
    # plotly would print a bare 2 and 5 between powers
    labelled = logarithmic([10.0**low, 10.0**high])
    return {**labelled, "range": [low, high], "fixedrange": True}
