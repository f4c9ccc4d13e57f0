"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from .listener import Listener, OverFeatures, OverTime
from .net import ListenAttendSpell
from .search import Said, search
from .speller import Attention, Heard, Speller, cross_entropy
from .task import Spelling

__all__ = [
    "Attention",
    "Heard",
    "ListenAttendSpell",
    "Listener",
    "OverFeatures",
    "OverTime",
    "Said",
    "Speller",
    "Spelling",
    "cross_entropy",
    "search",
]
