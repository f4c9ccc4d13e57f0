"""The panel of notebook 05: units by their place in a map."""

from .state import PositionsState
from .view import positions

__all__ = ["PositionsState", "positions"]
