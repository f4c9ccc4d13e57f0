"""Experiments: one file each, model included, whose fields are its hyper-parameters."""

from lnlab.tasks.mnist import PermutationInvariantMNIST

TASKS = {"mnist": PermutationInvariantMNIST}
"""Names at the edge: the command line and the notebooks."""

__all__ = ["TASKS", "PermutationInvariantMNIST"]
