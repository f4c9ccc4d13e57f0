"""The panel of notebook 13: where recognizers look while they learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.attention
from lnlab.data.utterance import Utterance
from lnlab.panels.attention.measurement import Recognizers, measure, quoted_words
from lnlab.panels.attention.state import AttentionState
from lnlab.panels.attention.words import sentence
from lnlab.panels.controls import choice, choice_slider, in_columns
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.training.runs import Run

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
        return {"attention": lnlab.figures.attention.attention(spoken, attentions)}

    def look(state: AttentionState) -> View:
        measurement = measure(there, state)
        shown = measurement.spoken, measurement.attentions
        drawing = Drawing(
            lnlab.figures.attention.attention_traces(*shown),
            lnlab.figures.attention.attention_layout(*shown),
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
