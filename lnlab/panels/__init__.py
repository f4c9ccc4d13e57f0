"""Panels: functions that return one widget, to move in JupyterLab what a figure shows."""

from .attention import attention
from .distributions import distributions
from .drawing import drawing
from .geometry import geometry
from .invariance import invariance
from .landscape import landscape
from .order import order
from .positions import positions
from .reading import reading
from .recurrence import recurrence
from .thoughts import thoughts
from .transformer import transformer
from .widgets import LivePlot
from .writing import writing

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
