"""The panel of notebook 13: where recognizers look while they learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from lnlab.data.utterance import Utterance
from lnlab.figures.attending import attending, attending_layout, attending_traces
from lnlab.figures.playable import playable
from lnlab.figures.text import titled
from lnlab.runs import Run

from .attended import Attended, Recognizers
from .controls import choice, choice_slider, in_columns
from .live_plot import LivePlot
from .panel import Drawing, Panel, View

ABOUT = (
    "The spectrogram of an utterance, and for each recognizer its attention at every unit over "
    "time, with boxes where the unit was said"
)


def attention(
    runs: Mapping[str, Run], utterances: Sequence[Utterance], **settings: Any
) -> Panel:
    """Drag through the training of several recognizers, example by example.

    Args:
        runs: by name, at most four, of the task ``las``.
        utterances: the test utterances of their data.
        settings: fields of :class:`~lnlab.panels.attended.Attended`: where the panel starts.
    """
    there = Recognizers(runs, utterances)
    state = there.whole(Attended(**settings))
    controls = {
        "example": choice(
            "example",
            [(f"{' '.join(u.units)}   ({u.name})", i) for i, u in enumerate(there.utterances)],
        ),
        "epoch": choice_slider("epoch", [(f"{epoch:g}", epoch) for epoch in there.epochs]),
    }
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: Attended) -> go.Figure:
        return attending(there.spoken(state), there.attentions(state))

    def look(state: Attended) -> View:
        shown = there.spoken(state), there.attentions(state)
        drawing = Drawing(attending_traces(*shown), attending_layout(*shown))
        return View(there.sentence(state), {"attention": drawing})

    def still(state: Attended, play: bool) -> list[go.Figure]:
        figure = drawn(state)
        if play:
            frames = {
                f"{epoch:g}": {
                    name: {"z": new["z"]}
                    for name, new in attending_traces(
                        there.spoken(state), there.attentions(state.at(epoch))
                    ).items()
                    if "z" in new and name != "sound"
                }
                for epoch in there.epochs
            }
            figure = playable(figure, frames, "epoch ", there.epochs.index(state.epoch))
        return [titled(figure, f"epoch {state.epoch:g}")]

    plots = {"attention": LivePlot(drawn(state), ABOUT, least_width=900)}
    return Panel("attention", "13", state, controls, arrangement, plots, look, still)
