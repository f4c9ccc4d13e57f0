"""Training: seeds side by side, one update at a time, resumed where it was killed."""

from lnlab.training.batches import Batches
from lnlab.training.course import found, shareable, train
from lnlab.training.loop import Step, cross_entropy, evaluate, evaluating, fit
from lnlab.training.progress import progress
from lnlab.training.ranks import first, launch
from lnlab.training.stacked import Stacked, stack
from lnlab.training.task import Task

__all__ = [
    "Batches",
    "Stacked",
    "Step",
    "Task",
    "cross_entropy",
    "evaluate",
    "evaluating",
    "first",
    "fit",
    "found",
    "launch",
    "progress",
    "shareable",
    "stack",
    "train",
]
