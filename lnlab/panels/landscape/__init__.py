"""The panel of notebook 16: the loss around a trained net."""

from lnlab.panels.landscape.state import LandscapeState
from lnlab.panels.landscape.view import landscape

__all__ = ["LandscapeState", "landscape"]
