"""The panel of notebook 15: distributions through depth, at every step of a training."""

from .state import DistributionsState
from .view import distributions

__all__ = ["DistributionsState", "distributions"]
