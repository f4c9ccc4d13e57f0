"""The panel of notebook 13: where recognizers look while they learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import torch

from lnlab.figures.style import MARK, SIZES, TEMPLATE, Traces, fill, grid, literal, note
from lnlab.nn import mass
from lnlab.panels.old_controls import choice, choice_slider, in_columns, looks
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.las.filterbank import FILTERS, HOP
from lnlab.papers.las.recordings import Utterance
from lnlab.papers.las.synthesizer import SILENCE, WORDS
from lnlab.training.runs import Run

# The state of the attention panel: an utterance at one moment of the training.


LAST = -1


@dataclass(frozen=True)
class AttentionState:
    """One example at one moment of the training.

    Attributes:
        example: which utterance, from 0.
        epoch: of the training; the nearest at which it was looked at. -1 is the last.
    """

    example: int = 0
    epoch: float = LAST

    def at(self, epoch: float) -> "AttentionState":
        """The same at another moment."""
        return replace(self, epoch=epoch)

    def of(self, example: int) -> "AttentionState":
        """Another utterance at the same moment."""
        return replace(self, example=example)


# The attention of a speller over the sound while it spells, the truth drawn in.


SLOTS = 4
"""The number of attentions that one picture holds."""

COLUMNS = {"": "", " beside": "2"}
"""The numbers of the spectrogram's axes in each column, by what ends the traces' names."""

FIRST = 3
"""The number of the axes of the first attention."""


@dataclass(frozen=True)
class Spoken:
    """An utterance to look at.

    Attributes:
        title: what it is.
        spectrogram: log energies (T, filters).
        hop: seconds from one frame of it to the next.
        units: what was said.
        begins, ends: seconds of each unit; None where nobody knows.
    """

    title: str
    spectrogram: np.ndarray
    hop: float
    units: Sequence[str]
    begins: np.ndarray | None
    ends: np.ndarray | None


@dataclass(frozen=True)
class AttentionMap:
    """The attention of one recognizer.

    Attributes:
        alpha: (units, steps).
        step: seconds of one step.
        text: what stands above the picture, of this utterance.
        score: what stands beside the name, of all utterances.
    """

    alpha: np.ndarray
    step: float
    text: str
    score: str = ""


def attention_figure(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> go.Figure:
    """The spectrogram, and below it a heat-map for each recognizer, two in a row.

    With two in a row the spectrogram stands above both, on the time axis of what is below it.
    Orange boxes are where each unit was said.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "height": 760})
    for name, axis in COLUMNS.items():
        axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        figure.add_heatmap(name=f"sound{name}", colorscale="gray", showscale=False, **axes)
        figure.add_scatter(
            name=f"ends{name}", mode="lines", line={"color": MARK, "width": 1.5},
            hoverinfo="skip", showlegend=False, **axes,
        )  # fmt: skip
    for slot in range(SLOTS):
        axes = {"xaxis": f"x{slot + FIRST}", "yaxis": f"y{slot + FIRST}"}
        figure.add_heatmap(
            name=f"attention {slot}", colorscale=SIZES, zmin=0, zmax=1, showscale=slot == 0,
            colorbar={"title": "attention", "len": 0.62, "y": 0, "yanchor": "bottom"},
            hovertemplate="%{x:.2f} s: %{z:.2f}<extra></extra>", **axes,
        )  # fmt: skip
        figure.add_scatter(
            name=f"truth {slot}", mode="lines", line={"color": MARK, "width": 1.5},
            hoverinfo="skip", showlegend=False, **axes,
        )  # fmt: skip
    fill(figure, attention_traces(spoken, attentions))
    return figure.update_layout(attention_layout(spoken, attentions))


def attention_traces(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> Traces:
    """The traces of :func:`attention`."""
    T, filters = spoken.spectrogram.shape
    sound = {
        "z": spoken.spectrogram.T,
        "x": spoken.hop * np.arange(T),
        "y": np.arange(1.0, filters + 1),
    }
    ends, traces = boundaries(spoken, filters), Traces()
    for number, name in enumerate(COLUMNS):
        there = number == 0 or len(attentions) > 1
        traces[f"sound{name}"] = sound | {"visible": there}
        traces[f"ends{name}"] = ends | {"visible": there and ends["visible"]}
    shown = list(attentions.values())
    for slot in range(SLOTS):
        if slot >= len(shown):
            traces[f"attention {slot}"] = traces[f"truth {slot}"] = {"visible": False}
            continue
        alpha, step = shown[slot].alpha, shown[slot].step
        traces[f"attention {slot}"] = {
            "z": alpha,
            "x": step * (np.arange(alpha.shape[1]) + 0.5),
            "y": np.arange(float(len(alpha))),
            "visible": True,
        }
        traces[f"truth {slot}"] = boxes(spoken) | {"visible": spoken.ends is not None}
    return traces


def boundaries(spoken: Spoken, filters: int) -> dict[str, Any]:
    """A line through the spectrogram at the end of each unit."""
    if spoken.begins is None or spoken.ends is None:
        return {"visible": False}
    at = np.unique(np.concatenate([spoken.begins, spoken.ends]))
    ends = np.tile([0.5, filters + 0.5, np.nan], len(at))
    return {"x": np.repeat(at, 3), "y": ends, "visible": True}


def boxes(spoken: Spoken) -> dict[str, Any]:
    """A box for each unit, from where it begins to where it ends, in its row."""
    if spoken.begins is None or spoken.ends is None:
        return {"x": [], "y": []}
    row = np.arange(len(spoken.units), dtype=float)
    gap = np.full(len(row), np.nan)
    left, right, low, high = spoken.begins, spoken.ends, row - 0.5, row + 0.5
    return {
        "x": np.stack([left, right, right, left, left, gap], 1).ravel(),
        "y": np.stack([low, low, high, high, low, gap], 1).ravel(),
    }


def attention_layout(spoken: Spoken, attentions: Mapping[str, AttentionMap]) -> dict[str, Any]:
    """The axes, names and titles of :func:`attention`."""
    T, filters = spoken.spectrogram.shape
    seconds, places = spoken.hop * T, _places()
    labels = [literal(unit) for unit in spoken.units]
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 56, "b": 46},
    }
    notes = [note(f"<b>{literal(spoken.title)}</b>", 0, 1.0, 34)]
    for axis in COLUMNS.values():
        x, y = f"xaxis{axis}", f"yaxis{axis}"
        there = {"visible": not axis or len(attentions) > 1, "fixedrange": True}
        layout[x] = places[x] | {"range": [0, seconds]} | there
        layout[y] = places[y] | {"range": [0.5, filters + 0.5]} | there
        if spoken.begins is not None and spoken.ends is not None:
            middle = (spoken.begins + spoken.ends) / 2
            named = {"tickvals": middle.tolist(), "ticktext": labels, "ticks": ""}
            layout[x] |= named | {"side": "top"}
    layout["yaxis"]["title"] = {"text": "mel filter"}
    if not attentions:
        layout["xaxis"]["domain"] = [0, places["xaxis2"]["domain"][1]]
    for slot, (name, attention) in enumerate(attentions.items()):
        x, y = f"xaxis{slot + FIRST}", f"yaxis{slot + FIRST}"
        lowest = slot + 2 >= len(attentions)
        layout[x] = places[x] | {
            "range": [0, seconds],
            "title": {"text": "seconds" if lowest else ""},
            "showticklabels": lowest,
            "fixedrange": True,
        }
        layout[y] = places[y] | {
            "range": [len(labels) - 0.5, -0.5],
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
            "fixedrange": True,
            "showgrid": False,
        }
        said = f"<b>{literal(name)}</b> {literal(attention.score)}"
        text = f"{said}<br>{literal(attention.text)}"
        place = places[x]["domain"][0], places[y]["domain"][1]
        notes.append(note(text, *place, 6) | {"align": "left"})
    for slot in range(len(attentions), SLOTS):
        layout[f"xaxis{slot + FIRST}"] = layout[f"yaxis{slot + FIRST}"] = {"visible": False}
    return layout | {"annotations": notes}


@cache
def _places() -> dict[str, dict[str, Any]]:
    """The sound and two attentions in each of two columns; right of them the colour bar."""
    right, last = {"r": 0.08}, {"b": 0.03}
    return grid(
        3, 2, specs=[[last, right | last], [{}, right], [last, right | last]],
        column_widths=[0.43, 0.51], horizontal_spacing=0.06,
        row_heights=[0.19, 0.3, 0.33], vertical_spacing=0.09,
    )  # fmt: skip


# The attention of recognizers in their training: a pure function of the panel's state.


WORD_OF = {phones: word for word, phones in WORDS.items()}
"""The words of the synthesised speech by their phones: no two words share them."""


def quoted_words(units: Sequence[str]) -> str:
    """Return the words that phones of the synthesised speech spell, in quotes; else nothing."""
    words = spell(tuple(units))
    return f"“{' '.join(words)}”" if words else ""


def spell(units: tuple[str, ...]) -> list[str] | None:
    """Return the words whose phones, with pauses between them, are ``units``, if any are."""
    if not units:
        return []
    if units[0] == SILENCE:
        return spell(units[1:])
    for end in range(1, len(units) + 1):
        word = WORD_OF.get(units[:end])
        rest = spell(units[end:]) if word else None
        if word and rest is not None:
            return [word, *rest]
    return None


class Recognizers:
    """Several trainings that kept what they attended to, and the utterances.

    Args:
        runs: by name, of the task ``las``; of several seeds the first counts.
        utterances: the test utterances of their data, the first first.

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """

    def __init__(self, runs: Mapping[str, Run], utterances: Sequence[Utterance]) -> None:
        self.rows, self.kept = looks(runs, "recognizers")
        self.steps = {
            name: HOP * 2 ** (run.config["encoder_layers"] - 1) for name, run in runs.items()
        }
        name, first = next(iter(self.rows.items()))
        self.epochs = tuple(first.epoch.tolist())
        self.utterances = utterances[: len(next(iter(self.kept[name].values())))]

    def whole(self, state: AttentionState) -> AttentionState:
        """A state with an epoch at which somebody looked.

        Raises:
            ValueError: for an example that is not there.
        """
        if not 0 <= state.example < len(self.utterances):
            raise ValueError(
                f"example is {state.example}: give 0 to {len(self.utterances) - 1}."
            )
        wanted = self.epochs[-1] if state.epoch == LAST else state.epoch
        return state.at(min(self.epochs, key=lambda epoch: abs(epoch - wanted)))

    def spoken(self, state: AttentionState) -> Spoken:
        """The utterance of a state."""
        utterance = self.utterances[state.example]
        words = quoted_words(utterance.units)
        return Spoken(
            title=f"{utterance.name}, {utterance.speaker}" + (words and f": {words}"),
            spectrogram=utterance.features[:, :FILTERS].numpy(),
            hop=HOP,
            units=utterance.units,
            begins=utterance.begins,
            ends=utterance.ends,
        )

    def attentions(self, state: AttentionState) -> dict[str, AttentionMap]:
        """The attention of each recognizer to it."""
        utterance = self.utterances[state.example]
        found = {}
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            kept = self.kept[name][int(row["update"])]
            alpha, step = kept[f"attention {state.example}"].astype(float), self.steps[name]
            alpha = alpha[:, : -(-utterance.frames // round(step / HOP))]
            text, score = "", f"({row.test_error:.0%} errors in the whole test)"
            if utterance.begins is not None and utterance.ends is not None:
                inside = mass(torch.tensor(alpha), step, utterance.begins, utterance.ends)
                text = f"{float(inside.mean()):.0%} of the attention inside the boxes"
            found[name] = AttentionMap(alpha, step, text, score)
        return found

    def heard(self, state: AttentionState) -> dict[str, str]:
        """The words that each of them heard in it."""
        said = {}
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            said[name] = " ".join(row.hypotheses[state.example])
        return said


class AttentionMeasurement(NamedTuple):
    """The attention and the words of recognizers for an utterance, at one moment.

    Attributes:
        spoken: the utterance.
        attentions: by recognizer, where it looked.
        heard: by recognizer, the units that it wrote, with spaces between them.
    """

    spoken: Spoken
    attentions: dict[str, AttentionMap]
    heard: dict[str, str]


def measure(recognizers: Recognizers, state: AttentionState) -> AttentionMeasurement:
    """The measurement of a state, as it was kept; the one way into this room for a slider."""
    return AttentionMeasurement(
        recognizers.spoken(state), recognizers.attentions(state), recognizers.heard(state)
    )


# The sentence of the attention panel, of an utterance and of those who heard it.


def sentence(state: AttentionState, measurement: AttentionMeasurement) -> str:
    """A sentence that says what each of the recognizers heard at that moment."""
    units = measurement.spoken.units
    said, words = " ".join(units), quoted_words(units)
    said = f"{words} ({said})" if words else said
    heard = "; ".join(f"{name}: {told(it)}" for name, it in measurement.heard.items())
    return f"Epoch {state.epoch:g}. Said: {said}. Heard by {heard}."


LONG = 16
"""The most units that are told of what a recognizer heard: one that never learned talks on."""


def told(heard: str) -> str:
    """The units that were heard, or the first of them and how many there are."""
    units = heard.split()
    if len(units) <= LONG:
        return heard or "(nothing)"
    return f"{' '.join(units[:LONG])} … ({len(units)} in all)"


ABOUT = {
    "attention": (
        "The spectrogram of an utterance, and for each recognizer its attention at every unit"
        " over time, with boxes where the unit was said"
    ),
}


def attention(
    runs: Mapping[str, Run], utterances: Sequence[Utterance], **settings: Any
) -> Panel:
    """Drag through the training of several recognizers, example by example.

    Args:
        runs: by name, at most four, of the task ``las``.
        utterances: the test utterances of their data.
        settings: fields of :class:`AttentionState`: where the panel starts, and what Reset
            returns to.
    """
    there = Recognizers(runs, utterances)
    state = there.whole(AttentionState(**settings))
    controls = {
        "example": choice(
            "example",
            [
                (f"{quoted_words(u.units)} {' '.join(u.units)}   ({u.name})".strip(), i)
                for i, u in enumerate(there.utterances)
            ],
        ),
        "epoch": choice_slider("epoch", [(f"{epoch:g}", epoch) for epoch in there.epochs]),
    }
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: AttentionState) -> dict[str, go.Figure]:
        spoken, attentions, _ = measure(there, state)
        return {"attention": attention_figure(spoken, attentions)}

    def look(state: AttentionState) -> View:
        measurement = measure(there, state)
        shown = measurement.spoken, measurement.attentions
        drawing = Drawing(
            attention_traces(*shown),
            attention_layout(*shown),
        )
        titles = {"attention": f"epoch {state.epoch:g}"}
        return View(sentence(state, measurement), titles, {"attention": drawing})

    def settable(state: AttentionState) -> list[Settable]:
        epochs = {f"{epoch:g}": epoch for epoch in there.epochs}
        said = {
            " ".join([f"{u.name}:", quoted_words(u.units), *u.units]).replace("  ", " "): i
            for i, u in enumerate(there.utterances)
        }
        example = [*said][state.example]
        return [
            Settable("epoch", epochs, f"{state.epoch:g}", AttentionState.at),
            Settable("example", said, example, AttentionState.of, slides=False),
        ]

    return Panel(
        "attention", "13", state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
