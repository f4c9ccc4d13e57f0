"""The panel of notebook 08: type a caption, and see where it lies."""

from collections.abc import Mapping
from typing import Any

import ipywidgets
import plotly.graph_objects as go

import lnlab.figures.order
from lnlab.data.captions import Captions
from lnlab.panels.controls import WIDTH, choice, in_columns
from lnlab.panels.order.measurement import Embedded, measure
from lnlab.panels.order.state import OrderState
from lnlab.panels.order.words import sentence
from lnlab.panels.panel import Drawing, Panel, Settable, View

ABOUT = {
    "order": (
        "The eight pictures nearest to a caption, framed by whether it is true of them; how "
        "far it lies beyond every picture; and captions that say less and more"
    ),
}


def order(
    nets: Mapping[str, Any], dataset: Captions, *, notebook: str = "08", **settings: Any
) -> Panel:
    """Type a caption, or choose one, and see the pictures below it and the captions around it.

    Args:
        nets: trained ones by name, of the task ``order_embeddings``.
        dataset: that they were trained on; its test pictures are shown.
        notebook: number of the one whose parameter ``panel`` takes the state; "": none.
        settings: fields of :class:`OrderState`: where the panel starts, and what Reset returns
            to.
    """
    there = Embedded(nets, dataset)
    state = there.whole(OrderState(**settings))
    controls = {
        "caption": ipywidgets.Combobox(
            options=there.examples, description="caption", continuous_update=False,
            placeholder="type a caption", style={"description_width": WIDTH},
            layout={"width": "476px"},
        ),
        "net": choice("net", [(name, name) for name in there.nets]),
    }  # fmt: skip
    arrangement: ipywidgets.DOMWidget = in_columns([*controls.values()])

    def drawn(state: OrderState) -> dict[str, go.Figure]:
        return {"order": lnlab.figures.order.order(*measure(there, state)[:6])}

    def look(state: OrderState) -> View:
        measurement = measure(there, state)
        shown = measurement[:6]
        drawing = Drawing(
            lnlab.figures.order.order_traces(*shown), lnlab.figures.order.order_layout(*shown)
        )
        titles = {"order": f"{measurement.caption}, {state.net}"}
        return View(sentence(state, measurement), titles, {"order": drawing})

    def settable(state: OrderState) -> list[Settable]:
        captions = {text: text for text in dict.fromkeys((state.caption, *there.examples))}
        nets = {name: name for name in there.nets}
        return [
            Settable("caption", captions, state.caption, OrderState.saying, slides=False),
            Settable("net", nets, state.net, OrderState.read_by, slides=False),
        ]

    return Panel(
        "order", notebook, state, arrangement, controls, ABOUT, look, drawn, settable,
    )  # fmt: skip
