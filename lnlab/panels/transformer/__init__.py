"""The panel of notebook 19: a transformer at its start, by depth, place and kind of norm."""

from .state import TransformerState
from .view import transformer

__all__ = ["TransformerState", "transformer"]
