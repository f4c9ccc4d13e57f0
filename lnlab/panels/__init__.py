"""Panels: functions that return one widget, to move in JupyterLab what a figure shows."""

from lnlab.panels.attention import attention
from lnlab.panels.distributions_panel import distributions
from lnlab.panels.drawing import drawing
from lnlab.panels.geometry_panel import geometry
from lnlab.panels.invariance_panel import invariance
from lnlab.panels.landscape_panel import landscape
from lnlab.panels.live_plot import LivePlot
from lnlab.panels.order import order
from lnlab.panels.positions_panel import positions
from lnlab.panels.reading import reading
from lnlab.panels.recurrence_panel import recurrence
from lnlab.panels.thoughts import thoughts
from lnlab.panels.transformer import transformer
from lnlab.panels.writing import writing

__all__ = [
    "LivePlot",
    "attention",
    "distributions",
    "drawing",
    "geometry",
    "invariance",
    "landscape",
    "order",
    "positions",
    "reading",
    "recurrence",
    "thoughts",
    "transformer",
    "writing",
]
