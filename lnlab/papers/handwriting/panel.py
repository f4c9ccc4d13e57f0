"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from lnlab.figures.style import (
    INK,
    MARK,
    NOTE_INK,
    SIZES,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
)
from lnlab.panels.old_controls import WIDTH, choice, choice_slider, in_columns, one_of
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.handwriting.data import Alphabet
from lnlab.papers.handwriting.evaluate import Ink, Scale, write
from lnlab.papers.handwriting.experiment import Handwriting
from lnlab.papers.handwriting.model import HandwritingNet
from lnlab.papers.handwriting.pen import Line, strokes
from lnlab.training.random_state import default_dtype
from lnlab.training.runs import Run, read

# The state of the writing panel: a text, how it is written, and how far the pen has come.


LAST = -1
NOBODY = -1


@dataclass(frozen=True)
class WritingState:
    """A text and how it is written.

    Attributes:
        text: what is written.
        bias: 0 draws from what a net holds likely; above, what is likely becomes likelier.
        update: of the training; the nearest at which there are nets. -1 is the last.
        like: the number of a line in whose hand it is written; -1: nobody's.
        pen: per cent of the points that are written.
    """

    text: str = "the lazy fox"
    bias: float = 1.0
    update: int = LAST
    like: int = NOBODY
    pen: int = 100

    def at(self, update: int) -> "WritingState":
        """The same at another stage of the training."""
        return replace(self, update=update)

    def biased(self, bias: float) -> "WritingState":
        """The same with another bias."""
        return replace(self, bias=bias)


# A line as it is written, point by point, and where the window is on the text.


SLOTS = 3
"""The number of writers that one picture holds."""
HEIGHT = 270
"""Pixels of a writer: its ink, and the window below it."""
POINTS = {"text": "points of the pen, in their order", "standoff": 6, "font": {"size": 12}}
"""The name of the axis along which a window moves, below the last one."""


@dataclass(frozen=True)
class Penned:
    """A line in the hand of one writer.

    Attributes:
        strokes: the places of the pen, stroke by stroke, each (N, 2).
        phi: the weight of each character at each point (T, U).
        text: what stands above it.
    """

    strokes: Sequence[np.ndarray]
    phi: np.ndarray
    text: str


def writing_figure(said: str, lines: Mapping[str, Penned], part: float = 1.0) -> go.Figure:
    """The ink of a text for each writer, and below it the window over its characters.

    Args:
        said: the text, U characters.
        lines: by writer, at most :data:`SLOTS`.
        part: how far the pen has come, from 0 to 1; what comes after is pale.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for slot in range(SLOTS):
        page, below = _axes(2 * slot), _axes(2 * slot + 1)
        for name, colour, width in (("rest", "#C9CED6", 1.2), ("ink", INK, 2.0)):
            figure.add_scatter(
                name=f"{name} {slot}", mode="lines+markers", hoverinfo="skip",
                line={"color": colour, "width": width}, marker={"size": width + 1}, **page,
            )  # fmt: skip
        figure.add_scatter(
            name=f"pen {slot}", mode="markers", hoverinfo="skip",
            marker={"size": 11, "color": VERMILLION}, **page,
        )  # fmt: skip
        figure.add_heatmap(
            name=f"window {slot}", colorscale=SIZES, zmin=0, showscale=False,
            hovertemplate="point %{x}: %{z:.2f}<extra></extra>", **below,
        )  # fmt: skip
        figure.add_scatter(
            name=f"now {slot}", mode="lines", hoverinfo="skip",
            line={"color": VERMILLION, "width": 2}, **below,
        )  # fmt: skip
    fill(figure, writing_traces(said, lines, part))
    return figure.update_layout(writing_layout(said, lines))


def writing_traces(said: str, lines: Mapping[str, Penned], part: float = 1.0) -> Traces:
    """The traces of :func:`writing`."""
    traces, shown = Traces(), [*lines.values()]
    for slot in range(SLOTS):
        names = [f"{name} {slot}" for name in ("rest", "ink", "pen", "window", "now")]
        if slot >= len(shown):
            traces |= {name: {"visible": False} for name in names}
            continue
        line = shown[slot]
        T, U = line.phi.shape
        now = round(part * T)
        whole = joined(line.strokes)
        written = whole[: _place(line.strokes, now) + 1]
        drawn = (
            {"x": whole[:, 0], "y": whole[:, 1]},
            {"x": written[:, 0], "y": written[:, 1]},
            {"x": written[-1:, 0], "y": written[-1:, 1]},
            {"z": line.phi.T, "x": np.arange(1.0, T + 1), "y": np.arange(float(U))},
            {"x": np.array([now, now], float), "y": np.array([-0.5, U - 0.5])},
        )
        traces |= {
            name: new | {"visible": True} for name, new in zip(names, drawn, strict=True)
        }
    return traces


def joined(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Strokes as one line (N, 2) with gaps between them."""
    gap = np.full((1, 2), np.nan)
    return np.concatenate([row for stroke in strokes for row in (stroke, gap)])[:-1]


def _place(strokes: Sequence[np.ndarray], point: int) -> int:
    """The row of :func:`joined` at which a point is, counted from 0 for the first."""
    ends = np.cumsum([len(stroke) for stroke in strokes])
    return int(point + np.searchsorted(ends, point, side="right"))


def _axes(number: int) -> dict[str, str]:
    end = str(number + 1) if number else ""
    return {"xaxis": f"x{end}", "yaxis": f"y{end}"}


def writing_layout(said: str, lines: Mapping[str, Penned]) -> dict[str, Any]:
    """The axes, names and height of :func:`writing`."""
    shown = [*lines.items()]
    height = HEIGHT * max(1, len(shown)) + 48
    layout: dict[str, Any] = {
        "height": height, "margin": {"l": 60, "r": 12, "t": 6, "b": 42, "autoexpand": False},
        "annotations": [],
    }  # fmt: skip
    every = [joined(line.strokes) for line in lines.values()]
    low, high = (
        (np.nanmin(np.concatenate(every), 0), np.nanmax(np.concatenate(every), 0))
        if every
        else (np.zeros(2), np.ones(2))
    )
    for slot in range(SLOTS):
        there = slot < len(shown)
        count = max(1, len(shown))
        top = 1 - slot / count if there else 0.02
        block = 1 / count if there else 0.02
        page, below = 2 * slot, 2 * slot + 1
        (x, y), (x_w, y_w) = (
            [f"{axis}axis{number + 1 if number else ''}" for axis in "xy"]
            for number in (page, below)
        )
        ends = [f"{axis}{number + 1 if number else ''}" for number in (page, below)
                for axis in "xy"]  # fmt: skip
        quiet = {"visible": False, "fixedrange": True}
        layout[x] = quiet | {"anchor": ends[1], "range": [low[0] - 1, high[0] + 1]}
        layout[y] = quiet | {
            "anchor": ends[0], "domain": [top - 0.49 * block, top - 0.12 * block],
            "range": [low[1] - 1, high[1] + 1], "scaleanchor": ends[0],
        }  # fmt: skip
        T, U = shown[slot][1].phi.shape if there else (1, max(1, len(said)))
        layout[x_w] = {"anchor": ends[3], "range": [0.5, T + 0.5], "visible": there,
                       "fixedrange": True, "showgrid": False,
                       "title": POINTS if slot == len(shown) - 1 else {"text": ""}}  # fmt: skip
        layout[y_w] = {
            "anchor": ends[2], "domain": [top - 0.87 * block, top - 0.52 * block],
            "range": [U - 0.5, -0.5], "visible": there, "fixedrange": True, "showgrid": False,
            "tickvals": [*range(U)], "ticktext": [literal(one) for one in said],
            "tickfont": {"size": 9},
        }  # fmt: skip
        if there:
            name, line = shown[slot]
            text = f"<b>{literal(name)}</b>  {literal(line.text)}"
            layout["annotations"].append(
                {"text": text, "x": 0, "y": top - 0.02 * block, "xref": "paper",
                 "yref": "paper", "xanchor": "left", "yanchor": "top", "showarrow": False,
                 "font": {"size": 14, "color": INK}}
            )  # fmt: skip
    return layout


def window(
    said: str, looks: Mapping[str, np.ndarray], places: np.ndarray | None, *, made_on: str
) -> go.Figure:
    """The window of several nets over the characters of a line that somebody else wrote.

    Args:
        said: the text, U characters.
        looks: by title, the weight of each character at each point (T, U).
        places: the true character of each point (T,), drawn as a line; None: nobody knows.
        made_on: what stands below.
    """
    count = len(looks)
    figure = go.Figure(layout={"template": TEMPLATE, "height": 90 + 190 * count})
    for slot, (title, phi) in enumerate(looks.items()):
        end = str(slot + 1) if slot else ""
        T, U = phi.shape
        top = 1 - slot / count
        figure.add_heatmap(
            z=phi.T.astype(float), x=np.arange(1.0, T + 1), y=np.arange(float(U)),
            colorscale=SIZES, zmin=0, showscale=False, xaxis=f"x{end}", yaxis=f"y{end}",
            hovertemplate="point %{x}: %{z:.2f}<extra></extra>",
        )  # fmt: skip
        if places is not None:
            figure.add_scatter(
                x=np.arange(1.0, T + 1), y=places.astype(float), mode="lines", hoverinfo="skip",
                line={"color": MARK, "width": 2, "shape": "hv"}, showlegend=False,
                xaxis=f"x{end}", yaxis=f"y{end}",
            )  # fmt: skip
        figure.update_layout({
            f"xaxis{end}": {"anchor": f"y{end}", "range": [0.5, T + 0.5],
                            "showticklabels": slot == count - 1,
                            "title": POINTS if slot == count - 1 else {"text": ""}},
            f"yaxis{end}": {
                "anchor": f"x{end}", "domain": [top - 0.86 / count, top],
                "range": [U - 0.5, -0.5], "tickvals": [*range(U)],
                "ticktext": [literal(one) for one in said], "tickfont": {"size": 9},
            },
        })  # fmt: skip
        figure.add_annotation(
            text=literal(title), x=0, y=top, xref="paper", yref="paper", xanchor="left",
            yanchor="bottom", showarrow=False, font={"size": 13},
        )  # fmt: skip
    figure.add_annotation(
        text=literal(made_on), x=0, y=0, yshift=-52, xref="paper", yref="paper",
        xanchor="left", showarrow=False, font={"size": 12, "color": NOTE_INK},
    )  # fmt: skip
    return figure.update_layout(margin={"l": 60, "r": 12, "t": 40, "b": 66})


# Nets that can write, at several stages of their training; small ones come with lnlab.
#
# ``hands.safetensors`` beside this file has their weights in float16, and says which runs they
# are of and what made them. ``python -m lnlab.papers.handwriting.panel RUNS`` packs them anew.


SHIPPED = Path(__file__).with_name("hands.safetensors")


@dataclass(frozen=True, eq=False)
class Hands:
    """Nets of several arms, that were trained on the same lines.

    Attributes:
        nets: by arm, by the update after which they are.
        scale: mean and deviation of the offsets, each (2,).
        floor: of the deviations.
        made: the runs, and the commands that made them.
    """

    nets: Mapping[str, Mapping[int, HandwritingNet]]
    scale: Scale
    floor: float
    made: str

    @property
    def stages(self) -> tuple[int, ...]:
        """The updates after which every arm has a net."""
        return tuple(sorted(set.intersection(*(set(nets) for nets in self.nets.values()))))

    def write(
        self, arm: str, stage: int, text: str, *, bias: float, like: Line | None = None
    ) -> Ink:
        """A text in the hand of an arm; see :func:`lnlab.papers.handwriting.write`."""
        net = self.nets[arm][stage]
        return write(net, text, self.scale, bias=bias, floor=self.floor, like=like)


def of_runs(runs: Iterable[Run], data: str = "") -> Hands:
    """The nets of finished runs that have their weights; of several seeds the first.

    Args:
        runs: of the task ``handwriting``, of any arms and lengths.
        data: where their lines are, if not made here: ``unipen=PATH``.

    Raises:
        ValueError: if there are none, or they differ in their lines or their floor.
    """
    nets: dict[str, dict[int, HandwritingNet]] = {}
    made, floors, scales = [], set(), {}
    for run in runs:
        task = Handwriting.from_config(run.config, **({"data": data} if data else {}))
        dataset, seed = task.dataset(), task.seeds[0]
        net = task.load_model(run.weights(), dataset, seed)
        assert isinstance(net, HandwritingNet)
        metrics: Any = run.metrics()
        update = int(metrics["update"].max())
        nets.setdefault(task.norm, {})[update] = net
        made.append(command(task))
        floors.add(task.std_floor)
        scales[dataset.checksum] = dataset.scale
    if len(scales) != 1 or len(floors) != 1:
        raise ValueError(
            f"these runs are of {len(scales)} data sets and have {len(floors)} floors: give "
            "runs of one."
        )
    (scale,) = scales.values()
    return Hands(nets, scale, floors.pop(), "; ".join(made))


def command(task: Handwriting) -> str:
    """The command for a task that is the budget ``notebook`` but for arm, length and seed."""
    words = {"norm": task.norm, "updates": task.updates, "eval_every": task.eval_every,
             "seeds": ",".join(map(str, task.seeds))}  # fmt: skip
    told = " ".join(f"--set {name}={value}" for name, value in words.items())
    return f"lnlab train handwriting --budget notebook {told}"


def pack(runs: Iterable[Run], path: Path = SHIPPED) -> None:
    """Write the weights of runs as :func:`shipped` reads them, in float16."""
    runs = sorted(
        runs, key=lambda run: (run.config["norm"] != "none", run.config.get("updates", 0))
    )
    hands = of_runs(runs)
    weights = {
        f"{arm}/{stage}/{name}": value.half().contiguous()
        for arm, nets in hands.nets.items()
        for stage, net in nets.items()
        for name, value in net.named_parameters()
    }
    some = next(iter(next(iter(hands.nets.values())).values()))
    told = {
        "configs": {str(run.config["norm"]): dict(run.config) for run in runs},
        "scale": [part.tolist() for part in hands.scale],
        "alphabet": some.alphabet.characters,
        "floor": hands.floor,
        "made": hands.made,
    }
    save_file(weights, path, {"hands": json.dumps(told)})


def shipped(path: Path = SHIPPED) -> Hands:
    """The nets that come with lnlab, trained on words written here; no data are needed."""
    nets: dict[str, dict[int, HandwritingNet]] = {}
    with safe_open(path, "pt") as file:
        told = json.loads(file.metadata()["hands"])
        names = sorted({tuple(key.split("/")[:2]) for key in file.keys()})  # noqa: SIM118
        for arm, stage in names:
            net = _drawn(
                Handwriting.from_config(told["configs"][arm]), Alphabet(told["alphabet"])
            )
            for name, value in net.named_parameters():
                value.data.copy_(file.get_tensor(f"{arm}/{stage}/{name}"))
            nets.setdefault(arm, {})[int(stage)] = net
    order = [arm for arm in ("none", "layer") if arm in nets]
    scale = tuple(np.array(part) for part in told["scale"])
    return Hands(
        {arm: nets[arm] for arm in order}, (scale[0], scale[1]), told["floor"], told["made"]
    )


def _drawn(task: Handwriting, alphabet: Alphabet) -> HandwritingNet:
    """A net of a task's sizes in float32, whatever its weights."""
    with torch.random.fork_rng(devices=[]), default_dtype(torch.float32):
        return task.net(alphabet, 0.1).eval()


if __name__ == "__main__":
    pack(run for place in sys.argv[1:] for run in read(Path(place), "handwriting") if run.done)


# Texts in the hands of nets: a pure function of the panel's state.


BIASES = (0.0, 0.5, 1.0, 2.0, 5.0)
LONGEST = 40
"""Characters of a text."""

Asked = tuple[str, int, str, float, int]


class Writers:
    """Nets of several arms at several stages, and lines to write like.

    Args:
        hands: the nets.
        lines: whose hands can be gone on in; often empty.

    Raises:
        ValueError: if there are no nets, or more arms than a picture holds.
    """

    def __init__(self, hands: Hands, lines: Sequence[Line] = ()) -> None:
        if not 1 <= len(hands.nets) <= SLOTS or not hands.stages:
            raise ValueError(
                f"there are {len(hands.nets)} arms with {len(hands.stages)} common stages: "
                f"give 1 to {SLOTS}, at one stage at least."
            )
        self.hands, self.lines = hands, lines
        self._written: dict[Asked, Ink] = {}

    def whole(self, state: WritingState) -> WritingState:
        """A state with an update at which there are nets.

        Raises:
            ValueError: for a text or a line that cannot be written, a bias that is no choice.
        """
        if not 1 <= len(state.text.strip()) <= LONGEST:
            raise ValueError(f"text is {state.text!r}: give 1 to {LONGEST} characters.")
        one_of("bias", state.bias, BIASES)
        one_of("like", state.like, range(NOBODY, len(self.lines)))
        if not 0 <= state.pen <= 100:
            raise ValueError(f"pen is {state.pen}: give 0 to 100 per cent.")
        stages = self.hands.stages
        wanted = stages[-1] if state.update == LAST else state.update
        return state.at(min(stages, key=lambda stage: abs(stage - wanted)))

    def ink(self, arm: str, state: WritingState) -> Ink:
        """A text in the hand of an arm, written once."""
        text = state.text.strip()
        asked = arm, state.update, text, state.bias, state.like
        if asked not in self._written:
            like = None if state.like == NOBODY else self.lines[state.like]
            self._written[asked] = self.hands.write(
                arm, state.update, text, bias=state.bias, like=like
            )
        return self._written[asked]


class WritingMeasurement(NamedTuple):
    """Texts in the hands of nets.

    Attributes:
        text: what is written.
        lines: by arm.
        points: by arm, how many there are.
        ended: by arm, whether it came to the end of the text.
        part: how much of them is written.
    """

    text: str
    lines: dict[str, Penned]
    points: dict[str, int]
    ended: dict[str, bool]
    part: float


def measure(writers: Writers, state: WritingState) -> WritingMeasurement:
    """The measurement of a state; the one way into this room for a slider.

    Raises:
        ValueError: for a text that is too long, or has characters that no net learned.
    """
    state = writers.whole(state)
    inks = {arm: writers.ink(arm, state) for arm in writers.hands.nets}
    lines = {
        arm: Penned(
            strokes(ink.offsets),
            ink.phi,
            f"{len(ink.phi)} points"
            + ("" if ink.ended else ", cut before it came to the end of the text"),
        )
        for arm, ink in inks.items()
    }
    return WritingMeasurement(
        state.text.strip(), lines, {arm: len(ink.phi) for arm, ink in inks.items()},
        {arm: ink.ended for arm, ink in inks.items()}, state.pen / 100,
    )  # fmt: skip


# The sentence of the writing panel.


def sentence(state: WritingState, measurement: WritingMeasurement) -> str:
    """A sentence that says what was written, at which stage, and who came to its end."""
    told = "; ".join(
        f"{arm}: {points} points, "
        + ("the text came to its end" if measurement.ended[arm] else "cut off")
        for arm, points in measurement.points.items()
    )
    return (
        f"“{measurement.text}” after {state.update} updates, with bias {state.bias:g}. {told}."
    )


ABOUT = {
    "writing": (
        "A text as each net writes it, and below it where the window was on the characters at"
        " each point"
    ),
}
WIDE = {"style": {"description_width": WIDTH}, "layout": {"width": "376px"}}


def writing(hands: Hands, lines: Sequence[Line] = (), **settings: Any) -> Panel:
    """Type a text and see it written, point by point, by each arm at each stage.

    Args:
        hands: the nets, at most three arms.
        lines: lines in whose writers' hands the nets can go on.
        settings: fields of :class:`WritingState`: where the panel starts, and what Reset
            returns to.
    """
    writers = Writers(hands, lines)
    state = writers.whole(WritingState(**settings))
    updates = [(str(stage), stage) for stage in hands.stages]
    biases = [(f"{bias:g}", bias) for bias in BIASES]
    nobody = [("nobody", NOBODY)]
    people = [(f"{k + 1}: {line.text} ({line.writer})", k) for k, line in enumerate(lines)]
    controls: dict[str, Any] = {
        "text": ipywidgets.Text(description="text", continuous_update=False, **WIDE),
        "bias": choice_slider("bias", biases),
        "update": choice_slider("update", updates),
        "like": choice("hand of", nobody + people),
        "pen": ipywidgets.IntSlider(description="pen, %", min=0, max=100, **WIDE),
    }
    columns = (
        [controls["text"], controls["like"], moving(controls["pen"])],
        [controls["bias"], controls["update"], controls["pen"]],
    )
    arrangement: ipywidgets.DOMWidget = in_columns(*columns)

    def drawn(state: WritingState) -> dict[str, go.Figure]:
        shown = measure(writers, state)
        return {"writing": writing_figure(shown.text, shown.lines, shown.part)}

    def look(state: WritingState) -> View:
        shown = measure(writers, state)
        drawing = Drawing(
            writing_traces(shown.text, shown.lines, shown.part),
            writing_layout(shown.text, shown.lines),
        )
        title = f"after update {state.update}, bias {state.bias:g}"
        return View(sentence(state, shown), {"writing": title}, {"writing": drawing})

    def settable(state: WritingState) -> list[Settable]:
        return [
            Settable("update", dict(updates), str(state.update), WritingState.at),
            Settable("bias", dict(biases), f"{state.bias:g}", WritingState.biased),
        ]

    return Panel(
        "writing", "12", state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip


def moving(slider: ipywidgets.IntSlider) -> ipywidgets.Play:
    """The buttons that move a slider from its start to its end, in some ten seconds."""
    play = ipywidgets.Play(min=slider.min, max=slider.max, step=2, interval=200)
    play.observe(lambda change: setattr(slider, "value", change["new"]), "value")
    return play
