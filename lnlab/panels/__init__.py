"""Panels: functions that return one widget, to move in JupyterLab what a figure shows."""

from lnlab.panels.attention import attention
from lnlab.panels.distributions import distributions
from lnlab.panels.drawing import drawing
from lnlab.panels.geometry import geometry
from lnlab.panels.invariance import invariance
from lnlab.panels.landscape import landscape
from lnlab.panels.order import order
from lnlab.panels.positions import positions
from lnlab.panels.reading import reading
from lnlab.panels.recurrence import recurrence
from lnlab.panels.thoughts import thoughts
from lnlab.panels.transformer import transformer
from lnlab.panels.widgets import LivePlot
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
