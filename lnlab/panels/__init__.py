"""Panels: functions that return one widget, to move in JupyterLab what a figure shows."""

from .attention import attention
from .distributions import distributions
from .geometry import geometry
from .landscape import landscape
from .live_plot import LivePlot
from .through_time import recurrence
from .what_stays import invariance

__all__ = [
    "LivePlot",
    "attention",
    "distributions",
    "geometry",
    "invariance",
    "landscape",
    "recurrence",
]
