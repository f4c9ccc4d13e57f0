"""The panel of notebook 11: how nets draw a picture, glimpse by glimpse, while they learn."""

from lnlab.panels.drawing.state import DrawingState
from lnlab.panels.drawing.view import drawing

__all__ = ["DrawingState", "drawing"]
