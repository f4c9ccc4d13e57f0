"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from .listener import Listener, OverFeatures, OverTime
from .search import Said, search
from .speller import Attention, Heard, Speller, cross_entropy

__all__ = [
    "Attention",
    "Heard",
    "Listener",
    "OverFeatures",
    "OverTime",
    "Said",
    "Speller",
    "cross_entropy",
    "search",
]
