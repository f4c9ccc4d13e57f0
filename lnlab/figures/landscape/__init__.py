"""Landscapes of a loss: lines, planes that can be turned, and paths on them."""

from lnlab.figures.landscape.lines import bands, cuts, cuts_layout, cuts_traces
from lnlab.figures.landscape.losses import outside
from lnlab.figures.landscape.planes import plane, plane_layout, plane_traces, surfaces, trodden

__all__ = [
    "bands",
    "cuts",
    "cuts_layout",
    "cuts_traces",
    "outside",
    "plane",
    "plane_layout",
    "plane_traces",
    "surfaces",
    "trodden",
]
