"""The panel of notebook 10: type a sentence, and drag through the training of several nets."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.thoughts
from lnlab.panels.controls import WIDTH, choice, choice_slider, in_columns
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.panels.thoughts.measurement import Thinkers, ThoughtsMeasurement, measure
from lnlab.panels.thoughts.state import ThoughtsState
from lnlab.panels.thoughts.words import sentence
from lnlab.tasks.thoughts.numbered import NumberedBooks

ABOUT = {
    "thoughts": (
        "A column for each net. Above, held-out sentences in the two directions in which their"
        " vectors differ most, those of one book joined in their order, the chosen sentence a"
        " star; below, the sentence that the net would let follow, and the nearest neighbours"
    ),
}
FIRST = 4
"""Sentences of a book that a page without a kernel can show."""


def thoughts(
    nets: Mapping[str, Mapping[int, Any]], numbered: NumberedBooks, **settings: Any
) -> Panel:
    """Type a sentence, or choose one, and see its neighbours change while nets are trained.

    Args:
        nets: of the task ``skip_thoughts``, by name, at most three, then by update.
        numbered: what they were trained on; its held-out sentences are shown.
        settings: fields of :class:`ThoughtsState`: where the panel starts, and what Reset
            returns to.
    """
    there = Thinkers(nets, numbered)
    state = there.whole(ThoughtsState(**settings))
    updates = [(str(update), update) for update in there.updates]
    books = {f"{k + 1}: {there.texts[book[0]]}": k for k, book in enumerate(there.books)}
    controls = {
        "sentence": ipywidgets.Combobox(
            options=[*dict.fromkeys(there.texts)], description="sentence",
            continuous_update=False, placeholder="type a sentence",
            style={"description_width": WIDTH}, layout={"width": "476px"},
        ),
        "book": choice("book", [*books.items()]),
        "update": choice_slider("update", updates),
    }  # fmt: skip
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def shown(measurement: ThoughtsMeasurement) -> tuple[Any, ...]:
        return measurement.sentence, measurement.texts, measurement.path, measurement.seen

    def drawn(state: ThoughtsState) -> dict[str, go.Figure]:
        return {"thoughts": lnlab.figures.thoughts.thoughts(*shown(measure(there, state)))}

    def look(state: ThoughtsState) -> View:
        measurement = measure(there, state)
        given = shown(measurement)
        drawing = Drawing(
            lnlab.figures.thoughts.thoughts_traces(*given),
            lnlab.figures.thoughts.thoughts_layout(*given),
        )
        titles = {"thoughts": f"“{measurement.sentence}” after update {state.update}"}
        return View(sentence(state, measurement), titles, {"thoughts": drawing})

    def settable(state: ThoughtsState) -> list[Settable]:
        of_book = [there.texts[place] for place in there.books[state.book]]
        sentences = {text: text for text in dict.fromkeys((state.sentence, *of_book[:FIRST]))}
        return [
            Settable("update", dict(updates), str(state.update), ThoughtsState.at),
            Settable("sentence", sentences, state.sentence, ThoughtsState.saying, slides=False),
        ]

    return Panel(
        "thoughts", "10", state, arrangement, controls, ABOUT, look, drawn, settable,
        least_width=780,
    )  # fmt: skip
