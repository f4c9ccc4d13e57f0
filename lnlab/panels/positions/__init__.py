"""The panel of notebook 05: units by their place in a map."""

from lnlab.panels.positions.state import PositionsState
from lnlab.panels.positions.view import positions

__all__ = ["PositionsState", "positions"]
