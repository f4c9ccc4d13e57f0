"""Training: seeds side by side, one update at a time, resumed where it was killed.

A name is imported when it is first asked for: to list runs takes no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lnlab.training.batches import Batches, Bucketed
    from lnlab.training.experiment import Experiment, Moment, setting
    from lnlab.training.random_state import read_device
    from lnlab.training.stacking import Stacked, stack
    from lnlab.training.trainer import (
        Step,
        cross_entropy,
        evaluate,
        evaluating,
        finish,
        fit,
        found,
        train,
    )

__all__ = [
    "Batches",
    "Bucketed",
    "Experiment",
    "Moment",
    "Stacked",
    "Step",
    "cross_entropy",
    "evaluate",
    "evaluating",
    "finish",
    "fit",
    "found",
    "read_device",
    "setting",
    "stack",
    "train",
]

MODULES = {
    "Batches": "lnlab.training.batches",
    "Bucketed": "lnlab.training.batches",
    "Experiment": "lnlab.training.experiment",
    "Moment": "lnlab.training.experiment",
    "Stacked": "lnlab.training.stacking",
    "Step": "lnlab.training.trainer",
    "cross_entropy": "lnlab.training.trainer",
    "evaluate": "lnlab.training.trainer",
    "evaluating": "lnlab.training.trainer",
    "finish": "lnlab.training.trainer",
    "fit": "lnlab.training.trainer",
    "found": "lnlab.training.trainer",
    "read_device": "lnlab.training.random_state",
    "setting": "lnlab.training.experiment",
    "stack": "lnlab.training.stacking",
    "train": "lnlab.training.trainer",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)
