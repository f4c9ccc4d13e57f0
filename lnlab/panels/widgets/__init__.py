"""The parts of every panel: controls, plots that move in place, and the frame of both."""

from .live_plot import LivePlot
from .panel import Panel
from .view import Drawing, View

__all__ = ["Drawing", "LivePlot", "Panel", "View"]
