"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from lnlab.panels.geometry.state import GeometryState
from lnlab.panels.geometry.view import geometry

__all__ = ["GeometryState", "geometry"]
