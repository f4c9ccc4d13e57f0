"""Listen, attend and spell: Chan et al. (2016), with layer norm as in Ben Othman (2018)."""

from lnlab.tasks.las.listener import Listener, OverFeatures, OverTime
from lnlab.tasks.las.net import ListenAttendSpell
from lnlab.tasks.las.speller import Speller
from lnlab.tasks.las.task import Spelling

__all__ = [
    "ListenAttendSpell",
    "Listener",
    "OverFeatures",
    "OverTime",
    "Speller",
    "Spelling",
]
