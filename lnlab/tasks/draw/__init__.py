"""The deep recurrent attentive writer, DRAW: pictures glimpse by glimpse, section 6.4."""

from .net import MISTAKES, Draw, Drawn
from .task import PictureDrawing

__all__ = ["MISTAKES", "Draw", "Drawn", "PictureDrawing"]
