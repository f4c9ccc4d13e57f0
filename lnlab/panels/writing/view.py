"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

from collections.abc import Sequence
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.writing
from lnlab.data.line import Line
from lnlab.panels.controls import WIDTH, choice, choice_slider, in_columns
from lnlab.panels.panel import Drawing, Panel, Settable, View
from lnlab.panels.writing.hands import Hands
from lnlab.panels.writing.measurement import BIASES, Writers, measure
from lnlab.panels.writing.state import NOBODY, WritingState
from lnlab.panels.writing.words import sentence

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
        return {"writing": lnlab.figures.writing.writing(shown.text, shown.lines, shown.part)}

    def look(state: WritingState) -> View:
        shown = measure(writers, state)
        drawing = Drawing(
            lnlab.figures.writing.writing_traces(shown.text, shown.lines, shown.part),
            lnlab.figures.writing.writing_layout(shown.text, shown.lines),
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
