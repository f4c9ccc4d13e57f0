"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
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
    axes,
    axis_number,
    literal,
    padded,
    slot_trace,
)
from lnlab.panels.controls import NARROW, choice, choice_slider, one_of
from lnlab.panels.panel import Panel, Shown
from lnlab.panels.playable import Figure
from lnlab.papers.handwriting.data import Alphabet
from lnlab.papers.handwriting.evaluate import Scale, WrittenLine, write
from lnlab.papers.handwriting.experiment import Experiment
from lnlab.papers.handwriting.model import HandwritingNet
from lnlab.papers.handwriting.pen import Line, strokes
from lnlab.papers.pictures import LAST, nearest
from lnlab.training.random_state import default_dtype
from lnlab.training.runs import Run, read

NOBODY = -1
BIASES = (0.0, 0.5, 1.0, 2.0, 5.0)
LONGEST = 40
"""Characters of a text."""
SLOTS = 3
"""The number of writers that one picture holds."""
HEIGHT = 270
"""Pixels of a writer: its ink, and the window below it."""
POINTS = {"text": "points of the pen, in their order", "standoff": 6, "font": {"size": 12}}
"""The name of the axis along which a window moves, below the last one."""


@dataclass(frozen=True)
class WritingState:
    """A text and how it is written.

    Attributes:
        text: what is written.
        bias: 0 draws from what a model holds likely; above, what is likely becomes likelier.
        update: of the training; the nearest at which there are models. -1 is the last.
        like: the number of a line in whose hand it is written; -1: nobody's.
        pen: per cent of the points that are written.
    """

    text: str = "the lazy fox"
    bias: float = 1.0
    update: int = LAST
    like: int = NOBODY
    pen: int = 100


# Models that can write, at several stages of their training; small ones come with lnlab.
#
# ``hands.safetensors`` beside this file has their weights in float16, and says which runs they
# are of and what made them. ``python -m lnlab.papers.handwriting.panel RUNS`` packs them anew.


SHIPPED = Path(__file__).with_name("hands.safetensors")


@dataclass(frozen=True, eq=False)
class Writers:
    """Models of several arms, that were trained on the same lines.

    Attributes:
        models: by arm, by the update after which they are.
        scale: mean and deviation of the offsets, each (2,).
        floor: of the deviations.
        made: the runs, and the commands that made them.
    """

    models: Mapping[str, Mapping[int, HandwritingNet]]
    scale: Scale
    floor: float
    made: str

    @property
    def stages(self) -> tuple[int, ...]:
        """The updates after which every arm has a model."""
        return tuple(
            sorted(set.intersection(*(set(models) for models in self.models.values())))
        )

    def write(
        self, arm: str, stage: int, text: str, *, bias: float, like: Line | None = None
    ) -> WrittenLine:
        """Write a text in the hand of an arm; see :func:`lnlab.papers.handwriting.write`."""
        net = self.models[arm][stage]
        return write(net, text, self.scale, bias=bias, floor=self.floor, like=like)


def load_writers(runs: Iterable[Run], data: str = "") -> Writers:
    """Return the models of finished runs that have their weights; of several seeds the first.

    Args:
        runs: of the task ``handwriting``, of any arms and lengths.
        data: where their lines are, if not made here: ``unipen=PATH``.

    Raises:
        ValueError: if there are none, or they differ in their lines or their floor.
    """
    models: dict[str, dict[int, HandwritingNet]] = {}
    made, floors, scales = [], set(), {}
    for run in runs:
        task = Experiment.from_config(run.config, **({"data": data} if data else {}))
        dataset, seed = task.dataset(), task.seeds[0]
        net = task.load_model(run.weights(), dataset, seed)
        assert isinstance(net, HandwritingNet)
        metrics: Any = run.metrics()
        update = int(metrics["update"].max())
        models.setdefault(task.norm, {})[update] = net
        made.append(command(task))
        floors.add(task.std_floor)
        scales[dataset.checksum] = dataset.scale
    if len(scales) != 1 or len(floors) != 1:
        raise ValueError(
            f"these runs are of {len(scales)} data sets and have {len(floors)} floors: give "
            "runs of one."
        )
    (scale,) = scales.values()
    return Writers(models, scale, floors.pop(), "; ".join(made))


def command(task: Experiment) -> str:
    """Return the command of a task: the budget ``notebook``, another arm, length or seed."""
    words = {"norm": task.norm, "updates": task.updates, "eval_every": task.eval_every,
             "seeds": ",".join(map(str, task.seeds))}  # fmt: skip
    options = " ".join(f"--set {name}={value}" for name, value in words.items())
    return f"lnlab train handwriting --budget notebook {options}"


def pack(runs: Iterable[Run], path: Path = SHIPPED) -> None:
    """Write the weights of runs as :func:`included_writers` reads them, in float16."""
    runs = sorted(
        runs, key=lambda run: (run.config["norm"] != "none", run.config.get("updates", 0))
    )
    writers = load_writers(runs)
    weights = {
        f"{arm}/{stage}/{name}": value.half().contiguous()
        for arm, models in writers.models.items()
        for stage, net in models.items()
        for name, value in net.named_parameters()
    }
    some = next(iter(next(iter(writers.models.values())).values()))
    metadata = {
        "configs": {str(run.config["norm"]): dict(run.config) for run in runs},
        "scale": [part.tolist() for part in writers.scale],
        "alphabet": some.alphabet.characters,
        "floor": writers.floor,
        "made": writers.made,
    }
    save_file(weights, path, {"hands": json.dumps(metadata)})


def included_writers(path: Path = SHIPPED) -> Writers:
    """Return the models that come with lnlab, trained on words written here, without data."""
    models: dict[str, dict[int, HandwritingNet]] = {}
    with safe_open(path, "pt") as file:
        metadata = json.loads(file.metadata()["hands"])
        names = sorted({tuple(key.split("/")[:2]) for key in file.keys()})  # noqa: SIM118
        for arm, stage in names:
            net = untrained(
                Experiment.from_config(metadata["configs"][arm]), Alphabet(metadata["alphabet"])
            )
            for name, value in net.named_parameters():
                value.data.copy_(file.get_tensor(f"{arm}/{stage}/{name}"))
            models.setdefault(arm, {})[int(stage)] = net
    order = [arm for arm in ("none", "layer") if arm in models]
    scale = tuple(np.array(part) for part in metadata["scale"])
    return Writers(
        {arm: models[arm] for arm in order},
        (scale[0], scale[1]),
        metadata["floor"],
        metadata["made"],
    )


def untrained(task: Experiment, alphabet: Alphabet) -> HandwritingNet:
    """Return a model of a task's sizes in float32, whatever its weights."""
    with torch.random.fork_rng(devices=[]), default_dtype(torch.float32):
        return task.net(alphabet, 0.1).eval()


# The panel.


class InkedLine(NamedTuple):
    """A line in the hand of one writer.

    Attributes:
        strokes: the places of the pen, stroke by stroke, each (N, 2).
        phi: the weight of each character at each point (T, U).
        text: what stands above it.
    """

    strokes: Sequence[np.ndarray]
    phi: np.ndarray
    text: str


def writing(writers: Writers, lines: Sequence[Line] = (), **settings: Any) -> Panel:
    """Return the panel of a text, written point by point by each arm at each stage.

    Args:
        hands: the models, at most three arms.
        lines: lines in whose writers' hands the models can go on.
        settings: fields of :class:`WritingState` to start with; Reset returns to them.

    Raises:
        ValueError: for a text that is too long or has characters that no net learned, and
            for models without a common stage.
    """
    if not 1 <= len(writers.models) <= SLOTS or not writers.stages:
        raise ValueError(
            f"there are {len(writers.models)} arms with {len(writers.stages)} common stages: "
            f"give 1 to {SLOTS}, at one stage at least."
        )

    @cache
    def write(arm: str, update: int, text: str, bias: float, like: int) -> WrittenLine:
        line = None if like == NOBODY else lines[like]
        return writers.write(arm, update, text, bias=bias, like=line)

    def show(state: WritingState) -> Shown:
        text = state.text.strip()
        if not 1 <= len(text) <= LONGEST:
            raise ValueError(f"text is {state.text!r}: give 1 to {LONGEST} characters.")
        inked, answers = {}, []
        for arm in writers.models:
            ink = write(arm, state.update, text, state.bias, state.like)
            points = f"{len(ink.phi)} points"
            cut = "" if ink.ended else ", cut before it came to the end of the text"
            inked[arm] = InkedLine(strokes(ink.offsets), ink.phi, points + cut)
            end = "the text came to its end" if ink.ended else "cut off"
            answers.append(f"{arm}: {points}, {end}")
        sentence = (
            f"“{text}” after {state.update} updates, with bias {state.bias:g}. "
            f"{'; '.join(answers)}."
        )
        title = f"after update {state.update}, bias {state.bias:g}"
        return Shown(ink_figure(text, inked, state.pen / 100), title, sentence)

    state = WritingState(**settings)
    one_of("bias", state.bias, BIASES)
    one_of("like", state.like, range(NOBODY, len(lines)))
    if not 0 <= state.pen <= 100:
        raise ValueError(f"pen is {state.pen}: choose a value from 0 to 100 %.")
    people = {f"{k + 1}: {line.text} ({line.writer})": k for k, line in enumerate(lines)}
    pen = ipywidgets.IntSlider(description="pen, %", min=0, max=100, **NARROW)
    controls = {
        "text": ipywidgets.Text(description="text", continuous_update=False, **NARROW),
        "like": choice("hand of", {"nobody": NOBODY} | people),
        "play": play_button(pen),
        "bias": choice_slider("bias", BIASES),
        "update": choice_slider("update", writers.stages),
        "pen": pen,
    }
    alt = (
        "A text as each net writes it, and below it where the window was on the characters at"
        " each point"
    )
    return Panel(
        replace(state, update=nearest(writers.stages, state.update)), controls, show,
        alt={"writing": alt}, notebook="12", on_page=["update", "bias"],
    )  # fmt: skip


def play_button(slider: ipywidgets.IntSlider) -> ipywidgets.Play:
    """Return buttons that move a slider from its start to its end, in some ten seconds."""
    play = ipywidgets.Play(min=slider.min, max=slider.max, step=2, interval=200)
    play.observe(lambda change: setattr(slider, "value", change["new"]), "value")
    return play


def writing_figure(line_text: str, lines: Mapping[str, InkedLine]) -> go.Figure:
    """Return a text in the hand of each writer, and below it the window on its characters.

    Args:
        line_text: the text, U characters.
        lines: by writer, at most three.
    """
    return go.Figure(ink_figure(line_text, lines))


def ink_figure(line_text: str, lines: Mapping[str, InkedLine], part: float = 1.0) -> Figure:
    """Return the figure of a text; ``part`` of each line is written, the rest is pale."""
    count, data, notes = max(1, len(lines)), [], []
    layout: dict[str, Any] = {
        "template": TEMPLATE, "showlegend": False, "height": HEIGHT * count + 48,
        "margin": {"l": 60, "r": 12, "t": 6, "b": 42, "autoexpand": False},
    }  # fmt: skip
    low, high = np.zeros(2), np.ones(2)
    if lines:
        every = np.concatenate([joined(line.strokes) for line in lines.values()])
        low, high = np.nanmin(every, 0), np.nanmax(every, 0)
    for slot, item in enumerate(padded(lines.items(), SLOTS)):
        page, below, shown = 2 * slot, 2 * slot + 1, item is not None
        top, block = (1 - slot / count, 1 / count) if shown else (0.02, 0.02)
        values: dict[str, dict[str, Any]] = {}
        T, U = 1, max(1, len(line_text))
        if item is not None:
            name, line = item
            T, U = line.phi.shape
            values = traces_of_line(line, part)
            text = f"<b>{literal(name)}</b>  {literal(line.text)}"
            notes.append({
                "text": text, "x": 0, "y": top - 0.02 * block, "xref": "paper", "yref": "paper",
                "xanchor": "left", "yanchor": "top", "showarrow": False,
                "font": {"size": 14, "color": INK},
            })  # fmt: skip
        tip, now = {"size": 11, "color": VERMILLION}, {"color": VERMILLION, "width": 2}
        kinds = {
            "rest": ("scatter", page, pen_line("#C9CED6", 1.2)),
            "ink": ("scatter", page, pen_line(INK, 2.0)),
            "pen": ("scatter", page, {"mode": "markers", "marker": tip}),
            "window": ("heatmap", below, {"colorscale": SIZES, "zmin": 0, "showscale": False}),
            "now": ("scatter", below, {"mode": "lines", "line": now}),
        }
        for kind, (type_, subplot, fixed) in kinds.items():
            hover = {"hoverinfo": "skip"}
            if kind == "window":
                hover = {"hovertemplate": "point %{x}: %{z:.2f}<extra></extra>"}
            key = f"{kind} {slot}"
            data.append(slot_trace(type_, key, subplot, values.get(kind), **fixed, **hover))
        quiet = {"visible": False, "fixedrange": True}
        y = {"domain": [top - 0.49 * block, top - 0.12 * block]}
        y |= {"range": [low[1] - 1, high[1] + 1], "scaleanchor": f"x{axis_number(page)}"}
        layout |= axes(page, quiet | {"range": [low[0] - 1, high[0] + 1]}, quiet | y)
        common = {"visible": shown, "fixedrange": True, "showgrid": False}
        last = slot == len(lines) - 1
        points = {"range": [0.5, T + 0.5], "title": POINTS if last else {"text": ""}}
        characters = {
            "domain": [top - 0.87 * block, top - 0.52 * block], "range": [U - 0.5, -0.5],
            "tickvals": [*range(U)], "ticktext": [literal(one) for one in line_text],
            "tickfont": {"size": 9},
        }  # fmt: skip
        layout |= axes(below, common | points, common | characters)
    return {"data": data, "layout": layout | {"annotations": notes}}


def pen_line(color: str, width: float) -> dict[str, Any]:
    """Return the look of a line of ink, whose single points are seen, too."""
    line = {"color": color, "width": width}
    return {"mode": "lines+markers", "line": line, "marker": {"size": width + 1}}


def traces_of_line(line: InkedLine, part: float) -> dict[str, dict[str, Any]]:
    """Return what is drawn of a line when ``part`` of its points are written."""
    T, U = line.phi.shape
    now, whole = round(part * T), joined(line.strokes)
    # the gaps between strokes are rows of the joined line, too
    ends = np.cumsum([len(stroke) for stroke in line.strokes])
    last = int(now + np.searchsorted(ends, now, side="right"))
    written = whole[: last + 1]
    return {
        "rest": {"x": whole[:, 0], "y": whole[:, 1]},
        "ink": {"x": written[:, 0], "y": written[:, 1]},
        "pen": {"x": written[-1:, 0], "y": written[-1:, 1]},
        "window": {"z": line.phi.T, "x": np.arange(1.0, T + 1), "y": np.arange(float(U))},
        "now": {"x": np.array([now, now], float), "y": np.array([-0.5, U - 0.5])},
    }


def joined(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Return strokes as one line (N, 2) with gaps between them."""
    gap = np.full((1, 2), np.nan)
    return np.concatenate([row for stroke in strokes for row in (stroke, gap)])[:-1]


def window(
    line_text: str,
    attention: Mapping[str, np.ndarray],
    positions: np.ndarray | None,
    *,
    made_on: str,
) -> go.Figure:
    """Return the window of several models over the characters of a line that was given.

    Args:
        line_text: the text, U characters.
        looks: by title, the weight of each character at each point (T, U).
        places: the true character of each point (T,), drawn as a line; None: nobody knows.
        made_on: what stands below.
    """
    count = len(attention)
    figure = go.Figure(layout={"template": TEMPLATE, "height": 90 + 190 * count})
    for slot, (title, phi) in enumerate(attention.items()):
        end = str(slot + 1) if slot else ""
        T, U = phi.shape
        top = 1 - slot / count
        figure.add_heatmap(
            z=phi.T.astype(float), x=np.arange(1.0, T + 1), y=np.arange(float(U)),
            colorscale=SIZES, zmin=0, showscale=False, xaxis=f"x{end}", yaxis=f"y{end}",
            hovertemplate="point %{x}: %{z:.2f}<extra></extra>",
        )  # fmt: skip
        if positions is not None:
            figure.add_scatter(
                x=np.arange(1.0, T + 1), y=positions.astype(float), mode="lines",
                hoverinfo="skip",
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
                "ticktext": [literal(one) for one in line_text], "tickfont": {"size": 9},
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


if __name__ == "__main__":
    pack(run for place in sys.argv[1:] for run in read(Path(place), "handwriting") if run.done)
