"""The panel of notebook 10: a sentence among others while nets learn to tell neighbours."""

from lnlab.panels.thoughts.state import ThoughtsState
from lnlab.panels.thoughts.view import thoughts

__all__ = ["ThoughtsState", "thoughts"]
