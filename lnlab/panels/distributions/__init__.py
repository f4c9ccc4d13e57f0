"""The panel of notebook 15: distributions through depth, at every step of a training."""

from lnlab.panels.distributions.state import DistributionsState
from lnlab.panels.distributions.view import distributions

__all__ = ["DistributionsState", "distributions"]
