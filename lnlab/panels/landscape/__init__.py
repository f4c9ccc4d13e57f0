"""The panel of notebook 16: the loss around a trained net."""

from .state import LandscapeState
from .view import landscape

__all__ = ["LandscapeState", "landscape"]
