"""Panels: functions that return one widget, to move in JupyterLab what a figure shows.

A panel is imported when it is first asked for. Those of the papers' experiments are in
``lnlab.papers``, each in the folder of its experiment.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lnlab.panels.distributions_panel import distributions
    from lnlab.panels.geometry_panel import geometry
    from lnlab.panels.invariance_panel import invariance
    from lnlab.panels.landscape_panel import landscape
    from lnlab.panels.live_plot import LivePlot
    from lnlab.panels.positions_panel import positions
    from lnlab.panels.recurrence_panel import recurrence

__all__ = [
    "LivePlot",
    "distributions",
    "geometry",
    "invariance",
    "landscape",
    "positions",
    "recurrence",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "live_plot" if name == "LivePlot" else f"{name}_panel"
    return getattr(import_module(f"lnlab.panels.{module}"), name)
