"""The deep recurrent attentive writer, DRAW: pictures glimpse by glimpse, section 6.4."""

from lnlab.tasks.draw.net import MISTAKES, Draw, Drawn
from lnlab.tasks.draw.task import PictureDrawing

__all__ = ["MISTAKES", "Draw", "Drawn", "PictureDrawing"]
