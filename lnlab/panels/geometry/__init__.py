"""The panel of notebook 03: what a step costs, of the weights and of the gains."""

from .state import GeometryState
from .view import geometry

__all__ = ["GeometryState", "geometry"]
