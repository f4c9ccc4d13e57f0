"""Experiments: one file each, model included, whose fields are its hyper-parameters."""

from lnlab.tasks.las import Spelling
from lnlab.tasks.mnist import PermutationInvariantMNIST
from lnlab.tasks.sequences import SequentialDigits

TASKS = {task.name: task for task in (PermutationInvariantMNIST, SequentialDigits, Spelling)}
"""Names at the edge: the command line and the notebooks."""

__all__ = ["TASKS", "PermutationInvariantMNIST", "SequentialDigits", "Spelling"]
