"""Training: seeds side by side, one update at a time, resumed where it was killed.

A name is imported when it is first asked for: to list runs takes no torch.
"""

from typing import TYPE_CHECKING

from lnlab.lazy import lazy

if TYPE_CHECKING:
    from lnlab.training.batches import Batches, BucketedBatches
    from lnlab.training.comparison import NormComparison, compare
    from lnlab.training.experiment import Evaluation, Experiment, setting
    from lnlab.training.random_state import read_device
    from lnlab.training.stacking import Stacked, stack
    from lnlab.training.trainer import (
        Step,
        build_initial_models,
        cross_entropy_per_model,
        evaluate,
        evaluation_mode,
        find_run,
        fit,
        train,
        train_steps,
    )

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Batches": ".batches",
        "BucketedBatches": ".batches",
        "Evaluation": ".experiment",
        "Experiment": ".experiment",
        "NormComparison": ".comparison",
        "Stacked": ".stacking",
        "Step": ".trainer",
        "compare": ".comparison",
        "cross_entropy_per_model": ".trainer",
        "evaluate": ".trainer",
        "evaluation_mode": ".trainer",
        "find_run": ".trainer",
        "fit": ".trainer",
        "build_initial_models": ".trainer",
        "read_device": ".random_state",
        "setting": ".experiment",
        "stack": ".stacking",
        "train": ".trainer",
        "train_steps": ".trainer",
    },
)
