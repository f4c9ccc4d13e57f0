"""The panel of notebook 09: where readers look for an answer while they learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lnlab.data.vocabulary import END, SPECIAL
from lnlab.figures.style import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    TEMPLATE,
    VERMILLION,
    Traces,
    fill,
    literal,
    note,
)
from lnlab.panels.old_controls import choice, choice_slider, in_columns, looks
from lnlab.panels.old_panel import Drawing, Panel, Settable, View
from lnlab.papers.attentive_reader.data import Question
from lnlab.training.runs import Run

# The state of the reading panel: a question at one moment of the training.


LAST = -1


@dataclass(frozen=True)
class ReadingState:
    """One question at one moment of the training.

    Attributes:
        question: which one, from 0.
        update: of the training; the nearest at which it was looked at. -1 is the last.
    """

    question: int = 0
    update: int = LAST

    def at(self, update: int) -> "ReadingState":
        """The same at another moment."""
        return replace(self, update=update)

    def of(self, question: int) -> "ReadingState":
        """Another question at the same moment."""
        return replace(self, question=question)


# A passage in words, and how much each of several readers looks at each of them.


SLOTS = 5
"""The number of readers that one picture holds."""
LETTERS = 92
"""Letters in a line of a passage."""
MARKER = [[at, f"rgba(242, 169, 0, {part})"] for at, part in ((0, 0), (0.15, 0.15), (1, 0.6))]
"""The scale of colours for attention: a marker through which words can be read, on paper and,
where it is dark, on a blackboard."""
FONT = {"family": "DejaVu Sans Mono, Menlo, Consolas, monospace", "size": 12}
INKS = (BLUE, VERMILLION, GREEN, PURPLE, "#7B3FA0", "#8C6D1F", "#C2185B", "#00664A", "#5A3A1A",
        "#3B4CC0")  # fmt: skip
"""The colours of entities, in the order of the candidates."""


@dataclass(frozen=True)
class Posed:
    """A question to look at.

    Attributes:
        words: of the passage, with what ends it.
        query: the sentence with a word missing.
        candidates: the words among which the missing one is.
        answer: the right one.
    """

    words: Sequence[str]
    query: str
    candidates: Sequence[str]
    answer: str


@dataclass(frozen=True)
class Look:
    """The attention of one reader.

    Attributes:
        alpha: at each word (T,).
        text: what stands above it: its answer.
    """

    alpha: np.ndarray
    text: str


def reading_figure(passage: Posed, looks: Mapping[str, Look]) -> go.Figure:
    """The passage once for each reader, marked where it looks; entities have colours.

    Clear is an attention of 0, full orange of 1.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "showlegend": False})
    for slot in range(SLOTS):
        axes = {
            "xaxis": f"x{slot + 1}" if slot else "x",
            "yaxis": f"y{slot + 1}" if slot else "y",
        }
        figure.add_heatmap(
            name=f"attention {slot}", colorscale=MARKER, zmin=0, zmax=1, showscale=False,
            ygap=3,
            hovertemplate="%{z:.3f}<extra></extra>", hoverongaps=False, **axes,
        )  # fmt: skip
        figure.add_scatter(
            name=f"words {slot}", mode="text", hoverinfo="skip",
**axes,
        )  # fmt: skip
    fill(figure, reading_traces(passage, looks))
    return figure.update_layout(reading_layout(passage, looks))


def reading_traces(passage: Posed, looks: Mapping[str, Look]) -> Traces:
    """The traces of :func:`reading`."""
    lines, begins = laid_out(passage.words)
    colours = dict(
        zip(passage.candidates, np.resize(INKS, len(passage.candidates)), strict=True)
    )
    shown, traces = [*looks.values()], Traces()
    for slot in range(SLOTS):
        if slot >= len(shown):
            traces[f"attention {slot}"] = traces[f"words {slot}"] = {"visible": False}
            continue
        grid = np.full((int(lines[-1]) + 1, LETTERS), np.nan)
        places = zip(passage.words, lines, begins, shown[slot].alpha, strict=True)
        for word, line, begin, alpha in places:
            grid[line, begin : begin + len(word)] = alpha
        middles = begins + np.array([len(word) - 1 for word in passage.words]) / 2
        traces[f"attention {slot}"] = {
            "z": grid, "x": np.arange(float(LETTERS)), "y": np.arange(float(len(grid))),
            "visible": True,
        }  # fmt: skip
        traces[f"words {slot}"] = {
            "x": middles,
            "y": lines.astype(float),
            "text": [literal(word) for word in passage.words],
            "textfont": FONT | {"color": [colours.get(word, INK) for word in passage.words]},
            "visible": True,
        }
    return traces


def laid_out(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The line of each word (T,), and the place of its first letter in it (T,)."""
    places, line, at = [], 0, 0
    for word in words:
        if at and at + len(word) > LETTERS:
            line, at = line + 1, 0
        places.append((line, at))
        at += len(word) + 1
    found = np.array(places)
    return found[:, 0], found[:, 1]


def reading_layout(passage: Posed, looks: Mapping[str, Look]) -> dict[str, Any]:
    """The axes, names and height of :func:`reading`."""
    rows = int(laid_out(passage.words)[0][-1]) + 1
    block = 20 * rows + 34  # pixels of a reader: its lines, and what is above them
    height = block * max(1, len(looks)) + 60
    inside = height - 60
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 12, "r": 12, "t": 50, "b": 10},
    }
    title = f"<b>{literal(passage.query)}</b>"
    notes = [note(title, 0, 1.0, 26)]
    for slot in range(SLOTS):
        end = str(slot + 1) if slot else ""
        top = 1 - (block * slot + 30) / inside
        low = max(0.0, top - 20 * rows / inside)
        there = slot < len(looks)
        quiet = {"visible": False, "fixedrange": True}
        layout[f"xaxis{end}"] = quiet | {"anchor": f"y{end}", "range": [-0.6, LETTERS - 0.4]}
        layout[f"yaxis{end}"] = quiet | {
            "anchor": f"x{end}",
            "domain": [low, top] if there else [0, 0.01],
            "range": [rows - 0.5, -0.5],
        }
    for slot, (name, look) in enumerate(looks.items()):
        top = 1 - (block * slot + 30) / inside
        notes.append(note(f"<b>{literal(name)}</b>  {literal(look.text)}", 0, top, 2))
    return layout | {"annotations": notes}


# The attention of readers in their training: a pure function of the panel's state.


class Readers:
    """Several trainings that kept what they looked at, and the questions.

    Args:
        runs: by name, of the task ``attentive_reader``; of several seeds the first counts.
        questions: the validation questions of their data, the first first.

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """

    def __init__(self, runs: Mapping[str, Run], questions: Sequence[Question]) -> None:
        self.rows, self.kept = looks(runs, "readers")
        name, first = next(iter(self.rows.items()))
        self.updates = tuple(int(update) for update in first["update"])
        self.questions = questions[: len(next(iter(self.kept[name].values())))]

    def whole(self, state: ReadingState) -> ReadingState:
        """A state with an update after which somebody looked.

        Raises:
            ValueError: for a question that is not there.
        """
        if not 0 <= state.question < len(self.questions):
            raise ValueError(
                f"question is {state.question}: give 0 to {len(self.questions) - 1}."
            )
        wanted = self.updates[-1] if state.update == LAST else state.update
        return state.at(min(self.updates, key=lambda update: abs(update - wanted)))

    def row(self, name: str, state: ReadingState) -> Any:
        """The metrics of a reader at the moment of a state."""
        rows = self.rows[name]
        return rows.iloc[(rows["update"] - state.update).abs().argmin()]


class Guessed(NamedTuple):
    """The answer of one reader: a candidate, its probability, and that of the right one."""

    candidate: str
    chance: float
    right: float


class ReadingMeasurement(NamedTuple):
    """The attention and the answers of readers to a question, at one moment.

    Attributes:
        passage: the question.
        looks: by reader, where it looked.
        said: by reader, its answer.
    """

    passage: Posed
    looks: dict[str, Look]
    said: dict[str, Guessed]


def measure(readers: Readers, state: ReadingState) -> ReadingMeasurement:
    """The measurement of a state, as it was kept; the one way into this room for a slider."""
    question = readers.questions[state.question]
    passage = Posed(
        (*question.passage.split(), SPECIAL[END]),
        question.query,
        question.candidates,
        question.answer,
    )
    looks, said = {}, {}
    for name in readers.rows:
        row = readers.row(name, state)
        # runs of before kept a chance of the end too, where others had more candidates
        own = row.candidate_probabilities[state.question][: len(question.candidates)]
        chances = [float(chance) for chance in own]
        best = int(np.argmax(chances))
        said[name] = Guessed(
            question.candidates[best],
            chances[best],
            chances[question.candidates.index(question.answer)],
        )
        alpha = readers.kept[name][int(row["update"])][f"attention {state.question}"]
        right = "right" if said[name].candidate == question.answer else (
            f"the right one, {question.answer}, {said[name].right:.0%}"
        )  # fmt: skip
        text = (
            f"says {said[name].candidate}, {said[name].chance:.0%} ({right}); of all "
            f"{row.valid_error:.0%} wrong"
        )
        looks[name] = Look(alpha.astype(float), text)
    return ReadingMeasurement(passage, looks, said)


# The sentence of the reading panel, of a question and of those who answered it.


def sentence(state: ReadingState, measurement: ReadingMeasurement) -> str:
    """A sentence that says what each of the readers answered at that moment."""
    answers = "; ".join(
        f"{name}: {said.candidate} ({said.chance:.0%})"
        for name, said in measurement.said.items()
    )
    passage = measurement.passage
    return f"Update {state.update}. {passage.query} Right: {passage.answer}. Said by {answers}."


ABOUT = {
    "reading": (
        "The words of a passage for each reader, marked where it looks for the word that is"
        " missing in the question, the stronger the more; entities have colours"
    ),
}


def reading(runs: Mapping[str, Run], questions: Sequence[Question], **settings: Any) -> Panel:
    """Drag through the training of several readers, question by question.

    Args:
        runs: by name, at most five, of the task ``attentive_reader``.
        questions: the validation questions of their data.
        settings: fields of :class:`ReadingState`: where the panel starts, and what Reset
            returns to.
    """
    there = Readers(runs, questions)
    state = there.whole(ReadingState(**settings))
    asked = {f"{k + 1}: {q.query}": k for k, q in enumerate(there.questions)}
    updates = [(str(update), update) for update in there.updates]
    controls = {
        "question": choice("question", [*asked.items()]),
        "update": choice_slider("update", updates),
    }
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: ReadingState) -> dict[str, go.Figure]:
        passage, looks, _ = measure(there, state)
        return {"reading": reading_figure(passage, looks)}

    def look(state: ReadingState) -> View:
        measurement = measure(there, state)
        shown = measurement.passage, measurement.looks
        drawing = Drawing(
            reading_traces(*shown),
            reading_layout(*shown),
        )
        titles = {"reading": f"after update {state.update}"}
        return View(sentence(state, measurement), titles, {"reading": drawing})

    def settable(state: ReadingState) -> list[Settable]:
        return [
            Settable("update", dict(updates), str(state.update), ReadingState.at),
            Settable("question", asked, [*asked][state.question], ReadingState.of,
                     slides=False),
        ]  # fmt: skip

    return Panel(
        "reading", "09", state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
