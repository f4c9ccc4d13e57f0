"""The panel of notebook 11: how nets draw a picture, glimpse by glimpse, while they learn."""

from .state import DrawingState
from .view import drawing

__all__ = ["DrawingState", "drawing"]
