"""Panels: functions that return one widget, to move in JupyterLab what a figure shows.

A panel is imported when it is first asked for. Those of the papers' experiments are in
``lnlab.papers``, each in the folder of its experiment.
"""

from typing import TYPE_CHECKING

from lnlab.lazy import lazy

if TYPE_CHECKING:
    from lnlab.panels.distributions_panel import distributions
    from lnlab.panels.geometry_panel import geometry
    from lnlab.panels.invariance_panel import invariance
    from lnlab.panels.landscape_panel import landscape
    from lnlab.panels.positions_panel import positions
    from lnlab.panels.recurrence_panel import recurrence

__all__ = [
    "distributions",
    "geometry",
    "invariance",
    "landscape",
    "positions",
    "recurrence",
]


__getattr__, __dir__ = lazy(
    __name__,
    {
        "distributions": ".distributions_panel",
        "geometry": ".geometry_panel",
        "invariance": ".invariance_panel",
        "landscape": ".landscape_panel",
        "positions": ".positions_panel",
        "recurrence": ".recurrence_panel",
    },
)
