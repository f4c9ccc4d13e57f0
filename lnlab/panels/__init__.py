"""Panels: functions that return one widget, to move in JupyterLab what a figure shows."""

from .live_plot import LivePlot
from .what_stays import invariance

__all__ = ["LivePlot", "invariance"]
