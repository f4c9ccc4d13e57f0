"""The parts of every panel: controls, plots that move in place, and the frame of both."""

from lnlab.panels.widgets.live_plot import LivePlot
from lnlab.panels.widgets.panel import Panel
from lnlab.panels.widgets.view import Drawing, View

__all__ = ["Drawing", "LivePlot", "Panel", "View"]
