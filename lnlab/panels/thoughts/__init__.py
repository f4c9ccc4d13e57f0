"""The panel of notebook 10: a sentence among others while nets learn to tell neighbours."""

from .state import ThoughtsState
from .view import thoughts

__all__ = ["ThoughtsState", "thoughts"]
