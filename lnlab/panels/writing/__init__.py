"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

from .state import WritingState
from .view import writing

__all__ = ["WritingState", "writing"]
