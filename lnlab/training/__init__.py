"""Training: seeds side by side, one update at a time, resumed where it was killed."""

from lnlab.training.batches import Batches
from lnlab.training.buckets import Bucketed
from lnlab.training.clipping import clipped, clipped_each, rooted
from lnlab.training.hot import heated
from lnlab.training.loop import Step, cross_entropy, evaluate, evaluating, fit
from lnlab.training.machine import read_device
from lnlab.training.running import finish, found, train
from lnlab.training.settings import setting
from lnlab.training.stacked import Stacked, stack
from lnlab.training.task import Experiment, Moment

__all__ = [
    "Batches",
    "Bucketed",
    "Experiment",
    "Moment",
    "Stacked",
    "Step",
    "clipped",
    "clipped_each",
    "cross_entropy",
    "evaluate",
    "evaluating",
    "finish",
    "fit",
    "found",
    "heated",
    "read_device",
    "rooted",
    "setting",
    "stack",
    "train",
]
