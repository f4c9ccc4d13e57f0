"""Landscapes of a loss: lines, planes that can be turned, and paths on them."""

from .lines import bands, cuts, cuts_layout, cuts_traces
from .losses import outside
from .planes import plane, plane_layout, plane_traces, surfaces, trodden

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
