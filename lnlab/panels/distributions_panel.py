"""The panel of notebook 15: distributions through depth, at every step of a training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lnlab.figures.curves import DARK, LIGHT
from lnlab.figures.style import (
    TEMPLATE,
    Traces,
    axis_number,
    fill,
    lines,
    literal,
    number,
    side_by_side,
    text_above,
)
from lnlab.panels.old_controls import Chips, choice, choice_slider, in_columns, one_of
from lnlab.panels.old_panel import Drawing, Panel, Settable, View

# The state of the distributions panel: recorded nets at one step of their training.


MOST = 4
WHAT = {"activations": "what f is given", "gradients": "gradient of the loss by it"}


@dataclass(frozen=True)
class DistributionsState:
    """Recorded nets at one moment.

    Attributes:
        net: which of the recorded kinds; "" is the first.
        arms: of that net, at most four; none: the first four.
        what: activations or gradients.
        step: the nearest one that was recorded is shown.

    Raises:
        ValueError: for a value that makes no sense.
    """

    net: str = ""
    arms: tuple[str, ...] = ()
    what: str = "activations"
    step: int = 0

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "arms", tuple(self.arms))
        one_of("what", self.what, WHAT)
        if len(self.arms) > MOST:
            raise ValueError(f"{len(self.arms)} arms: compare at most {MOST}.")

    def at(self, step: int) -> "DistributionsState":
        """The same at another step."""
        return replace(self, step=step)

    def of(self, net: str) -> "DistributionsState":
        """The same of another net."""
        return replace(self, net=net)

    def by(self, what: str) -> "DistributionsState":
        """The same with activations or gradients shown."""
        return replace(self, what=what)


# The records of several nets, step by step: a pure function of the panel's state.


class Recorded:
    """The records of several nets, ready to be looked at step by step.

    Args:
        frames: by kind of net and by arm, as
            :meth:`~lnlab.analysis.recorder.Recorder.frame` gives them, of activations and
            perhaps of gradients. Arms of a kind have the same steps and layers.

    Raises:
        ValueError: where there is nothing, or the steps of arms differ.
    """

    def __init__(self, frames: "Mapping[str, Mapping[str, pd.DataFrame]]") -> None:
        self.frames = frames
        if not frames or not all(frames.values()):
            raise ValueError("nothing was recorded: give a frame for each arm of each net.")
        self.arms = tuple(dict.fromkeys(arm for arms in frames.values() for arm in arms))
        self.steps = _common(frames)
        self.sections = lru_cache(maxsize=1000)(self._sections)

    def whole(self, state: DistributionsState) -> DistributionsState:
        """A state with everything said, and its step one that was recorded."""
        net = state.net or next(iter(self.frames))
        one_of("net", net, self.frames)
        for arm in state.arms:
            one_of("an arm", arm, self.frames[net])
        arms = state.arms or tuple(self.frames[net])[:MOST]
        step = min(self.steps, key=lambda recorded: abs(recorded - state.step))
        return replace(state, net=net, arms=arms, step=step)

    def _sections(self, state: DistributionsState) -> "dict[str, pd.DataFrame]":
        """The quantiles of a state: by arm, a row a layer, in the order of the net."""
        found = {}
        for arm in state.arms:
            frame: Any = self.frames[state.net].get(arm)
            if frame is None:
                continue
            layers = frame.loc[frame["what"] == "activations", "name"].unique()
            here = frame[(frame["step"] == state.step) & (frame["what"] == state.what)]
            by_name = here.drop_duplicates("name").set_index(
                "name"
            )  # of several calls the first
            found[arm] = by_name.reindex(sorted(layers, key=_parts)).dropna(subset=["q50"])
        return found

    def reach(self, state: DistributionsState) -> float:
        """Half the axis: of activations one for all steps, of gradients that of this one."""
        steps = self.steps if state.what == "activations" else (state.step,)
        edges = [
            np.abs(frame[["q05", "q95"]].to_numpy()).max(initial=0.0)
            for step in steps
            for frame in self.sections(state.at(step)).values()
        ]
        return 1.05 * max(edges, default=0.0) or 1.0


class DistributionsMeasurement(NamedTuple):
    """The records of one step.

    Attributes:
        sections: by arm: a row a layer, in the order of the net.
        reach: of the axis; every quantile lies between it and its negative.
    """

    sections: "dict[str, pd.DataFrame]"
    reach: float


def measure(recorded: Recorded, state: DistributionsState) -> DistributionsMeasurement:
    """The record of a state; the one way into this room for a slider."""
    return DistributionsMeasurement(recorded.sections(state), recorded.reach(state))


def _common(frames: "Mapping[str, Mapping[str, pd.DataFrame]]") -> Sequence[int]:
    steps = [
        tuple(sorted(f.step.unique().tolist()))
        for arms in frames.values()
        for f in arms.values()
    ]
    if len(set(steps)) > 1:
        raise ValueError("the nets were recorded at different steps: record all at the same.")
    return steps[0]


def _parts(name: str) -> list[tuple[int, str]]:
    """Parts of a name such that layer 10 comes behind layer 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


# The sentence of the distributions panel, of the layers of a net.


def conditions(state: DistributionsState) -> str:
    """The title: what is shown, in short."""
    return f"{state.net}: {WHAT[state.what]}, step {state.step}"


def sentence(state: DistributionsState, measurement: DistributionsMeasurement) -> str:
    """The width of the distribution of the last layer, against that of the first."""
    if not state.arms:
        return f"{conditions(state)}. Choose a normalizer to see its layers."
    sections = {arm: frame for arm, frame in measurement.sections.items() if len(frame)}
    if not sections:
        return f"{conditions(state)}. There is nothing to see of it."
    said = []
    for arm, frame in sections.items():
        widths = (frame["q95"] - frame["q05"]).to_numpy()
        said.append(f"{arm} {number(float(widths[-1] / widths[0])) if widths[0] else 'NaN'}")
    return (
        f"{conditions(state)}. From the first layer to the last its width changes by a factor "
        f"of: {', '.join(said)}."
    )


ABOUT = {
    "distributions": (
        "Quantiles of the summed inputs, or of their gradients, of every layer of a net at "
        "one step of its training, a panel for each normalizer"
    ),
}


def distributions(frames: "Mapping[str, Mapping[str, pd.DataFrame]]", **settings: Any) -> Panel:
    """Drag through a training, and see the distributions of all layers change.

    Args:
        frames: by kind of net and by arm, what a recorder gives.
        settings: fields of :class:`DistributionsState`: where the panel starts, and what Reset
            returns to.

    Raises:
        ValueError: for what was not recorded.
    """
    recorded = Recorded(frames)
    state = recorded.whole(DistributionsState(**settings))
    return Panel(
        "distributions", "15", state, *arranged(recorded), ABOUT,
        partial(look, recorded), partial(drawn, recorded), partial(settable, recorded),
    )  # fmt: skip


def arranged(recorded: Recorded) -> tuple[ipywidgets.DOMWidget, dict[str, Any]]:
    """The controls, and the box that holds them."""
    controls = {
        "arms": Chips(recorded.arms, description="normalizers", most=MOST),
        "step": choice_slider("step", [(str(step), step) for step in recorded.steps]),
        "net": choice("net", [(name, name) for name in recorded.frames]),
        "what": choice("shown", [(words, what) for what, words in WHAT.items()]),
    }
    first, *others = controls.values()
    return ipywidgets.VBox([first, in_columns(others[:1], others[1:])]), controls


def drawn(recorded: Recorded, state: DistributionsState) -> dict[str, go.Figure]:
    """The figure of a state."""
    sections, reach = measure(recorded, state)
    return {"distributions": distributions_figure(sections, reach=reach, y=WHAT[state.what])}


def look(recorded: Recorded, state: DistributionsState) -> View:
    """The view of a state."""
    measurement = measure(recorded, state)
    sections, reach = measurement
    layout = distributions_layout(sections, reach=reach, y=WHAT[state.what])
    return View(
        sentence=sentence(state, measurement),
        titles={"distributions": conditions(state)},
        drawings={"distributions": Drawing(distributions_traces(sections), layout)},
    )


def settable(recorded: Recorded, state: DistributionsState) -> list[Settable]:
    """The controls that work without a kernel: the step, the net, and what is shown of it."""
    steps = {str(step): step for step in recorded.steps}
    shown = {words: what for what, words in WHAT.items()}
    nets = {name: name for name in recorded.frames}
    return [
        Settable("step", steps, str(state.step), DistributionsState.at),
        Settable("net", nets, state.net, DistributionsState.of, slides=False),
        Settable("shown", shown, WHAT[state.what], DistributionsState.by, slides=False),
    ]


# Distributions through the depth of a net at one moment, as ribbons of quantiles.


SLOTS = 4
"""The number of nets that one picture holds."""

RIBBONS = {"wide": (*LIGHT, 0.18), "half": (*DARK, 0.35)}
"""The ribbons by the name of their traces: lower and upper edge, and opacity."""

Sections = Mapping[str, pd.DataFrame]
"""Quantiles by name: a row a layer, from first to last, with q05, q25, q50, q75 and q95."""


def distributions_figure(sections: Sections, *, reach: float, y: str) -> go.Figure:
    """Panels side by side, one a net: median, middle half and nine tenths of every layer.

    Args:
        sections: the layers of each net; at most four nets.
        reach: where the axis ends: it goes from -reach to reach.
        y: what the quantiles are of, with its unit.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 400})
    for slot in range(SLOTS):
        for name in (*RIBBONS, "median"):
            ribbon = name in RIBBONS
            figure.add_scatter(
                name=f"{name} {slot}", xaxis=f"x{slot + 1}", yaxis=f"y{slot + 1}",
                mode="lines" if ribbon else "lines+markers", showlegend=False,
                fill="toself" if ribbon else None, hoverinfo="skip" if ribbon else None,
                hovertemplate=None if ribbon else "layer %{x}: median %{y:.3g}<extra></extra>",
            )  # fmt: skip
    fill(figure, distributions_traces(sections))
    return figure.update_layout(distributions_layout(sections, reach=reach, y=y))


def distributions_traces(sections: Sections) -> Traces:
    """The traces of :func:`distributions`."""
    looks, names = lines(sections), list(sections)
    traces: Traces = {}
    for slot in range(SLOTS):
        if slot >= len(names):
            hidden = {f"{name} {slot}": {"visible": False} for name in (*RIBBONS, "median")}
            traces |= hidden
            continue
        frame, look = sections[names[slot]], looks[names[slot]]
        at = np.arange(1.0, len(frame) + 1)
        for name, (low, high, opacity) in RIBBONS.items():
            traces[f"{name} {slot}"] = {
                "x": np.concatenate([at, at[::-1]]),
                "y": np.concatenate([frame[high].to_numpy(), frame[low].to_numpy()[::-1]]),
                "fillcolor": look["color"],
                "opacity": opacity,
                "line": {"width": 0},
                "visible": True,
            }
        traces[f"median {slot}"] = {
            "x": at,
            "y": frame["q50"].to_numpy(),
            "line": look,
            "marker": {"color": look["color"], "size": 6},
            "visible": True,
        }
    return traces


def distributions_layout(sections: Sections, *, reach: float, y: str) -> dict[str, Any]:
    """The axes and titles of :func:`distributions`."""
    layout: dict[str, Any] = {"margin": {"l": 64, "r": 12, "t": 34, "b": 46}}
    looks, panels = lines(sections), side_by_side(max(1, len(sections)), 0.03)
    annotations = []
    for slot in range(SLOTS):
        axis, name = axis_number(slot), [*sections, *[None] * SLOTS][slot]
        left, right = panels[min(slot, len(panels) - 1)]
        layers = len(sections[name]) if name is not None else 1
        layout[f"xaxis{axis}"] = {
            "domain": [left, right],
            "anchor": f"y{axis}",
            "range": [0.7, layers + 0.3],
            "dtick": 1 if layers <= 6 else 2,
            "title": {"text": "layer"},
            "fixedrange": True,
            "visible": name is not None,
        }
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "range": [-reach, reach],
            "showticklabels": slot == 0,
            "exponentformat": "power",
            "title": {"text": literal(y) if slot == 0 else ""},
            "fixedrange": True,
            "visible": name is not None,
        }
        if name is not None:
            color = {"color": looks[name]["color"], "size": 14}
            title = f"<b>{literal(name)}</b>"
            annotations.append(text_above(title, (left + right) / 2, 4, "center", color))
    return layout | {"annotations": annotations}
