"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from .listener import Listener, OverFeatures, OverTime
from .net import ListenAttendSpell
from .speller import Speller
from .task import Spelling

__all__ = [
    "ListenAttendSpell",
    "Listener",
    "OverFeatures",
    "OverTime",
    "Speller",
    "Spelling",
]
