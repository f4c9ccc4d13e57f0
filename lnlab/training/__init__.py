"""Training: seeds side by side, one update at a time, resumed where it was killed."""

from lnlab.training.batches import Batches
from lnlab.training.course import train
from lnlab.training.loop import Step, evaluate, evaluating, fit
from lnlab.training.progress import progress
from lnlab.training.stacked import Stacked, stack
from lnlab.training.task import Task

__all__ = [
    "Batches",
    "Stacked",
    "Step",
    "Task",
    "evaluate",
    "evaluating",
    "fit",
    "progress",
    "stack",
    "train",
]
