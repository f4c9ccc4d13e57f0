"""The panel of notebook 09: where readers look for an answer while they learn."""

from .state import ReadingState
from .view import reading

__all__ = ["ReadingState", "reading"]
