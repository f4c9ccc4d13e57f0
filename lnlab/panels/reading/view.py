"""The panel of notebook 09: where readers look for an answer while they learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.reading
from lnlab.data.question import Question
from lnlab.panels.controls import choice, choice_slider, in_columns
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.panels.reading.measurement import Readers, measure
from lnlab.panels.reading.state import ReadingState
from lnlab.panels.reading.words import sentence
from lnlab.training.runs import Run

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
        return {"reading": lnlab.figures.reading.reading(passage, looks)}

    def look(state: ReadingState) -> View:
        measurement = measure(there, state)
        shown = measurement.passage, measurement.looks
        drawing = Drawing(
            lnlab.figures.reading.reading_traces(*shown),
            lnlab.figures.reading.reading_layout(*shown),
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
