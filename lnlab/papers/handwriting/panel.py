"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    QUIET,
    SIZES,
    VERMILLION,
    add_footnote,
    axis_name_suffix,
    base_layout,
    escape,
    subplot_axes,
    text_annotation,
    trace,
)
from lnlab.panels.controls import LABELLED, dropdown, options_slider, play_buttons
from lnlab.panels.panel import LastIfNone, Panel, make_settings
from lnlab.panels.playable import Figure, TitledFigure
from lnlab.papers.handwriting.data import Alphabet, OffsetMeanAndStd
from lnlab.papers.handwriting.evaluate import WrittenLine, write
from lnlab.papers.handwriting.experiment import Experiment
from lnlab.papers.handwriting.model import HandwritingNet
from lnlab.papers.handwriting.pen import Line, offsets_to_strokes
from lnlab.seeds import format_seeds
from lnlab.training.random_state import default_dtype
from lnlab.training.runs import Run, read

NOBODY = -1
BIASES = (0.0, 0.5, 1.0, 2.0, 5.0)
LONGEST = 40
"""The largest number of characters of a text."""
HEIGHT = 270
"""The heights in pixels of a network's handwriting and of the plot of attention below it."""
POINTS = {
    "text": "points of the pen, in the order of writing",
    "standoff": 6,
    "font": {"size": 12},
}
"""The label of the horizontal axis of the windows, drawn below the last window."""


@dataclass(frozen=True)
class WritingPanelSettings:
    """A text and how it is written."""

    text: str = "the lazy fox"
    # 0 draws from what a model holds likely; above, that becomes likelier
    sampling_bias: float = 1.0
    update: LastIfNone[int] = None  # of the training, one with models
    style_line: int = NOBODY  # the number of a line in whose hand it is written; -1: nobody's
    percent_written: int = 100  # per cent of the points that are written


# Models that can write, at several stages of their training; small ones come with lnlab.
#
# ``hands.safetensors`` beside this file has their weights in float16, and says which runs they
# are of and what made them. ``python -m lnlab.papers.handwriting.panel RUNS`` packs them anew.


SHIPPED = Path(__file__).with_name("hands.safetensors")


@dataclass(frozen=True, eq=False)
class WriterModels:
    """Models of several arms, that were trained on the same lines."""

    models_by_arm_and_update: Mapping[str, Mapping[int, HandwritingNet]]
    offset_mean_and_std: OffsetMeanAndStd  # mean and deviation of the offsets, each (2,)
    std_floor: float  # of the deviations
    commands_that_trained_models: str  # the commands that made the runs

    @property
    def shared_updates(self) -> tuple[int, ...]:
        """The updates after which every arm has a model."""
        return tuple(
            sorted(set.intersection(*map(set, self.models_by_arm_and_update.values())))
        )

    def write(
        self,
        arm: str,
        update: int,
        text: str,
        *,
        sampling_bias: float,
        style_line: Line | None = None,
    ) -> WrittenLine:
        """Write a text in the hand of an arm; see :func:`lnlab.papers.handwriting.write`."""
        net = self.models_by_arm_and_update[arm][update]
        return write(
            net, text, self.offset_mean_and_std, bias=sampling_bias,
            std_floor=self.std_floor, primer=style_line,
        )  # fmt: skip


def load_writers(runs: Iterable[Run], data: str = "") -> WriterModels:
    """Return the models of finished runs that have their weights; of several seeds the first.

    Args:
        runs: of the task ``handwriting``, of any arms and lengths.
        data: where their lines are, if not made here: ``unipen=PATH``.
    """
    models: dict[str, dict[int, HandwritingNet]] = {}
    commands_that_trained_models, floors, scales = [], set(), {}
    for run in runs:
        task = Experiment.from_config_ignoring_unknown(
            run.config, **({"data": data} if data else {})
        )
        dataset, seed = task.dataset(), task.seeds[0]
        metrics: Any = run.metrics()
        net: Any = task.load_model(run.weights(), dataset, seed)
        models.setdefault(task.norm, {})[int(metrics["update"].max())] = net
        words = {"norm": task.norm, "updates": task.updates, "eval_every": task.eval_every}
        words["seeds"] = format_seeds(task.seeds)
        options = " ".join(f"--set {option}={value}" for option, value in words.items())
        commands_that_trained_models.append(
            f"lnlab train handwriting --budget notebook {options}"
        )
        floors.add(task.std_floor)
        scales[dataset.checksum] = dataset.scale
    if len(scales) != 1 or len(floors) != 1:
        raise ValueError(
            f"these runs have {len(scales)} data sets and {len(floors)} values of std_floor: "
            "give runs with one data set and one std_floor."
        )
    (scale,), (floor,) = scales.values(), floors
    return WriterModels(models, scale, floor, "; ".join(commands_that_trained_models))


def save_writers(runs: Iterable[Run], path: Path = SHIPPED) -> None:
    """Write the weights of runs as :func:`load_included_writers` reads them, in float16."""
    runs = sorted(
        runs, key=lambda run: (run.config["norm"] != "none", run.config.get("updates", 0))
    )
    writers = load_writers(runs)
    weights = {
        f"{arm}/{update}/{name}": value.half().contiguous()
        for arm, models in writers.models_by_arm_and_update.items()
        for update, net in models.items()
        for name, value in net.named_parameters()
    }
    some = next(iter(next(iter(writers.models_by_arm_and_update.values())).values()))
    metadata = {
        "configs": {str(run.config["norm"]): dict(run.config) for run in runs},
        "scale": [part.tolist() for part in writers.offset_mean_and_std],
        "alphabet": some.alphabet.characters,
        "floor": writers.std_floor,
        "made": writers.commands_that_trained_models,
    }
    save_file(weights, path, {"hands": json.dumps(metadata)})


def load_included_writers(path: Path = SHIPPED) -> WriterModels:
    """Return the models that come with lnlab, trained on words written here, without data."""
    models: dict[str, dict[int, HandwritingNet]] = {}
    with safe_open(path, "pt") as file:
        metadata = json.loads(file.metadata()["hands"])
        names = sorted({tuple(key.split("/")[:2]) for key in file.keys()})  # noqa: SIM118
        for arm, update in names:
            task = Experiment.from_config_ignoring_unknown(metadata["configs"][arm])
            with torch.random.fork_rng(devices=[]), default_dtype(torch.float32):
                net = task.make_net(Alphabet(metadata["alphabet"]), 0.1).eval()
            for name, value in net.named_parameters():
                value.data.copy_(file.get_tensor(f"{arm}/{update}/{name}"))
            models.setdefault(arm, {})[int(update)] = net
    mean, deviation = map(np.array, metadata["scale"])
    in_order = {arm: models[arm] for arm in ("none", "layer") if arm in models}
    scale = OffsetMeanAndStd(mean, deviation)
    return WriterModels(in_order, scale, metadata["floor"], metadata["made"])


# The panel.


class InkedLine(NamedTuple):
    """A line in the hand of one writer."""

    strokes: Sequence[np.ndarray]  # the places of the pen, stroke by stroke, each (N, 2)
    phi: np.ndarray  # the weight of each character at each point (T, U)
    text_above: str
    true_char_index_per_point: np.ndarray | None = (
        None  # the true character at each point (T,), where known
    )


def writing(writers: WriterModels, style_lines: Sequence[Line] = (), **settings: Any) -> Panel:
    """Return the panel of a text, written point by point by each arm at each stage.

    Args:
        writers: the models.
        style_lines: lines in whose writers' hands the models can go on.
        settings: initial fields of :class:`WritingPanelSettings`; Reset restores them.
    """

    @cache
    def write(
        arm: str, update: int, text: str, sampling_bias: float, style_line: int
    ) -> WrittenLine:
        line = None if style_line == NOBODY else style_lines[style_line]
        return writers.write(arm, update, text, sampling_bias=sampling_bias, style_line=line)

    def draw(settings: WritingPanelSettings) -> TitledFigure:
        text = settings.text.strip()
        if not 1 <= len(text) <= LONGEST:
            raise ValueError(
                f"the text to write is {settings.text!r}: give 1 to {LONGEST} characters."
            )
        inked, answers = {}, []
        for arm in writers.models_by_arm_and_update:
            ink = write(arm, settings.update, text, settings.sampling_bias, settings.style_line)
            points = f"{len(ink.phi)} points"
            cut = "" if ink.reached_end_of_text else ", stopped before the end of the text"
            inked[arm] = InkedLine(offsets_to_strokes(ink.offsets), ink.phi, points + cut)
            end = "written to the end" if ink.reached_end_of_text else "stopped before the end"
            answers.append(f"{arm} {len(ink.phi)}, {end}")
        sentence = (
            f"“{text}”, written by networks after {settings.update} updates of training, with "
            f"sampling bias {settings.sampling_bias:g}. Number of points written: "
            f"{'; '.join(answers)}."
        )
        title = f"after update {settings.update}, sampling bias {settings.sampling_bias:g}"
        return TitledFigure(
            partly_written_figure(text, inked, settings.percent_written / 100), title, sentence
        )

    people = {f"{k + 1}: {line.text} ({line.writer})": k for k, line in enumerate(style_lines)}
    pen = ipywidgets.IntSlider(description="pen, %", min=0, max=100, **LABELLED)
    controls = {
        "text": ipywidgets.Text(description="text", continuous_update=False, **LABELLED),
        "style_line": dropdown("hand of", {"nobody": NOBODY} | people),
        "play": play_buttons(pen, step=2, interval_ms=200),  # some ten seconds in all
        "sampling_bias": options_slider("bias", BIASES),
        "update": options_slider("update", writers.shared_updates, start_at_last=True),
        "percent_written": pen,
    }
    alt = (
        "A text as each network writes it, and below it the network's window: the weight of "
        "each character of the text at each point of the pen"
    )
    return Panel(
        make_settings(WritingPanelSettings, settings), controls, draw,
        alt={"writing": alt}, notebook="12", on_page=["update", "sampling_bias"],
    )  # fmt: skip


def writing_figure(
    line_text: str, lines: Mapping[str, InkedLine], made_on: str = ""
) -> go.Figure:
    """Return a text in the hand of each writer, and below it the window on its characters.

    True characters are drawn as a line upon the window; ``made_on`` is printed below.
    """
    figure = go.Figure(partly_written_figure(line_text, lines))
    return add_footnote(figure, made_on) if made_on else figure


def partly_written_figure(
    line_text: str, lines: Mapping[str, InkedLine], fraction: float = 1.0
) -> Figure:
    """Return the figure of a text; ``fraction`` of each line is written, the rest is pale."""
    count, data, notes = len(lines), [], []
    layout = base_layout(HEIGHT * count + 48, 60, 12, 6, 42)
    layout["margin"]["autoexpand"] = False
    every = np.concatenate([join_strokes_with_gaps(line.strokes) for line in lines.values()])
    low, high = np.nanmin(every, 0) - 1, np.nanmax(every, 0) + 1
    tip, now = {"size": 11, "color": VERMILLION}, {"color": VERMILLION, "width": 2}
    silent = {"hoverinfo": "skip"}
    looks = {
        "rest": ("scatter", 0, ink_line_style("#C9CED6", 1.2) | silent),
        "ink": ("scatter", 0, ink_line_style(INK, 2.0) | silent),
        "pen": ("scatter", 0, {"mode": "markers", "marker": tip} | silent),
        "window": ("heatmap", 1, WINDOW),
        "now": ("scatter", 1, {"mode": "lines", "line": now} | silent),
    }
    for slot, (name, line) in enumerate(lines.items()):
        page, below, (T, U) = 2 * slot, 2 * slot + 1, line.phi.shape
        drawn = traces_of_line(line, fraction)
        data += [
            trace(kind, f"{what} {slot}", page + row, **look, **drawn[what])
            for what, (kind, row, look) in looks.items()
        ]
        if line.true_char_index_per_point is not None:
            data.append(trace(
                "scatter", f"truth {slot}", below, x=np.arange(1.0, T + 1), mode="lines",
                y=line.true_char_index_per_point.astype(float), hoverinfo="skip",
                line={"color": MARK, "width": 2, "shape": "hv"},
            ))  # fmt: skip
        top, block = 1 - slot / count, 1 / count
        text = f"<b>{escape(name)}</b>  {escape(line.text_above)}"
        notes.append(text_annotation(text, 0, top - 0.02 * block) | {"yanchor": "top"})
        y = {
            "domain": [top - 0.49 * block, top - 0.12 * block], "range": [low[1], high[1]],
            "scaleanchor": f"x{axis_name_suffix(page)}",
        }  # fmt: skip
        layout |= subplot_axes(page, QUIET | {"range": [low[0], high[0]]}, QUIET | y)
        fixed = {"fixedrange": True, "showgrid": False}
        labels = [escape(character) for character in line_text]
        characters = {"tickvals": [*range(U)], "ticktext": labels, "tickfont": {"size": 9}}
        points = {
            "range": [0.5, T + 0.5],
            "title": POINTS if slot == count - 1 else {"text": ""},
        }
        places = {"domain": [top - 0.87 * block, top - 0.52 * block], "range": [U - 0.5, -0.5]}
        layout |= subplot_axes(below, fixed | points, fixed | places | characters)
    return {"data": data, "layout": layout | {"annotations": notes}}


WINDOW = {
    "colorscale": SIZES, "zmin": 0, "showscale": False,
    "hovertemplate": "point %{x}: %{z:.2f}<extra></extra>",
}  # fmt: skip
"""The style of the heat map of the window: the weight of each character at each point."""


def ink_line_style(color: str, width: float) -> dict[str, Any]:
    """Return the look of a line of ink, whose single points are seen, too."""
    line = {"color": color, "width": width}
    return {"mode": "lines+markers", "line": line, "marker": {"size": width + 1}}


def traces_of_line(line: InkedLine, fraction: float) -> dict[str, dict[str, Any]]:
    """Return what is drawn of a line when ``fraction`` of its points are written."""
    T, U = line.phi.shape
    now, whole = round(fraction * T), join_strokes_with_gaps(line.strokes)
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


def join_strokes_with_gaps(strokes: Sequence[np.ndarray]) -> np.ndarray:
    """Return strokes as one line (N, 2) with gaps between them."""
    gap = np.full((1, 2), np.nan)
    return np.concatenate([row for stroke in strokes for row in (stroke, gap)])[:-1]


if __name__ == "__main__":
    save_writers(
        run for place in sys.argv[1:] for run in read(Path(place), "handwriting") if run.done
    )
