"""Panels: functions that return one widget, to move in JupyterLab what a figure shows.

A panel is imported when it is first asked for. Those of the papers' experiments are in
``lnlab.papers``, each in the folder of its experiment.
"""

from lnlab.lazy import lazy

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
